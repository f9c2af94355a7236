package piece

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"binnacle/internal/store"
)

// ErrUnavailable is wrapped by errors of reading the store or the snapshot of tenants; ErrBusy means that this process
// has too much to do. The same request may be sent again.
var (
	ErrUnavailable = errors.New("the store can't be read now")
	ErrBusy        = errors.New("too many queries at once")
)

// LimitError says that an answer can't be made within the limits of one query.
type LimitError struct {
	Limit  string   // the limit that the answer exceeds
	Narrow []string // advice to the caller
}

// Error returns the limit, and what to narrow.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the answer needs more than %s: %s", e.Limit, strings.Join(e.Narrow, ", or "))
}

// Errors of limits, which sinks pass on. Callers of a query see a LimitError.
var (
	ErrMemory  = errors.New("the query's memory is used up")
	errRUs     = errors.New("the query's request units are used up")
	errSamples = errors.New("the query's values are used up")
)

// LimitError returns err, or the error that callers see if err is of a limit of the account.
func (a *Account) LimitError(err error, r *Request) error {
	switch {
	case errors.Is(err, ErrMemory):
		limit := fmt.Sprintf("the %d MiB of memory that a query may use (query-memory-mb)", a.Memory.limit>>20)
		return &LimitError{limit, r.narrow()}
	case errors.Is(err, errRUs):
		return &LimitError{fmt.Sprintf("the %.0f request units that a query may cost (query-max-rus)", a.maxRUs), r.narrow()}
	case errors.Is(err, errSamples):
		return &LimitError{fmt.Sprintf("the %d values that a query of this tenant may read", a.maxSamples), r.narrow()}
	}
	return err
}

// narrow returns what the request can still narrow.
func (r *Request) narrow() []string {
	out := []string{"ask for a shorter range (from, to)"}
	switch {
	case r.Devices == nil:
		out = append(out, "name the devices (device)")
	case len(r.Devices) > 1:
		out = append(out, "name fewer devices (device)")
	}
	if r.Metrics == nil {
		out = append(out, "name the metrics (metric)")
	}
	return out
}

// Unavailable returns the error of a failed read of the store: ErrUnavailable, unless the caller has gone or the query
// has taken too long.
func Unavailable(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return endedWhile(ctx, what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// TimeoutError says that a query has exceeded its time. The same request may be sent again.
type TimeoutError struct {
	After time.Duration
	Read  string // the read of the store that was not answered; "" for none

	// Failing is how the store has failed; nil where it was silent.
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

// Unwrap returns how the store has failed.
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
