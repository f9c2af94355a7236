package blogexample

import (
	"context"
	"fmt"
)

// Run measures every pattern in every version, with both indexing policies, and what scales the fan-outs.
// Nothing outside the process is used.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, fmt.Errorf("blogexample: %w", err)
	}
	d := newDataset(cfg.Users, cfg.Seed)
	if len(d.posts) < FrontPage {
		return Report{}, fmt.Errorf("blogexample: %d users have %d posts, and the front page shows %d: take more users",
			cfg.Users, len(d.posts), FrontPage)
	}
	r := describe(cfg, d)
	for _, indexing := range []Indexing{IndexAll, IndexSelected} {
		for v := V1; v <= V3; v++ {
			cfg.progress("%s, %s", v, indexing)
			if err := cfg.version(ctx, d, v, indexing, &r); err != nil {
				return Report{}, fmt.Errorf("blogexample: %s with %s indexed: %w", v, indexing, err)
			}
		}
	}
	var err error
	if r.FanOut, err = cfg.fanOut(ctx); err != nil {
		return Report{}, fmt.Errorf("blogexample: fan-out: %w", err)
	}
	return r, nil
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, "measuring "+format+"\n", args...)
	}
}

func describe(cfg Config, d *dataset) Report {
	r := Report{
		Users: len(d.users), Posts: len(d.posts), Seed: cfg.Seed, Model: cfg.Model.String(),
		Partitions: cfg.PhysicalPartitions,
		Rows:       Rows{Q3: subjectPosts, Q4: subjectComments, Q5: subjectLikes, Q6: FrontPage},
	}
	for _, t := range d.posts {
		r.Comments += t.comments
		r.Likes += t.likes
	}
	subject := d.posts[0]
	r.Sizes = Sizes{len(encode(V2.post(subject.Post))), len(encode(V2.comment(d.commentsOf(subject)[0]))),
		len(encode(V2.like(d.likesOf(subject)[0])))}
	for _, p := range patterns {
		out := Pattern{Name: p.name, What: p.what, Measured: map[Indexing][]Cell{}}
		for i, f := range p.published {
			out.Published[i] = Measured{RUs: f.rus, Milliseconds: f.ms}
		}
		r.Patterns = append(r.Patterns, out)
	}
	return r
}

// version measures one version with one policy.
func (c Config) version(ctx context.Context, d *dataset, v Version, indexing Indexing, r *Report) error {
	b, err := Open(ctx, Setup{Version: v, Indexing: indexing, PhysicalPartitions: c.PhysicalPartitions, Model: c.Model})
	if err != nil {
		return err
	}
	defer b.Close()
	s := b.NewSpreader()
	if err := b.load(ctx, d, s); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	m := measuring{blog: b, data: d, repeats: c.Repeats}
	for i := range r.Patterns {
		p := &r.Patterns[i]
		cell, err := m.pattern(ctx, p.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		p.Measured[indexing] = append(p.Measured[indexing], cell)
	}
	if indexing != IndexAll || v == V1 {
		return nil
	}
	r.Rules = append(r.Rules, m.rules(r.Patterns, v)...)
	later, err := m.later(ctx, s)
	r.Later = append(r.Later, later...)
	return err
}
