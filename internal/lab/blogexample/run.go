// Package blogexample runs the example of Microsoft's article "How to model and partition data using a
// real-world example" on the embedded Cosmos DB: a blog in three versions of its data model. It measures every
// access pattern in request units and time, and compares the figures with the article's. It shows how access
// patterns drive a model, and it checks the emulator's charges against figures from elsewhere.
//
// It is a separate program, as a user of the emulator would write it: azcosmos and nothing of Binnacle's
// stores. It must not know telemetry. docs/start/demonstrate.md explains how to read it.
package blogexample

import (
	"context"
	"fmt"
	"io"
	"slices"

	"binnacle/internal/charges/ru"
	"binnacle/internal/settings"
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

// Config says how large the blog is. Its defaults take about half a minute. Its tags are package settings's.
type Config struct {
	Users              int      `help:"Number of users of the blog, each with 5 to 50 posts. The article has 100,000." default:"40"`
	PhysicalPartitions int      `help:"Number of physical partitions of every container." default:"5"`
	Seed               uint64   `help:"Seed of the data set." default:"1"`
	Model              ru.Model `name:"ru-model" help:"Model of charges by item size: step, where a size between two rows of the table of the service is charged as the next row, or slope, on a line between both." default:"step"`

	Progress io.Writer `kong:"-"` // a terminal that is shown how far it is; nil for none
}

// The smallest blog has more posts than the front page shows, or nearly: Run checks it. The largest is
// held in memory.
const (
	minUsers      = 8
	maxUsers      = 2_000
	maxPartitions = 100
)

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults settings.Faults
	faults.Within("users", c.Users, minUsers, maxUsers)
	faults.Within("physical partitions", c.PhysicalPartitions, 1, maxPartitions)
	return faults.Err()
}
