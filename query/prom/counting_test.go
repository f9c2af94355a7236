package prom_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"binnacle/internal/control/controltest"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
)

// A count of all series is computed without holding them, and says what the engine says: groups in its order, at each
// step those with a value.
func TestCountsAreThoseOfTheEngine(t *testing.T) {
	const seed = 53
	r := rand.New(rand.NewPCG(seed, 0))
	s := newServer(t, nil)
	var records []querytest.Record
	for d := range 12 {
		device := fmt.Sprintf("d%02d", d)
		s.world.Catalog.AddPage("acme", controltest.Entry(device, map[string]string{"site": fmt.Sprint("s", d%3)}))
		for i := range 30 {
			if r.IntN(3) == 0 {
				continue
			}
			v := float64(r.IntN(100))
			if r.IntN(8) == 0 {
				v = math.Float64frombits(value.StaleNaN)
			}
			var l telemetry.Labels
			if d%4 == 0 {
				l = telemetry.Labels{{Name: "axle", Value: fmt.Sprint(r.IntN(2))}}
			}
			at := noon.Add(time.Duration(i-30)*time.Minute + time.Duration(d)*time.Second)
			records = append(records, record(int64(len(records)), device, at, l, float(fmt.Sprint("m", r.IntN(4)), v)))
		}
	}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 10_000}, records...)
	for _, query := range []string{
		`count({__name__!=""})`, `count by (__name__) ({__name__=~"m.*"})`, `count by (site, axle) (({__name__=~"m[^1]"}))`,
		`count by (nothing) ({device=~"d0.*"} offset 3m)`, `count({device="d01"}) + count({site="s1"})`,
		`count by (device) ({__name__=~"m[12]"}) > 1`, `sum(count by (site) ({__name__!=""}))`, `count({device="none"})`,
	} {
		for _, path := range []string{"/api/v1/query", "/api/v1/query_range"} {
			parameters := []string{"query", query, "time", fmt.Sprint(noon.Unix()), "start", fmt.Sprint(noon.Unix() - 1500),
				"end", fmt.Sprint(noon.Unix()), "step", "17"}
			got, want := s.ask(t, path, parameters...), s.ask(t, path, append(parameters, "stats", "1")...)
			require.Equal(t, http.StatusOK, got.status, got.Error)
			var counted, evaluated struct{ Result json.RawMessage }
			require.NoError(t, json.Unmarshal(got.Data, &counted))
			require.NoError(t, json.Unmarshal(want.Data, &evaluated))
			require.JSONEq(t, string(evaluated.Result), string(counted.Result), "seed %d: %s", seed, query)
			require.Equal(t, query != `count({device="none"})`, len(counted.Result) > 2, query)
		}
	}
}

// What a query holds of each series counts as memory, so that a million of them are a refusal that says what to narrow,
// where a count of them is an answer.
func TestManySeriesAreBounded(t *testing.T) {
	s := newServer(t, func(_ *query.Config, p *prom.Config) { p.MemoryBytes = 256 << 10 })
	var records []querytest.Record
	labelled := telemetry.Labels{{Name: "axle", Value: "1"}} // so that lists of series are of readings
	for d := range 3000 {
		device := fmt.Sprintf("d%04d", d)
		records = append(records, record(int64(d), device, noon.Add(-time.Minute), labelled, float("m", 1)))
	}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 10_000}, records...)
	at := fmt.Sprint(noon.Unix())
	answer := s.ask(t, "/api/v1/query", "query", `count({__name__!=""})`, "time", at)
	require.Equal(t, http.StatusOK, answer.status, answer.Error)
	require.Contains(t, string(answer.Data), `"3000"`)
	for _, ask := range [][]string{
		{"/api/v1/query", "query", `{__name__!=""}`, "time", at},
		{"/api/v1/query", "query", `{__name__!=""} @ end()`, "time", at}, // by the engine alone
		{"/api/v1/series", "match[]", `{__name__!=""}`, "end", at},
	} {
		answer := s.ask(t, ask[0], ask[1:]...)
		require.Equal(t, http.StatusUnprocessableEntity, answer.status, ask)
		require.Contains(t, answer.Error, "memory that a query may use", ask)
	}
}
