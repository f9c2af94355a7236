package provision

import (
	"context"
	"log/slog"
	"time"

	"binnacle/internal/retry"
)

// Journal is a topic that is kept right: kafka.Journal.
type Journal interface {
	// Ensure makes the changes that are missing, and returns them for people to read. Repeating it is harmless, as is
	// running several at once.
	Ensure(ctx context.Context) (done []string, err error)
}

// KeepJournal ensures a journal at once and then regularly, until ctx ends; then it returns nil. It logs what fails,
// and tries again.
func KeepJournal(ctx context.Context, j Journal, every time.Duration, log *slog.Logger) error {
	loop := retry.Loop{Every: every, Log: log, Failing: "journal is not as it must be",
		Over:   "journal is as it must be again",
		Remind: time.Hour}
	return loop.Run(ctx, func(ctx context.Context) error {
		done, err := j.Ensure(ctx)
		for _, what := range done {
			log.Info("journal changed", "done", what)
		}
		return err
	})
}
