package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// call says what a request is for: it labels metrics, and its key tells the physical partition.
type call struct {
	operation string
	container string   // empty for the account's own
	key       []string // full partition key; nil for metadata and queries over several keys
	once      bool     // a 429 is the caller's to handle
	brief     bool     // a 429 is waited out for no longer than Config.Patience: the caller has other things to do
}

// The waits after a 429.
const (
	defaultRetryAfter = 100 * time.Millisecond // the service did not say
	minRetryAfter     = time.Millisecond
	maxSpread         = time.Second // how far those who are throttled together are spread at most
)

// do sends a request until it is not throttled, patience ends, or ctx does. It is the one place where a 429 is waited
// out and charges are counted, and where writes can be paced per physical partition. An error is an *Error when the
// service answered, ctx's own when ctx ended, else what the SDK says; the Receipt is right in any case.
func (c *Client) do(ctx context.Context, to call, send func(ctx context.Context,
	az *azcosmos.Client) (azcosmos.Response, error)) (store.Receipt, error) {
	var receipt store.Receipt
	waited := time.Duration(0)
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return receipt, err
		}
		az, began := c.az.Load(), c.cfg.Now()
		resp, err := send(ctx, az.Client)
		answer := asError(err)
		charge := chargeOf(resp.RawResponse, answer)
		receipt.RUs += charge
		c.metrics.request(to, result(err, answer), charge, c.cfg.Now().Sub(began))
		meterOf(ctx).add(charge, answer)
		c.reached(az, err, answer)
		switch {
		case err == nil:
			return receipt, nil
		case answer == nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()):
			return receipt, fmt.Errorf("%w: %w", ctx.Err(), err)
		case answer == nil:
			return receipt, err
		case refused(answer) && c.rekey(az):
			continue
		case answer.Status != http.StatusTooManyRequests:
			return receipt, answer
		}
		receipt.Throttled++
		wait := c.pause(answer, attempt)
		if to.once || to.brief && waited+wait > c.cfg.Patience {
			return receipt, answer
		}
		if err := c.cfg.Sleep(ctx, wait); err != nil {
			return receipt, err
		}
		waited += wait
	}
}

// pause is how long to wait after a 429: what the service asks for, and up to as much again for every
// attempt, so that those who were throttled together do not come back together.
func (c *Client) pause(answer *Error, attempt int) time.Duration {
	wait := answer.RetryAfter
	if wait <= 0 {
		wait = defaultRetryAfter
	}
	wait = max(wait, minRetryAfter)
	spread := min(wait<<min(attempt, 10), maxSpread)
	return wait + time.Duration(c.cfg.Jitter()*float64(spread))
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
func chargeOf(raw *http.Response, answer *Error) float64 {
	if raw == nil && answer != nil {
		raw = answer.raw
	}
	if raw == nil {
		return 0
	}
	charge, err := strconv.ParseFloat(raw.Header.Get("x-ms-request-charge"), 64)
	if err != nil {
		return 0 // there is none
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
