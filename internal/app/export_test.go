package app

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"binnacle/internal/control"
)

// OperatorEndpoint is operatorEndpoint, for tests.
type OperatorEndpoint = operatorEndpoint

// TenantAPI returns the endpoints of tenants as the admin listener serves them with an admin token, and their patterns.
func TenantAPI(docs control.Documents, token string) (h http.Handler, patterns []string) {
	mux := http.NewServeMux()
	tenantAPI{docs, "query@test", slog.New(slog.DiscardHandler), nil, nil}.register(mux)
	return TrustedHosts{}.Operators(func() string { return token }, mux), slices.Sorted(maps.Keys(tenantEndpoints()))
}
