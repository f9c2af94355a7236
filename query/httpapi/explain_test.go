package httpapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// An explanation stands in the place of an answer, and says what it has cost.
func TestExplain(t *testing.T) {
	s := newServer(t, func(q *query.Config, _ *httpapi.Config) { q.CacheBytes = -1 })
	s.fill()
	explained := httptest.NewServer(httpapi.Explained(s.Config.Handler))
	t.Cleanup(explained.Close)
	s.Server = explained
	type explanation struct {
		Reads []struct {
			Devices   []string
			Metrics   []string
			From      string
			How       string
			Estimated struct {
				RequestUnits float64 `json:"request_units"`
				Documents    float64
				Scans        int
				Guessed      bool
			}
			Charged struct {
				RequestUnits float64 `json:"request_units"`
				Documents    int
				HeadRows     int `json:"head_rows"`
			}
			Scans []struct {
				Container    string
				TenantShard  string `json:"tenant_shard"`
				Device       string
				Documents    int
				RequestUnits float64 `json:"request_units"`
			}
		}
	}
	ask := func(path string) (e explanation) {
		a := s.get(t, path)
		require.Equal(t, 200, a.status, a.body)
		require.NoError(t, json.Unmarshal([]byte(a.body), &e), a.body)
		return e
	}
	e := ask("/api/v1/readings?metric=temp&explain=true")
	require.Len(t, e.Reads, 1)
	r := e.Reads[0]
	require.Nil(t, r.Devices)
	require.Equal(t, []string{"temp"}, r.Metrics)
	require.Equal(t, "2026-11-20T11:00:00.000Z", r.From)
	require.Equal(t, "4 prefix queries", r.How)
	require.True(t, r.Estimated.Guessed)
	require.InDelta(t, 12.01, r.Estimated.RequestUnits, 1e-9, "what asking four keys costs")
	require.InDelta(t, 12, r.Charged.RequestUnits, 1e-9)
	require.Equal(t, 1, r.Charged.Documents)
	require.Positive(t, r.Charged.HeadRows)
	documents := 0
	for _, scan := range r.Scans {
		require.Equal(t, "chunks-2026-11", scan.Container)
		require.Contains(t, scan.TenantShard, "acme~")
		require.InDelta(t, 3, scan.RequestUnits, 1e-9)
		documents += scan.Documents
	}
	require.Equal(t, 1, documents)

	r = ask("/api/v1/readings?metric=temp&explain=true&format=csv").Reads[0]
	require.False(t, r.Estimated.Guessed, "they were asked before")
	require.InDelta(t, 1, r.Estimated.Documents, 1e-9)
	require.InDelta(t, 12, r.Estimated.RequestUnits, 1.6)
	require.Equal(t, 4, r.Estimated.Scans)

	r = ask("/api/v1/readings?device=m1&explain=true").Reads[0]
	require.Equal(t, "a query for each key, in the store's order", r.How)
	require.Equal(t, "m1", r.Scans[0].Device)
	require.Empty(t, ask("/api/v1/devices?explain=true").Reads, "the catalog is no read of chunks")

	plain := s.get(t, "/api/v1/readings?metric=temp")
	require.Equal(t, plain.body, s.get(t, "/api/v1/readings?metric=temp&explain=false").body)
	for _, path := range []string{"/api/v1/readings?explain=1", "/api/v1/readings?explain=true&explain=true",
		"/api/v1/readings?explain=true&limit=x"} {
		a := s.get(t, path)
		require.Equal(t, 400, a.status, path)
		parseProblem(t, a)
	}
	a, err := s.do(t, http.MethodGet, "/api/v1/readings?explain=true", nil)
	require.NoError(t, err)
	require.Equal(t, 401, a.status)
}

// An error comes as it is, also where a long answer had begun: nothing of that was sent.
func TestExplainOfFailingQuery(t *testing.T) {
	s := newServer(t, func(q *query.Config, _ *httpapi.Config) { q.CacheBytes = -1 })
	for i := range 20 {
		var some []querytest.Record
		for k := range 500 {
			at := noon.AddDate(0, 0, -20+i).Add(time.Duration(k) * time.Second)
			some = append(some, record(int64(500*i+k), "m1", at, nil, field("note", telemetry.TextValue("a long text"))))
		}
		s.world.Chunk(some...)
	}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 10_000})
	all := s.world.Store.Documents()
	last := all[len(all)-1]
	s.world.Store.Damage(last.Key, last.ID, bytes.Replace(last.Doc, []byte(`"rows":500`), []byte(`"rows":1`), 1))
	explained := httptest.NewServer(httpapi.Explained(s.Config.Handler))
	t.Cleanup(explained.Close)
	s.Server = explained
	a := s.get(t, "/api/v1/readings?device=m1&format=ndjson&from=-30d&explain=true")
	require.Equal(t, 500, a.status, a.body)
	require.Contains(t, parseProblem(t, a).Detail, "can't be read")
}

// A plan has the expected cost, reads no document, and leaves the answer of a later query as it is.
func TestExplainPlan(t *testing.T) {
	s := newServer(t, func(*query.Config, *httpapi.Config) {})
	s.fill()
	explained := httptest.NewServer(httpapi.Explained(s.Config.Handler))
	t.Cleanup(explained.Close)
	s.Server = explained
	for _, path := range []string{"/api/v1/readings?metric=temp", "/api/v1/readings?metric=temp&limit=5",
		"/api/v1/latest?metric=temp", "/api/v1/aggregates?metric=temp&step=5m"} {
		var e httpapi.Explanation
		a := s.get(t, path+"&explain=plan")
		require.Equal(t, 200, a.status, a.body)
		require.NoError(t, json.Unmarshal([]byte(a.body), &e), a.body)
		require.Len(t, e.Reads, 1, path)
		require.Positive(t, e.Reads[0].Estimated.RequestUnits, path)
		require.Zero(t, e.Reads[0].Charged.Documents, path)
		require.Empty(t, e.Reads[0].Scans, path)
		require.NotContains(t, s.get(t, path).body, `":[]`, path)
	}
}
