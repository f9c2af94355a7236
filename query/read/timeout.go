package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/store"
)

// TimeoutError says that a query has taken as long as it may. The same request may be sent again.
type TimeoutError struct {
	After time.Duration
	Read  string // the read of the store that was not answered; "" for none

	// Failing is how the store has failed meanwhile; nil where it was silent.
	Failing *store.FailingError
}

// Error returns how long the query took, and for what.
func (e *TimeoutError) Error() string {
	if e.Read == "" {
		return fmt.Sprintf("the query takes longer than %s", e.After)
	}
	if e.Failing != nil {
		return fmt.Sprintf("the store fails for %s: %s: %v", e.After, e.Read, e.Failing)
	}
	return fmt.Sprintf("the store does not answer within %s: %s", e.After, e.Read)
}

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// endedWhile returns why the context of a query has ended while a read of the store failed with err.
func endedWhile(ctx context.Context, reading string, err error) error {
	var timeout *TimeoutError
	if !errors.As(context.Cause(ctx), &timeout) {
		return ctx.Err()
	}
	out := &TimeoutError{After: timeout.After, Read: reading}
	errors.As(err, &out.Failing)
	return out
}

// Unwrap returns how the store has failed meanwhile.
func (e *TimeoutError) Unwrap() error {
	if e.Failing == nil {
		return nil
	}
	return e.Failing
}

// FailureOf says for a client how the store has failed while a query read it, with a colon before; "" where it has not.
func FailureOf(err error) string {
	var failing *store.FailingError
	if !errors.As(err, &failing) {
		return ""
	}
	return ": " + failing.Answer()
}

type timeoutKey struct{}

// WithTimeout returns a context for queries that may take so long.
func WithTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, d)
}

// TimeoutOf returns how long a query of the context may take, 0 if nothing is said.
func TimeoutOf(ctx context.Context) time.Duration {
	d, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return d
}

// waiting returns a context that ends when a query has waited for heads for as long as it may: half of its time, so
// that it can still read.
func waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, TimeoutOf(ctx)/2)
}
