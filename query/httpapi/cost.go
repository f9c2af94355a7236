package httpapi

import (
	"context"
	"net/http"

	"binnacle/internal/charges"
)

// costPath is what a month costs the tenant of a credential.
const costPath = "/api/v1/cost"

// Coster returns what a month costs a tenant.
type Coster func(ctx context.Context, tenant string, month charges.Month) (charges.TenantCost, error)

func (a *api) cost(w *response, r *http.Request, tenant string) error {
	p := parse(r, costParameters)
	month, err := charges.ParseMonth(p.values.Get("month"), a.cfg.Now())
	if err != nil {
		p.fail("month", "%v", err)
	}
	if done, err := w.beginJSON(p); done {
		return err
	}
	var body charges.TenantCost
	err = a.admit(r.Context(), tenant, func(ctx context.Context) (err error) {
		body, err = a.cfg.Cost(ctx, tenant, month)
		return err
	})
	if err != nil {
		return err
	}
	w.showSpent()
	return encode(w, body)
}
