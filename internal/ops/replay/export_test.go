package replay

import (
	"context"

	"binnacle/internal/kafka"
	"binnacle/internal/telemetry"
)

// Batch and Producer open the seam between the publisher and Kafka to the tests.
type (
	Batch    = batch
	Producer = producer
)

// RunTo is Run with another producer.
func RunTo(ctx context.Context, cfg Config, to Producer) (Summary, error) { return run(ctx, cfg, to) }

// Messages are the keys and values of a batch.
func Messages(b *Batch) (keys, values []string) {
	begin := 0
	for _, e := range b.ends {
		keys = append(keys, string(b.bytes[begin:e.key]))
		values = append(values, string(b.bytes[e.key:e.value]))
		begin = e.value
	}
	return keys, values
}

// ParseTime is how a table's time column is read.
var ParseTime = parseTime

// Cell is how any other cell of a table of others is read.
func Cell(s string) (telemetry.Value, bool) { return csvCell{text: s}.value(false) }

// Grants are the backfills that the records of a batch belong to.
func Grants(b *Batch) (out []string) {
	for _, e := range b.ends {
		out = append(out, e.grant)
	}
	return out
}

// RunLettersWith is RunDeadLetters with another way to produce.
func RunLettersWith(ctx context.Context, cfg Config,
	produce func(context.Context, *kafka.Topic, int, []kafka.Message) (int, error)) (DeadLetterSummary, error) {
	return runDeadLetters(ctx, cfg, produce)
}
