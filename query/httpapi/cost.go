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

// cost answers what a month costs.
func (a *api) cost(w *response, r *http.Request, tenant string) error {
	p := parse(r, costParameters)
	month, err := charges.ParseMonth(p.values.Get("month"), a.cfg.Now())
	if err != nil {
		p.fail("month", "%v", err)
	}
	if done, err := w.beginJSON(p); done {
		return err
	}
	body, err := a.cfg.Cost(r.Context(), tenant, month)
	if err != nil {
		return err
	}
	return encode(w, body)
}
