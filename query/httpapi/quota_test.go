package httpapi_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// endpoints is a request to each endpoint, and one in each format.
var endpoints = []string{
	"/api/v1/readings?from=0", "/api/v1/readings?from=0&format=csv", "/api/v1/readings?from=0&format=ndjson",
	"/api/v1/readings?from=0&format=arrow", "/api/v1/aggregates?from=0", "/api/v1/latest?from=0",
	"/api/v1/latest?device=m1", "/api/v1/devices", "/api/v1/metrics", "/api/v1/rejected",
	"/api/v1/gaps?device=m1&expect=1h", "/api/v1/attendance",
}

// Every endpoint refuses a tenant at its limit: what to narrow, and when to ask again.
func TestEveryEndpointLimitsTenants(t *testing.T) {
	s := newServer(t, func(q *query.Config, c *httpapi.Config) {
		q.Limits.RUsOfDay = 5
		c.Rejected = refusals{}
	})
	s.fill()
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
}

// Every answer says what it has cost, in a header; where its body says so too, it is the same.
func TestEveryAnswerHasRequestUnits(t *testing.T) {
	s := newServer(t, func(q *query.Config, c *httpapi.Config) {
		q.CacheBytes = -1
		c.Rejected = refusals{}
	})
	s.fill()
	for _, path := range endpoints {
		s.world.Heads.SetUpdates("acme") // what is known of devices is read again
		a := s.get(t, path)
		require.Equal(t, http.StatusOK, a.status, path)
		spent, err := strconv.ParseFloat(a.header.Get(query.SpentHeader), 64)
		require.NoError(t, err, path)
		if strings.HasPrefix(path, "/api/v1/rejected") {
			require.Zero(t, spent, "it is in memory")
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
