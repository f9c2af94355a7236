package cosmos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// call describes a request: it labels metrics, and its key leads to the physical partition.
type call struct {
	operation string
	database  string   // empty for store.Database
	container string   // empty for the account's own
	key       []string // full partition key; nil for metadata and queries over several keys
	once      bool     // a 429 is the caller's to handle
	brief     bool     // a 429 is waited out for no longer than Config.Patience: the caller has other things to do
	tenant    string   // tenant of the data; "" for none or several
	low       bool     // refused before others where there is not enough for all
	awaited   bool     // a caller waits for the answer
	about     about    // how its charges are counted
	changes   effect   // whether it may be sent again when its outcome is unknown
	pinned    bool     // to a physical partition by its id: once that is split, no attempt succeeds
	maxRUs    float64  // after a page of a query that takes its charges above it there is no further one; 0: all pages
	hidden    *hiddenCharges
}

// The waits after a 429.
const (
	defaultRetryAfter = 100 * time.Millisecond // the service did not say
	minRetryAfter     = time.Millisecond
	maxSpread         = time.Second // how far requests that are throttled together are spread at most
)

// do sends a request until it is served or refused, its patience ends, or ctx does. It is the one place where a 429 is
// waited out, where a store that fails for the moment is asked again, where charges are counted, and where requests are
// kept from physical partitions that have no budget left. An error is an *Error when the service answered, a
// *store.BusyError when it was not asked, ctx's own when ctx ended, with the last answer, else what the SDK says; the
// Receipt is right in any case.
func (c *Client) do(ctx context.Context, to call, send sender) (store.Receipt, error) {
	var receipt store.Receipt
	patience, again := c.patience(to), c.persist(ctx, to)
	var queued place
	defer queued.leave()
	for attempt := 0; ; {
		if err := ctx.Err(); err != nil {
			return receipt, again.ended(err)
		}
		gate := c.pacer.gate(to)
		if gate != nil {
			if wait := gate.enter(c.cfg.Now(), to.low, to.brief); wait > 0 {
				queued.await(to, gate)
				if err := c.hold(ctx, to, gate, c.spread(wait, attempt), &patience); err != nil {
					return receipt, err
				}
				continue
			}
		}
		a := c.attempt(ctx, to, gate, send)
		receipt.RUs += a.charge
		switch {
		case a.err == nil:
			again.served()
			return receipt, nil
		case a.answer == nil && ctx.Err() != nil && !errors.Is(a.err, ctx.Err()):
			return receipt, again.ended(fmt.Errorf("%w: %w", ctx.Err(), a.err))
		case a.answer != nil && refused(a.answer) && c.rekey(a.az):
			attempt++
			continue
		case !a.throttled():
			if err := c.await(ctx, to, a, again); err != nil {
				return receipt, err
			}
			continue
		}
		receipt.Throttled++
		wait := c.spread(askedFor(a.answer), attempt)
		attempt++
		if to.once || wait > patience {
			return receipt, a.answer
		}
		queued.await(to, c.pacer.gate(to))
		if err := c.cfg.Sleep(ctx, wait); err != nil {
			return receipt, err
		}
		patience -= wait
	}
}

// sender sends a request once.
type sender func(ctx context.Context, az *azcosmos.Client) (azcosmos.Response, error)

// attempted is what became of one attempt at a request.
type attempted struct {
	az     *connection
	answer *Error // nil without an answer, and after success
	err    error
	charge float64
	took   time.Duration
}

func (a *attempted) throttled() bool {
	return a.answer != nil && a.answer.Status == http.StatusTooManyRequests
}

// attempt sends a request once, and counts what became of it.
func (c *Client) attempt(ctx context.Context, to call, gate *gate, send sender) attempted {
	a, began := attempted{az: c.az.Load()}, c.cfg.Now()
	to.hidden = &hiddenCharges{}
	var resp azcosmos.Response
	bounded, end := to.bounded(ctx)
	defer end()
	if a.err = a.az.connect(bounded); a.err == nil {
		resp, a.err = send(context.WithValue(to.prioritised(bounded), callKey{}, &to), a.az.Client)
	}
	if a.err != nil && ctx.Err() == nil && bounded.Err() != nil {
		a.err = errSilent
	}
	a.answer, a.took = asError(a.err), c.cfg.Now().Sub(began)
	shown := resp.RawResponse
	if shown == nil && a.answer != nil {
		shown = a.answer.raw
	}
	a.charge = chargeOf(shown) + to.hidden.beside(shown)
	c.metrics.request(to, result(a.err, a.answer), a.charge, a.took)
	store.Charge(ctx, a.charge, a.throttled())
	if ctx.Err() == nil {
		c.reached(a.az, a.err, a.answer)
	}
	outcome := outcomeOf(resp.RawResponse, a.answer, a.took)
	outcome.charge = a.charge
	c.paced(ctx, to, gate, outcome)
	return a
}

// patience returns how long a request may wait in all.
func (c *Client) patience(to call) time.Duration {
	if to.brief {
		return c.cfg.Patience
	}
	return math.MaxInt64
}

// hold makes a request wait at a gate, if it has the patience.
func (c *Client) hold(ctx context.Context, to call, g *gate, wait time.Duration, patience *time.Duration) error {
	name := rangeName{to.container, g.name()}
	c.pacer.series.countHeld(name)
	if wait > *patience {
		return &store.BusyError{RetryAfter: wait}
	}
	c.pacer.series.addWaiting(name, 1)
	defer c.pacer.series.addWaiting(name, -1)
	*patience -= wait
	return c.cfg.Sleep(ctx, wait)
}

// paced passes an answer to the pacer, and to the metrics of physical partitions and tenants.
func (c *Client) paced(ctx context.Context, to call, g *gate, a outcome) {
	c.pacer.answered(ctx, to, g, a)
	if to.tenant != "" {
		c.tenants.count(to.tenant, to.operation, a.charge)
	}
	c.countHeat(to, a)
	if a.rangeID != "" {
		c.pacer.series.countAnswer(rangeName{to.container, a.rangeID}, a.charge, a.throttled())
	}
}

func outcomeOf(raw *http.Response, answer *Error, took time.Duration) outcome {
	a := outcome{took: took}
	if answer != nil {
		raw, a.substatus, a.wait = answer.raw, answer.Substatus, askedFor(answer)
	}
	if raw != nil {
		a.status, a.rangeID = raw.StatusCode, raw.Header.Get("x-ms-documentdb-partitionkeyrangeid")
	}
	return a
}

// askedFor returns how long the service wants to be left alone after a 429.
func askedFor(answer *Error) time.Duration {
	if answer.RetryAfter <= 0 {
		return defaultRetryAfter
	}
	return max(answer.RetryAfter, minRetryAfter)
}

// spread makes a wait longer by up to as much again for every attempt, so that requests that were throttled together do
// not come back together.
func (c *Client) spread(wait time.Duration, attempt int) time.Duration {
	most := min(wait<<min(attempt, 10), maxSpread)
	return wait + time.Duration(c.cfg.Jitter()*float64(most))
}

// reached notes that the SDK knows the account, or gives it a fresh start when it does not.
func (c *Client) reached(az *connection, err error, answer *Error) {
	if c.connected.Load() {
		return
	}
	if err == nil || answer != nil && (answer.Status == http.StatusNotFound || answer.Status == http.StatusConflict ||
		answer.Status == http.StatusPreconditionFailed) {
		c.connected.Store(true)
		return
	}
	c.renew(az)
}

// chargeOf reads the charge as the service spells it: the SDK's own field is a float32.
func chargeOf(raw *http.Response) float64 {
	if raw == nil {
		return 0
	}
	charge, err := strconv.ParseFloat(raw.Header.Get("x-ms-request-charge"), 64)
	if err != nil {
		return 0 // no charge
	}
	return charge
}

func result(err error, answer *Error) string {
	switch {
	case err == nil:
		return "ok"
	case answer != nil:
		return strconv.Itoa(answer.Status)
	}
	return "error"
}

func tenantOf(shard string) string {
	tenant, _, _ := strings.Cut(shard, "~")
	return tenant
}
