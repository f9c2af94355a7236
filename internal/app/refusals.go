package app

import (
	"context"
	"log/slog"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/write"

	"golang.org/x/time/rate"
)

// refusalsEvery is the shortest time between two log lines about refused messages: a person who mends a message and
// sends the next one sees a line about that, too.
const refusalsEvery = 2 * time.Second

// Refusals logs that messages are refused, for a person who tries what `binnacle dev` accepts. It wraps the writer of
// dead letters.
type Refusals struct {
	ingest.DeadLetterWriter

	log   *slog.Logger
	see   string // how to see the refused messages
	lines rate.Sometimes
}

// NewRefusals returns Refusals without a writer.
func NewRefusals(log *slog.Logger, see string) *Refusals {
	return &Refusals{log: log, see: see, lines: rate.Sometimes{Interval: refusalsEvery}}
}

// Publish implements ingest.DeadLetterWriter.
func (r *Refusals) Publish(ctx context.Context, letters []write.DeadLetter) error {
	err := r.DeadLetterWriter.Publish(ctx, letters)
	if err == nil && len(letters) > 0 {
		last := letters[len(letters)-1].Bad
		r.lines.Do(func() {
			r.log.Warn("messages refused", "count", len(letters), "reason", last.Reason, "last", last.Detail, "see", r.see)
		})
	}
	return err
}
