package prom_test

import (
	"context"
	"net/http"
	"testing"

	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"

	"github.com/stretchr/testify/require"
)

// Every endpoint refuses a suspended tenant, and says why; others are answered.
func TestSuspendedTenantIsRefused(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	s.world.Tenant("globex")
	suspend, err := tenant.SuspendChange("the contract has ended", noon)
	require.NoError(t, err)
	require.NoError(t, tenant.NewTenants(s.world.Documents).Set(t.Context(), "acme", suspend))
	_, err = s.world.Directory.Refresh(context.Background())
	require.NoError(t, err)
	for _, path := range []string{"query", "query_range", "labels", "label/site/values", "series", "metadata", "read",
		"format_query", "query_exemplars", "rules", "alerts", "status/buildinfo", "unknown"} {
		r := s.ask(t, "/api/v1/"+path, "query", "temp", "match[]", "temp")
		require.Equal(t, http.StatusForbidden, r.status, path)
		require.Contains(t, r.Error, "tenant acme is suspended since", path)
		other := s.do(t, http.MethodGet, "/api/v1/"+path, http.Header{access.TenantHeader: {"globex"}}, "query", "temp")
		require.NotEqual(t, http.StatusForbidden, other.status, path)
	}
}
