package prom_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// A query as of a moment knows the chunks alone that were cut by then: neither later corrections nor heads, however it
// is computed.
func TestQueryAsOf(t *testing.T) {
	s := newServer(t, nil)
	at := noon.Add(-10 * time.Minute)
	s.world.Now = at.Add(time.Minute)
	s.world.Chunk(record(1, "m1", at, nil, float("temp", 1)),
		record(2, "m1", at.Add(10*time.Second), nil, float("temp", 2)))
	first := s.world.Now
	s.world.Now = first.Add(time.Minute)
	// A correction, something late, and another device.
	s.world.Chunk(record(3, "m1", at, nil, float("temp", 10)), record(4, "m1", at.Add(time.Second), nil, float("temp", 0)))
	s.world.Chunk(record(5, "m2", at, nil, float("temp", 5)))
	second := s.world.Now
	s.world.Now = noon
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 100}, record(50, "m1", at.Add(10*time.Second), nil,
		float("temp", 200)))
	ask := func(text string, params ...string) string {
		t.Helper()
		r := s.ask(t, "/api/v1/query", append([]string{"query", text, "time", fmt.Sprint(at.Unix() + 20)}, params...)...)
		require.Equal(t, 200, r.status, r.Error)
		require.Empty(t, r.Warnings)
		ranged := s.ask(t, "/api/v1/query_range", append([]string{"query", text, "start", fmt.Sprint(at.Unix() + 20), "end",
			fmt.Sprint(at.Unix() + 20), "step", "60"}, params...)...)
		require.Equal(t, 200, ranged.status, ranged.Error)
		value := valueOf(t, r.Data)
		require.Equal(t, value, valueOf(t, ranged.Data))
		return value
	}
	asOf := func(at time.Time) string { return at.Format(time.RFC3339Nano) }
	for text, want := range map[string][4]string{ // now, by the second chunk, by the first, and before it
		`sum(sum_over_time(temp{device="m1"}[1m]))`:      {"210", "12", "3", ""},
		`sum(temp{device="m1"})`:                         {"200", "2", "2", ""},
		`count(temp)`:                                    {"2", "2", "1", ""},
		`sum(max_over_time(temp{device="m1"}[1m:10s]))`:  {"200", "10", "2", ""},
		`sum(changes(temp{device="m1"}[1m] offset 10s))`: {"2", "2", "1", ""},
	} {
		require.Equal(t, want[0], ask(text), text)
		require.Equal(t, want[1], ask(text, "as_of", asOf(noon)), text)
		require.Equal(t, want[1], ask(text, "as_of", asOf(second)), text)
		require.Equal(t, want[2], ask(text, "as_of", fmt.Sprintf("%.3f", float64(second.UnixMilli()-1)/1000)), text)
		require.Equal(t, want[2], ask(text, "as_of", asOf(first)), text)
		require.Equal(t, want[3], ask(text, "as_of", asOf(first.Add(-time.Millisecond))), text)
	}
}

// valueOf is the one value of an answer, empty if it has none.
func valueOf(t *testing.T, data json.RawMessage) string {
	t.Helper()
	var body struct {
		Result []struct {
			Value  [2]any
			Values [][2]any
		}
	}
	require.NoError(t, json.Unmarshal(data, &body))
	if len(body.Result) == 0 {
		return ""
	}
	require.Len(t, body.Result, 1)
	all := append(body.Result[0].Values, body.Result[0].Value)
	return all[0][1].(string)
}

// Lanes answer no query as of a moment: they are made of all chunks that there are.
func TestQueryAsOfReadsNoRollups(t *testing.T) {
	w, end := querytest.New(t, noon), noon.Truncate(24*time.Hour)
	s := newServerIn(t, w, func(c *query.Config, _ *prom.Config) { c.Rollups = w.Rollups })
	sealedDay(t, s, end)
	stored := s.world.Now.Add(-time.Hour)
	s.world.Now = s.world.Now.Add(10 * time.Minute)
	ask := func(params ...string) response {
		t.Helper()
		r := s.ask(t, "/api/v1/query_range", append([]string{"query", "sum by (device) (sum_over_time(velocity[5m]))",
			"start", fmt.Sprint(end.Add(-time.Hour).Unix()), "end", fmt.Sprint(end.Unix()), "step", "300"}, params...)...)
		require.Equal(t, 200, r.status, r.Error)
		return r
	}
	now, then := ask(), ask("as_of", stored.Format(time.RFC3339Nano))
	require.NotContains(t, now.header.Get(query.SourceHeader), "rollups=0,")
	require.Contains(t, then.header.Get(query.SourceHeader), "rollups=0,")
	require.JSONEq(t, string(now.Data), string(then.Data))
	before := ask("as_of", stored.Add(-time.Second).Format(time.RFC3339Nano))
	require.JSONEq(t, `{"resultType":"matrix","result":[]}`, string(before.Data))
}

// What can't be a moment is refused, and so is a moment where it would be ignored.
func TestInvalidAsOf(t *testing.T) {
	s := newServer(t, nil)
	s.world.Now = noon
	for _, wrong := range []string{"", "x", "0", "-1", "-5m", "NaN", "2026-11-20T12:00:00.001Z", "99999999999"} {
		r := s.ask(t, "/api/v1/query", "query", "x", "as_of", wrong)
		require.Equal(t, 400, r.status, wrong)
		require.Contains(t, r.Error, `"as_of"`, wrong)
	}
	require.Equal(t, 400, s.ask(t, "/api/v1/query", "query", "x", "as_of", "1", "as_of", "2").status)
	for _, path := range []string{"series", "labels", "label/device/values", "metadata", "query_exemplars", "read"} {
		r := s.ask(t, "/api/v1/"+path, "match[]", "x", "as_of", "1")
		require.Equal(t, 400, r.status, path)
		require.Contains(t, r.Error, "only query and query_range", path)
	}
	r := s.do(t, http.MethodGet, "/api/v1/query", http.Header{access.TenantHeader: {"acme"},
		"X-Binnacle-After": {"telemetry/0/4"}}, "query", "x", "as_of", "1")
	require.Equal(t, 400, r.status)
	require.Contains(t, r.Error, "X-Binnacle-After")
}
