package retry

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// Trouble logs that something fails, and that it works again. It belongs to one goroutine.
type Trouble struct {
	Log           *slog.Logger
	Failing, Over string        // messages of the two log lines
	Remind        time.Duration // time until an error that lasts is logged again; 0 is a minute

	since, logged time.Time
	text          string // of the error that was logged last
}

// Repeat calls round at once and then after pauses of that length, and reports what comes of it. It returns nil when
// the context ends.
func (t *Trouble) Repeat(ctx context.Context, pause time.Duration, round func(context.Context) error) error {
	for {
		if err := round(ctx); ctx.Err() == nil {
			t.Report(err)
		}
		if Pause(ctx, pause) != nil {
			return nil
		}
	}
}

// Report takes the outcome of an attempt. It logs an error when it is new and again while it lasts, and the
// first success after errors.
func (t *Trouble) Report(err error, args ...any) {
	now := time.Now()
	switch {
	case err != nil:
		if t.since.IsZero() {
			t.since = now
		}
		if text := err.Error(); text != t.text || now.Sub(t.logged) >= cmp.Or(t.Remind, time.Minute) {
			t.text, t.logged = text, now
			t.Log.Warn(t.Failing, append([]any{"error", err}, args...)...)
		}
	case !t.since.IsZero():
		t.Log.Info(t.Over, append([]any{"after", now.Sub(t.since).Round(time.Millisecond)}, args...)...)
		t.since, t.text = time.Time{}, ""
	}
}
