package read

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrUnavailable is wrapped by errors of reading the store or the snapshot of tenants; ErrBusy means that this process
// has too much to do. The same request may be sent again.
var (
	ErrUnavailable = errors.New("the store can't be read now")
	ErrBusy        = errors.New("too many queries at once")
)

// LimitError says that an answer can't be made within the limits of one query.
type LimitError struct {
	Limit  string   // what the answer needs more than
	Narrow []string // what the caller may do about it
}

// Error returns the limit, and what to narrow.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the answer needs more than %s: %s", e.Limit, strings.Join(e.Narrow, ", or "))
}

// Passed limits, as they are known inside the package and to sinks that pass them on. Callers see a LimitError.
var (
	ErrMemory = errors.New("the query's memory is used up")
	errRUs    = errors.New("the query's request units are used up")
	// errSamples may come by way of the sink.
	errSamples = errors.New("the query's values are used up")
)

// Explain turns an error of Memory or Run into the one that callers see.
func (q *Query) Explain(err error) error {
	switch {
	case errors.Is(err, ErrMemory):
		return &LimitError{fmt.Sprintf("the %d MiB of memory that a query may use", q.r.cfg.Bytes>>20), q.narrow()}
	case errors.Is(err, errRUs):
		return &LimitError{fmt.Sprintf("the %.0f request units that a query may cost", q.r.cfg.MaxRUs), q.narrow()}
	case errors.Is(err, errSamples):
		return &LimitError{fmt.Sprintf("the %d values that a query of this tenant may read", q.req.Samples), q.narrow()}
	}
	return err
}

// narrow returns what the request can still narrow.
func (q *Query) narrow() []string {
	out := []string{"ask for a shorter range (from, to)"}
	switch {
	case q.req.Devices == nil:
		out = append(out, "name the devices (device)")
	case len(q.req.Devices) > 1:
		out = append(out, "name fewer devices (device)")
	}
	if q.req.Metrics == nil {
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
