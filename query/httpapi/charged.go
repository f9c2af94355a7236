package httpapi

import (
	"context"
	"net/http"

	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/tenant/access"
)

// Charged returns the context of a request with what it is charged as: a query of a tenant, with what the caller says
// of where it comes from. Grafana sends the uid of a dashboard and the id of a panel. text is what is asked for.
func Charged(r *http.Request, caller access.Caller, text string) context.Context {
	query := r.URL.Path
	if text != "" {
		query += " " + text
	}
	return purpose.With(r.Context(), &purpose.Purpose{Tenant: caller.Tenant, Kind: charges.Queries,
		Source: &charges.Source{
			Dashboard: r.Header.Get("X-Dashboard-Uid"), Panel: r.Header.Get("X-Panel-Id"), Agent: r.UserAgent(),
			Caller: caller.Name, Query: query,
		}})
}
