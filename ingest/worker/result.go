package worker

import (
	"errors"
	"slices"
	"time"

	"binnacle/internal/store"
)

// Fault is why an attempt at a job did not do it.
type Fault string

// The faults, by what becomes of the job.
const (
	None        Fault = ""             // it is done
	Unknown     Fault = "unknown"      // it may have been done: the same again, soon
	Busy        Fault = "busy"         // the same again, not before the store said
	NoContainer Fault = "no-container" // it was asked for: the same again when it may be there
	KeyFull     Fault = "key-full"     // its partition key takes no more: the same again, seldom
	Rejected    Fault = "rejected"     // never: what it holds is a dead letter
	Denied      Fault = "denied"       // the process has the wrong credentials or rights
)

// faults are those for which a chain stalls.
var faults = [...]Fault{Unknown, Busy, NoContainer, KeyFull, Rejected, Denied}

// code returns a fault's number among them, from 1; 0 for none.
func (f Fault) code() uint8 {
	return uint8(slices.Index(faults[:], f) + 1)
}

// Result is how an attempt at a Job ended. The zero Result is success.
type Result struct {
	Fault Fault
	After time.Duration // of Busy: how long the store wants to be left alone
}

// Failed records how the attempt ended; it is to be called before Worker.Done.
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
		return Result{Fault: Busy, After: busy.RetryAfter}
	case errors.Is(err, store.ErrNoContainer):
		return Result{Fault: NoContainer}
	case errors.Is(err, store.ErrKeyFull):
		return Result{Fault: KeyFull}
	case errors.Is(err, store.ErrRejected), errors.Is(err, store.ErrTooLarge):
		return Result{Fault: Rejected}
	case errors.Is(err, store.ErrDenied):
		return Result{Fault: Denied}
	}
	return Result{Fault: Unknown}
}
