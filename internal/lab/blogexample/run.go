package blogexample

import (
	"context"
	"fmt"
	"slices"
)

// Run measures every pattern in every version. Nothing outside the process is used.
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
	for v := V1; v <= V3; v++ {
		cfg.progress("%s", v)
		if err := cfg.version(ctx, d, v, &r); err != nil {
			return Report{}, fmt.Errorf("blogexample: %s: %w", v, err)
		}
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
	r.Patterns = slices.Clone(published)
	return r
}

func (c Config) version(ctx context.Context, d *dataset, v Version, r *Report) error {
	b, err := Open(ctx, Setup{Version: v, PhysicalPartitions: c.PhysicalPartitions, Model: c.Model})
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.load(ctx, d); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	m := measuring{blog: b, data: d}
	for i := range r.Patterns {
		p := &r.Patterns[i]
		if p.Measured[v-V1], err = m.pattern(ctx, p.Name); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	if v > V1 {
		r.Rules = append(r.Rules, m.rules(r.Patterns, v)...)
	}
	return nil
}
