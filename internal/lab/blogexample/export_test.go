package blogexample

import "context"

// Fronted counts what the feed container holds, which Newest would not show beyond the hundredth.
func (b *Blog) Fronted(ctx context.Context) (int, error) {
	var cost Cost
	n, err := ask[int](ctx, query{b.feed, "SELECT VALUE COUNT(1) FROM c", nil, key(typePost)}, &cost)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}
