package blogexample

import "context"

// Loaded opens a blog of the data set of a seed.
func Loaded(ctx context.Context, v Version, users int, seed uint64) (*Blog, error) {
	b, err := Open(ctx, Setup{Version: v, PhysicalPartitions: 3})
	if err != nil {
		return nil, err
	}
	return b, b.load(ctx, newDataset(users, seed))
}
