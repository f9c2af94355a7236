package query

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/store"
	"binnacle/query/read"
)

// deadline ends a query that takes too long. A query that streams its answer may go on as long as the caller takes more
// of it: then the time counts from there.
type deadline struct {
	after time.Duration
	end   context.CancelCauseFunc

	taken  atomic.Int64 // elements of the answer
	taking atomic.Bool  // the caller has one, and has not returned

	mu    sync.Mutex // guards below
	timer *time.Timer
	seen  int64 // taken when the timer went off last
}

// begin returns a context that ends when the query has taken as long as it may. The caller stops the deadline.
func (q *Querier) begin(ctx context.Context) (context.Context, *deadline) {
	d := &deadline{after: q.cfg.Timeout}
	if asked := read.TimeoutOf(ctx); asked > 0 {
		d.after = min(d.after, asked)
	}
	// While the store fails its requests are sent again, until the query has to end.
	ctx, d.end = context.WithCancelCause(store.WithPersistence(read.WithTimeout(ctx, d.after), d.after))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = time.AfterFunc(d.after, d.check)
	return ctx, d
}

// check ends the query unless its caller has taken something since the last check, or is at it.
func (d *deadline) check() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if taken := d.taken.Load(); d.taking.Load() || taken > d.seen {
		d.seen = taken
		d.timer.Reset(d.after)
		return
	}
	d.end(&TimeoutError{After: d.after})
}

func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.Stop()
	d.end(context.Canceled)
}

// timedOut returns the error of a query that has ended with err: a *TimeoutError if it has taken too long.
func (q *Querier) timedOut(ctx context.Context, err error) error {
	var late, while *TimeoutError
	var notYet *NotYetError
	if err == nil || errors.As(err, &notYet) || !errors.As(context.Cause(ctx), &late) {
		return err
	}
	if !errors.As(err, &while) {
		q.metrics.timeouts.WithLabelValues("other").Inc()
		return late
	}
	q.metrics.timeouts.WithLabelValues("store").Inc()
	q.silent.Do(func() {
		q.cfg.Logger.Warn("the store does not answer", "read", while.Read, "after", while.After, "error", while)
	})
	return while
}

// silentEvery is how often the log says that the store, or a head, does not answer: every query finds out.
const silentEvery = 10 * time.Second

// deadlineKey is the key of the deadline of a query that streams its answer, in a context.
type deadlineKey struct{}

// streamed returns emit as a query of the context calls it: never after its end, and known to its deadline.
func streamed[T any](ctx context.Context, emit func(T) error) func(T) error {
	d, ok := ctx.Value(deadlineKey{}).(*deadline)
	if !ok {
		return emit
	}
	return func(x T) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.taking.Store(true)
		err := emit(x)
		d.taking.Store(false)
		d.taken.Add(1)
		return err
	}
}
