package blogexample

import (
	"context"
	"fmt"
)

// The numbers of physical partitions over which fan-outs are compared.
var scalePartitions = []int{1, 5, 25}

// scaleUsers is how many times the users of Config are stored for it: enough that every physical
// partition has more posts than the front page shows.
const scaleUsers = 5

// fanOut measures V2's queries without a partition key over several numbers of physical partitions, each
// with a tenth of the posts and with all. Only posts are stored: the index passes over all else.
func (c Config) fanOut(ctx context.Context) ([]FanOut, error) {
	d := newDataset(scaleUsers*c.Users, c.Seed)
	var out []FanOut
	for _, n := range scalePartitions {
		c.progress("fan-outs over %d physical partitions", n)
		rows, err := c.fanOutOver(ctx, d, n)
		if err != nil {
			return nil, fmt.Errorf("%d physical partitions: %w", n, err)
		}
		out = append(out, rows...)
	}
	return out, nil
}

func (c Config) fanOutOver(ctx context.Context, d *dataset, partitions int) ([]FanOut, error) {
	b, err := Open(ctx, Setup{Version: V2, Indexing: IndexAll, PhysicalPartitions: partitions, Model: c.Model})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var out []FanOut
	stored := 0
	for _, until := range []int{len(d.posts) / 10, len(d.posts)} {
		until = max(until, FrontPage)
		for ; stored < until; stored++ {
			if err := b.loadThread(ctx, d.posts[stored], nil, nil); err != nil {
				return nil, err
			}
		}
		_, q3, err := b.PostsOf(ctx, d.users[0].ID)
		if err != nil {
			return nil, err
		}
		_, q6, err := b.Newest(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, FanOut{Partitions: partitions, Posts: stored, Q3: q3.RUs, Q6: q6.RUs})
	}
	return out, nil
}
