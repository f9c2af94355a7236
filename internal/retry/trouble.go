package retry

import (
	"cmp"
	"log/slog"
	"time"
)

// Trouble logs that something fails, and that it works again. It belongs to one goroutine.
type Trouble struct {
	Log *slog.Logger
	// Failing and Over are the messages of the two log lines.
	Failing, Over string
	// Remind is the time after which an error that lasts is logged again, one minute by default.
	Remind time.Duration

	// since is the time of the first error, logged that of the last log line, and text the error in it.
	since, logged time.Time
	text          string
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
