package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// set changes acme, and has the querier know it.
func (s server) set(t *testing.T, change tenant.Change) {
	t.Helper()
	require.NoError(t, tenant.NewTenants(s.world.Documents).Set(t.Context(), "acme", change))
	_, err := s.world.Directory.Refresh(context.Background())
	require.NoError(t, err)
}

// A tenant's users see its display name, contact and tags, and none of another's.
func TestProfileOfTenant(t *testing.T) {
	s := newServer(t, func(*query.Config, *httpapi.Config) {})
	s.fill()
	s.world.Tenant("globex")
	for _, x := range []tenant.Setting{{Name: "display-name", Value: "Acme Freight"},
		{Name: "contact", Value: "fleet@acme.example"}} {
		changes, err := x.Changes(nil)
		require.NoError(t, err)
		s.set(t, changes[0])
	}
	tags, err := tenant.TagChanges(map[string]string{"plan": "gold"})
	require.NoError(t, err)
	s.set(t, tags[0])
	require.JSONEq(t, `{"tenant":"acme","known":true,"limits":{},"display_name":"Acme Freight",
		"contact":"fleet@acme.example","tags":{"plan":"gold"}}`, s.get(t, "/api/v1/tenant").body)
	other, err := s.do(t, http.MethodGet, "/api/v1/tenant", http.Header{httpapi.TenantHeader: {"globex"}})
	require.NoError(t, err)
	require.JSONEq(t, `{"tenant":"globex","known":true,"limits":{}}`, other.body)
}

// No endpoint answers for a suspended tenant but the one that says so, and all answer for others.
func TestSuspendedTenantIsRefused(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) {
		c.Rejected, c.Annotations = refusals{}, noAnnotations(t)
	})
	s.fill()
	s.world.Tenant("globex")
	suspend, err := tenant.SuspendChange(" the contract has ended ", noon)
	require.NoError(t, err)
	s.set(t, suspend)
	const why = `tenant acme is suspended since 2026-11-20T12:00:00Z: the contract has ended`
	paths := httpapi.Routes(httpapi.Config{Rejected: refusals{}, Annotations: noAnnotations(t)})
	require.Greater(t, len(paths), 8)
	for path := range paths {
		a := s.get(t, path)
		require.Contains(t, a.body, why, path)
		if path == "/api/v1/tenant" {
			require.Equal(t, http.StatusOK, a.status)
			continue
		}
		require.Equal(t, http.StatusForbidden, a.status, path)
		other, err := s.do(t, http.MethodGet, path, http.Header{httpapi.TenantHeader: {"globex"}})
		require.NoError(t, err)
		require.NotEqual(t, http.StatusForbidden, other.status, path)
	}
	s.set(t, tenant.ResumeChange())
	require.Equal(t, http.StatusOK, s.get(t, "/api/v1/devices").status)
	require.NotContains(t, s.get(t, "/api/v1/tenant").body, "suspended")

	_, err = tenant.SuspendChange(" ", noon)
	require.ErrorContains(t, err, "1 to 200 bytes")
}
