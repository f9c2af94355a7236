package httpapi_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// endpoints is a request to each endpoint, and one in each format.
var endpoints = []string{
	"/api/v1/readings?from=0", "/api/v1/readings?from=0&format=csv", "/api/v1/readings?from=0&format=ndjson",
	"/api/v1/readings?from=0&format=parquet", "/api/v1/aggregates?from=0", "/api/v1/latest?from=0",
	"/api/v1/latest?device=m1", "/api/v1/devices", "/api/v1/metrics", "/api/v1/rejected",
	"/api/v1/gaps?device=m1&expect=1h", "/api/v1/attendance",
	"/api/v1/diff?since=-1d", "/api/v1/devices/facets", "/api/v1/cardinality", "/api/v1/cost", "/api/v1/annotations",
}

// unlimited is the endpoints that ask nothing of the store and hardly anything of the CPU, and why tenants at their
// limits need them.
var unlimited = map[string]string{"/api/v1/tenant": "it says what the limits are, and how much of them is used"}

// Every endpoint refuses a tenant at its limit: what to narrow, and when to ask again.
func TestEveryEndpointLimitsTenants(t *testing.T) {
	s := newServer(t, func(q *query.Config, c *httpapi.Config) {
		gate, err := access.New(access.Config{Proxies: access.Loopback, ProxiesMayWrite: true})
		require.NoError(t, err)
		q.Limits.RUsOfDay, c.Gate = 5, gate
		c.Rejected, c.Cost, c.Annotations = refusals{}, costOf, noAnnotations(t)
	})
	s.fill()
	for path := range httpapi.Routes(httpapi.Config{Rejected: refusals{}, Cost: costOf, Annotations: noAnnotations(t)}) {
		listed := slices.ContainsFunc(endpoints, func(e string) bool { return e == path || strings.HasPrefix(e, path+"?") })
		require.True(t, listed != (unlimited[path] != ""), "%s is in one of the lists: of endpoints that are refused to a "+
			"tenant at its limit, or of those that are not", path)
	}
	s.get(t, "/api/v1/readings?from=0") // which is more than that already, and may have ended by it
	for _, path := range endpoints {
		a := s.get(t, path)
		require.Equal(t, http.StatusTooManyRequests, a.status, path)
		require.Equal(t, strconv.Itoa(12*60*60), a.header.Get("Retry-After"), path)
		p := parseProblem(t, a)
		require.Contains(t, p.Detail, "its 5 request units of this day", path)
		require.Contains(t, p.Detail, "ask for a shorter range, or name fewer devices or metrics", path)
		require.Equal(t, "0", a.header.Get(query.SpentHeader), path)
	}
	require.Equal(t, http.StatusTooManyRequests,
		s.post(t, "/api/v1/annotations", "application/json", `{"text":"deploy"}`).status)
	removed, err := s.do(t, http.MethodDelete, "/api/v1/annotations?id=x", http.Header{httpapi.TenantHeader: {"acme"}})
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, removed.status)
}

// Every answer says what it has cost, in a header; where its body says so too, it is the same.
func TestEveryAnswerHasRequestUnits(t *testing.T) {
	s := newServer(t, func(q *query.Config, c *httpapi.Config) {
		q.CacheBytes = -1
		c.Rejected, c.Cost, c.Annotations = refusals{}, costOf, noAnnotations(t)
	})
	s.fill()
	for _, path := range endpoints {
		s.world.Heads.SetUpdates("acme") // what is known of devices is read again
		a := s.get(t, path)
		require.Equal(t, http.StatusOK, a.status, path)
		spent, err := strconv.ParseFloat(a.header.Get(query.SpentHeader), 64)
		require.NoError(t, err, path)
		switch path {
		case "/api/v1/rejected", "/api/v1/cost", "/api/v1/annotations":
			require.Zero(t, spent, "%s: here it is in memory", path)
			continue
		}
		require.Positive(t, spent, path)
		shown := `"request_units":` + a.header.Get(query.SpentHeader)
		switch {
		case strings.Contains(a.body, "request_units"):
			require.Contains(t, a.body, shown, path)
		case a.trailer.Get("Binnacle-Stats") != "":
			require.Contains(t, a.trailer.Get("Binnacle-Stats"), shown, path)
		}
	}
}

// The cost of an answer that was under way before it was known comes behind it.
func TestLongAnswerHasRequestUnitsInTrailer(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	var long []querytest.Record
	for i := range 300 {
		long = append(long, record(int64(50+i), "m3", noon.Add(time.Duration(i-600)*time.Second), nil,
			field("text", telemetry.TextValue(strings.Repeat("x", 300)))))
	}
	s.world.Chunk(long...)
	a := s.get(t, "/api/v1/readings?from=0&format=ndjson")
	require.Equal(t, http.StatusOK, a.status)
	require.Greater(t, len(a.body), 64<<10)
	require.Empty(t, a.header.Get(query.SpentHeader))
	require.Equal(t, "12", a.trailer.Get(query.SpentHeader))
}
