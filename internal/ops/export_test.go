package ops

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"binnacle/internal/control"
)

// ServeTenants returns the endpoints of tenants as the admin listener serves them with an admin token, and their
// patterns.
func ServeTenants(docs control.Documents, token string) (h http.Handler, patterns []string) {
	mux := http.NewServeMux()
	TenantAPI{Docs: docs, Via: "query@test", Log: slog.New(slog.DiscardHandler)}.Register(mux)
	return TrustedHosts{}.Operators(func() string { return token }, mux), slices.Sorted(maps.Keys(tenantEndpoints()))
}
