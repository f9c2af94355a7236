package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"binnacle/internal/charges"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// costOf is a bill of each tenant.
func costOf(_ context.Context, tenant string, month charges.Month) (charges.TenantCost, error) {
	sum := charges.NewSum()
	sum.Rows[charges.Key{Tenant: tenant, Container: "chunks", Kind: charges.Chunks}] = charges.Amount{RUs: 5, Requests: 1}
	sum.Sources[tenant] = []charges.SourceRow{{Query: "up", Agent: "curl of " + tenant, RUs: 1, Requests: 1}}
	bill := charges.NewBill(charges.BillInput{Month: month, Sum: sum})
	return bill.Of(tenant, sum, 10), nil
}

// A tenant sees its own bill, and no other's.
func TestCost(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Cost = costOf })
	s.world.Tenant("globex")
	a := s.get(t, "/api/v1/cost")
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `"tenant":"acme","rus":5`)
	require.Contains(t, a.body, `"month":"2026-11"`)
	require.NotContains(t, a.body, "globex")
	require.Contains(t, s.get(t, "/api/v1/cost?month=2026-10").body, `"month":"2026-10"`)
	for path, detail := range map[string]string{
		"/api/v1/cost?month=november":           `not in the form 2026-11`,
		"/api/v1/cost?month=2026-12":            `the month 2026-12 has not begun`,
		"/api/v1/cost?tenant=globex":            `tenant`,
		"/api/v1/cost?month=2026-11&device=m-1": `device`,
	} {
		a := s.get(t, path)
		require.Equal(t, 400, a.status, path)
		require.Contains(t, a.body, detail, path)
	}
	head, err := s.do(t, http.MethodHead, "/api/v1/cost", http.Header{httpapi.TenantHeader: {"acme"}})
	require.NoError(t, err)
	require.Equal(t, 200, head.status)
}
