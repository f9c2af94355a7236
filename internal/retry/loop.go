package retry

import (
	"context"
	"log/slog"
	"time"
)

// Loop repeats the work of a background service.
type Loop struct {
	// Log gets Failing, with the error, when a round fails, and Over when a round succeeds again.
	Log           *slog.Logger
	Failing, Over string
	// Remind is the time after which an error that lasts is logged again, one minute by default.
	Remind time.Duration

	// Every is the pause between two rounds.
	Every time.Duration
	// Next returns the length of the next pause. Default: Every.
	Next func() time.Duration
	// Spends says that rounds spend request units: pauses after a round without an error are paced.
	Spends bool
	// Delayed makes the first round wait for a pause. By default it begins at once.
	Delayed bool
}

// Run calls round again and again, with pauses between, and logs its errors. It returns nil when the context ends.
func (l Loop) Run(ctx context.Context, round func(context.Context) error) error {
	trouble := Trouble{Log: l.Log, Failing: l.Failing, Over: l.Over, Remind: l.Remind}
	for isFirst := true; ; isFirst = false {
		var err error
		if !isFirst || !l.Delayed {
			if err = round(ctx); ctx.Err() == nil {
				trouble.Report(err)
			}
		}
		pause := l.Every
		if l.Next != nil {
			pause = l.Next()
		}
		if l.Spends && err == nil {
			pause = Paced(ctx, pause)
		}
		if Pause(ctx, pause) != nil {
			return nil
		}
	}
}
