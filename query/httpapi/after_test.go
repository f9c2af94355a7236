package httpapi_test

import (
	"net/http"
	"testing"

	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// Every endpoint includes what it is asked to, or is a problem.
func TestAfterHeader(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Rejected = nothing{} })
	s.fill() // the head has read up to offset 100
	ask := func(path string, after ...string) answer {
		header := http.Header{httpapi.TenantHeader: {"acme"}, httpapi.AfterHeader: after}
		a, err := s.do(t, http.MethodGet, path, header)
		require.NoError(t, err)
		return a
	}
	for _, path := range []string{"readings", "aggregates", "aggregates?by=device", "latest", "latest?device=m1",
		"devices", "metrics", "gaps?device=m1", "attendance", "readings?format=ndjson"} {
		require.Equal(t, 200, ask("/api/v1/"+path, "telemetry/0/99", "telemetry/0/7").status, path)
		for _, wrong := range []string{"telemetry/0", "telemetry/1/0", "elsewhere/0/0"} {
			a := ask("/api/v1/"+path, wrong)
			require.Equal(t, 400, a.status, path)
			require.Equal(t, httpapi.AfterHeader, parseProblem(t, a).Parameter)
		}
	}
	for _, path := range []string{"readings?", "aggregates?", "latest?device=m1&"} {
		a := ask("/api/v1/"+path+"timeout=400ms", "telemetry/0/99", "telemetry/0/100")
		require.Equal(t, http.StatusGatewayTimeout, a.status, path)
		p := parseProblem(t, a)
		require.Contains(t, p.Detail, "partition telemetry/0 is read to offset 100 of 101")
		require.Equal(t, "1", a.header.Get("Retry-After"))
	}
	require.Equal(t, 400, ask("/api/v1/rejected", "telemetry/0/99").status)
}
