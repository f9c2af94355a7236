package replay

import (
	"context"

	"binnacle/internal/kafka"
)

// Producer opens the seam between the publisher and Kafka to the tests.
type Producer = producer

// RunTo is Run with another producer.
func RunTo(ctx context.Context, cfg Config, to Producer) (Summary, error) { return run(ctx, cfg, to) }

// ParseTime is how a table's time column is read.
var ParseTime = parseTime

// Cell is how any other cell is read.
var Cell = cellValue

// RunLettersWith is RunDeadLetters with another way to produce.
func RunLettersWith(ctx context.Context, cfg Config,
	produce func(context.Context, *kafka.Topic, int, []kafka.Message) (int, error)) (DeadLetterSummary, error) {
	return runDeadLetters(ctx, cfg, produce)
}
