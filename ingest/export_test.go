package ingest

import (
	"context"

	"binnacle/internal/kafka"
)

// ErrRetake says that the log may be another one.
var ErrRetake = errRetake

// NewReader reads a partition from an offset on; what it returns is the offset to go on from.
func NewReader(topic *kafka.Topic, partition int) func(ctx context.Context, offset int64) (next int64, err error) {
	r := &reader{topic: topic, partition: partition}
	return func(ctx context.Context, offset int64) (int64, error) {
		b, err := r.fetch(ctx, offset)
		b.Release()
		return b.Next, err
	}
}
