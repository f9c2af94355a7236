package cosmos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"binnacle/internal/retry"
	"binnacle/internal/store"
)

// effect is how a request changes the store, as far as it matters for sending it again.
type effect int

const (
	reads      effect = iota // nothing
	repeatable               // the same once more as once: a create by id, a replace under an ETag, a delete of a document
	final                    // something that its caller must decide on again
)

// The time for which a request is sent again while the store fails. store.WithPersistence sets another one.
const (
	persistence      = 30 * time.Second
	briefPersistence = 2 * time.Second // the caller of a read has other things to do
)

// tryAgain are the pauses before a request is sent again. The longest one lets a split of physical partitions end.
var tryAgain = retry.Policy{First: 25 * time.Millisecond, Max: 2 * time.Second}

// persevering is the rest of the attempts at one request while the store fails. It belongs to one goroutine.
type persevering struct {
	left   time.Duration
	failed int
	last   error
	unsure bool // an attempt may have been carried out
	given  *store.Persistence
}

// persist returns how long a request is sent again while the store fails: the time that its context sets, else until
// the deadline of the context, else persistence. Some requests are never sent again.
func (c *Client) persist(ctx context.Context, to call) *persevering {
	p := &persevering{left: persistence, given: store.PersistenceOf(ctx)}
	end, ends := ctx.Deadline()
	switch {
	case to.once || to.changes == final:
		p.left = 0
	case p.given != nil:
		p.left = p.given.For
	case to.brief && to.changes == reads:
		p.left = briefPersistence
	case to.brief: // its caller tries again
		p.left = 0
	case ends:
		p.left = end.Sub(c.cfg.Now())
	}
	return p
}

// ended adds the last failure of the store to the error of a context that ended before the next attempt.
func (p *persevering) ended(err error) error {
	if p.last == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, p.failing())
}

// served notes that the request was served at last.
func (p *persevering) served() {
	if p.failed > 0 {
		p.given.Note(nil)
	}
}

func (p *persevering) failing() *store.FailingError {
	e := &store.FailingError{Attempts: p.failed, Last: p.last}
	if answer, ok := errors.AsType[*Error](p.last); ok {
		e.Status = answer.status()
	}
	return e
}

// await waits before a request that has failed is sent again. It returns the error of the request where it is not.
func (c *Client) await(ctx context.Context, to call, a attempted, p *persevering) error {
	if ctx.Err() != nil && a.answer == nil {
		return p.ended(a.err)
	}
	wait := tryAgain.Pause(p.failed, c.cfg.Jitter())
	if a.answer != nil {
		wait = max(wait, a.answer.RetryAfter)
		a.answer.Unsure = p.unsure
		p.last = a.answer
	} else {
		p.last = a.err
	}
	p.left -= wait + a.took
	if !c.passing(to, a) {
		return p.last
	}
	if p.failed++; p.left < 0 {
		if p.failed == 1 {
			return p.last
		}
		return p.failing()
	}
	p.given.Note(p.failing())
	p.unsure = p.unsure || to.changes == repeatable && a.isUnsure()
	if err := c.cfg.Sleep(ctx, wait); err != nil {
		return p.ended(err)
	}
	return nil
}

// passing reports whether a failure is one of the moment (Azure Cosmos DB docs, conceptual-resilient-sdk-applications):
// another attempt may succeed. A connection can be lost only to an account that was reached before.
func (c *Client) passing(to call, a attempted) bool {
	if a.answer == nil {
		return c.connected.Load() && isLost(a.err)
	}
	switch a.answer.Status {
	case http.StatusRequestTimeout, statusRetryWith, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusGone:
		return !to.pinned
	}
	return false
}

// statusRetryWith is the service's own: another write of the same item is under way.
const statusRetryWith = 449

// isUnsure reports whether a write that has failed may have been carried out. These two are refused before.
func (a *attempted) isUnsure() bool {
	return a.answer == nil || a.answer.Status != http.StatusGone && a.answer.Status != statusRetryWith
}

// maxSilence is how long an attempt waits for its answer. The service and its other SDKs give up sooner, so that the
// answer is lost.
const maxSilence = 65 * time.Second

var errSilent = fmt.Errorf("no answer within %s", maxSilence)

// bounded returns the context of one attempt. What a caller decides on again has the bound of the caller.
func (to *call) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if to.changes == final {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, maxSilence)
}

func isLost(err error) bool {
	var network net.Error
	return errors.Is(err, errSilent) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}
