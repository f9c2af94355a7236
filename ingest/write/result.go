package write

import (
	"binnacle/ingest/bins"
	"binnacle/internal/store"
	"errors"
	"time"
)

// Result is how an attempt at a Job ended. The zero Result is success.
type Result struct {
	Fault bins.Fault
	After time.Duration // how long the store wants to be left alone, for Busy
}

// Failed records how the attempt ended; the caller calls it before Worker.Done.
func (r *Result) Failed(with Result) { *r = with }

// Outcome returns how the attempt ended.
func (r *Result) Outcome() Result { return *r }

// ResultOf returns what an error of a store means for a job.
func ResultOf(err error) Result {
	var busy *store.BusyError
	switch {
	case err == nil:
		return Result{}
	case errors.As(err, &busy):
		return Result{Fault: bins.Busy, After: busy.RetryAfter}
	case errors.Is(err, store.ErrNoContainer):
		return Result{Fault: bins.NoContainer}
	case errors.Is(err, store.ErrKeyFull):
		return Result{Fault: bins.KeyFull}
	case errors.Is(err, store.ErrRejected), errors.Is(err, store.ErrTooLarge):
		return Result{Fault: bins.Rejected}
	case errors.Is(err, store.ErrDenied):
		return Result{Fault: bins.Denied}
	}
	return Result{Fault: bins.Unknown}
}
