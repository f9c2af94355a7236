package ingest

import (
	"context"
)

// Fetch is one fetch of a partition: the offsets of the records in the answer, and the one to go on from.
func Fetch(ctx context.Context, b *Broker, partition int, from int64) (offsets []int64, next int64, err error) {
	x, err := b.fetcher(partition).fetch(ctx, from)
	for _, r := range x.records {
		offsets = append(offsets, r.Offset)
	}
	return offsets, x.next, err
}
