package provision

import (
	"context"
	"log/slog"
	"time"
)

// Journal is a topic that is kept right: kafka.Journal.
type Journal interface {
	// Ensure does what is to be done, and returns it for people to read. It is harmless to repeat, and to do by several.
	Ensure(ctx context.Context) (done []string, err error)
}

// KeepJournal looks after a journal at once and then regularly, until ctx ends; then it returns nil. What goes wrong is
// logged, once until it is something else, and tried again.
func KeepJournal(ctx context.Context, j Journal, every time.Duration, log *slog.Logger) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for said := ""; ; {
		done, err := j.Ensure(ctx)
		for _, what := range done {
			log.Info("journal is looked after", "done", what)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			log.Warn("journal is not as it must be", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
