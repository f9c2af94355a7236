package prom_test

import (
	"net/http"
	"strconv"
	"testing"

	"binnacle/query"
	"binnacle/query/prom"

	"github.com/stretchr/testify/require"
)

// A tenant that has had what it may have gets an error as Prometheus spells them, of every endpoint that asks for
// something, and every answer before that says what it has cost.
func TestTenantLimits(t *testing.T) {
	s := newServer(t, func(q *query.Config, _ *prom.Config) { q.CacheBytes, q.Limits.RUsOfDay = -1, 60 })
	s.fill(t)
	spent := 0.0
	asks := map[string][]string{
		"query": {"query", "temp"}, "query_range": {"query", "temp", "start", "0", "end", "60", "step", "60"},
		"labels": nil, "label/device/values": nil, "series": {"match[]", "temp"}, "metadata": nil,
	}
	for range 20 {
		for path, params := range asks {
			s.world.Heads.SetUpdates("acme") // what is known of devices is read again
			r := s.ask(t, "/api/v1/"+path, params...)
			rus, err := strconv.ParseFloat(r.header.Get(query.SpentHeader), 64)
			require.NoError(t, err, path)
			if r.status == http.StatusOK && path != "query_range" { // of 1970 there is nothing
				require.Positive(t, rus, path)
			}
			spent += rus
		}
	}
	require.GreaterOrEqual(t, spent, 60.0-0.01) // parts of a unit may be rounded away
	require.Less(t, spent, 60.0+4*3)
	for _, path := range []string{"query_exemplars", "rules", "alerts", "status/buildinfo", "format_query",
		"read"} {
		asks[path] = []string{"query", "temp"}
	}
	for path, params := range asks {
		r := s.ask(t, "/api/v1/"+path, params...)
		require.Equal(t, http.StatusTooManyRequests, r.status, path)
		require.Equal(t, "43200", r.header.Get("Retry-After"), path)
		require.Equal(t, "0", r.header.Get(query.SpentHeader), path)
		require.Equal(t, "error", r.Status)
		require.Equal(t, "too_many_requests", r.ErrorType)
		require.Contains(t, r.Error, "its 60 request units of this day")
		require.Contains(t, r.Error, "ask for a shorter range")
	}
}
