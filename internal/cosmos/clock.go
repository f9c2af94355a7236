package cosmos

import (
	"context"
	"errors"
	"net/http"

	"binnacle/internal/control"
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// readClock is the policy that reads the Date of every answer. The SDK runs it for each attempt: what counts is the
// time of one request.
type readClock struct{ c *Client }

// Do implements policy.Policy.
func (p readClock) Do(r *policy.Request) (*http.Response, error) {
	sent := p.c.cfg.Now()
	resp, err := r.Next()
	if resp == nil {
		return resp, err
	}
	if date := dateOf(resp, nil); !date.IsZero() {
		p.c.clock.Answered(sent, p.c.cfg.Now(), date)
		p.c.complain()
	}
	return resp, err
}

// complain logs that the machine's clock is wrong, and that it is right again.
func (c *Client) complain() {
	switch wrong := c.clock.Check(); {
	case wrong != nil && c.wrong.CompareAndSwap(false, true):
		c.cfg.Logger.Warn("the clock of this machine is wrong: using the service's", "error", wrong)
	case wrong == nil && c.wrong.CompareAndSwap(true, false):
		c.cfg.Logger.Info("the clock of this machine is right again")
	}
}

// ReadClock makes sure that Clock follows the account: it reads a document, unless an answer has come already.
func (c *Client) ReadClock(ctx context.Context) error {
	if !errors.Is(c.clock.Check(), store.ErrClockUnknown) {
		return nil
	}
	_, _, err := c.Documents().Read(ctx, control.KindAccount, "clock")
	if !errors.Is(c.clock.Check(), store.ErrClockUnknown) {
		return nil // whatever the account has answered
	}
	return err
}

// CheckClock fails while this process must decide nothing that cannot be undone: as Clock.Check does, and when the
// account does not answer.
func (c *Client) CheckClock(ctx context.Context) error {
	if err := c.ReadClock(ctx); err != nil {
		return err
	}
	return c.clock.Check()
}
