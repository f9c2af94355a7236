package retry

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
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

type paceKey struct{}

// WithPace returns a context under which background work that spends request units pauses for as long as pace makes of
// its pauses.
func WithPace(ctx context.Context, pace func(time.Duration) time.Duration) context.Context {
	return context.WithValue(ctx, paceKey{}, pace)
}

// Paced returns the length of a pause of background work under a context: the pause itself without a pace.
func Paced(ctx context.Context, pause time.Duration) time.Duration {
	if pace, ok := ctx.Value(paceKey{}).(func(time.Duration) time.Duration); ok {
		return pace(pause)
	}
	return pause
}

// RUPacer keeps requests at an average rate of request units: the caller waits after each request for the time that its
// charge takes at that rate. It is safe for any number of callers.
type RUPacer struct {
	Rate  float64 // RU/s; 0 is no limit
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error // Pause

	mu sync.Mutex
	// free is when all charges are paid.
	free time.Time
}

// Wait waits until a charge is paid. It returns the context's error when that ends first.
func (p *RUPacer) Wait(ctx context.Context, rus float64) error {
	if p.Rate == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := p.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(rus / p.Rate * float64(time.Second)))
	pause := p.free.Sub(now)
	p.mu.Unlock()
	return p.Sleep(ctx, pause)
}
