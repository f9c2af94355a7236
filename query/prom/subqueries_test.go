package prom_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// hours stores two hours of two devices with three metrics, in four chunks a device, up to noon.
func hours(s server) {
	offset := int64(1)
	for d := range 2 {
		for part := range 4 {
			var records []querytest.Record
			for i := range 180 {
				at := noon.Add(time.Duration(part*180+i+1)*10*time.Second - 2*time.Hour)
				records = append(records, record(offset, fmt.Sprintf("m%d", d), at, nil, float("a", float64(i%60)),
					float("b", float64(i)), telemetry.Field{Metric: "far", Value: telemetry.IntValue(1<<60 + int64(i))}))
				offset++
			}
			s.world.Chunk(records...)
		}
	}
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 1 << 20})
}

// Selectors that read the same range of chunks read them once, whatever their metrics; equal parts of a query are
// computed once.
func TestSelectorsAreReadTogether(t *testing.T) {
	const rounded = "integers beyond 2^53 are rounded to the nearest float"
	chunks := func(text string, warnings ...string) (n int) {
		s := newServer(t, nil)
		hours(s)
		r := s.ask(t, "/api/v1/query", "query", text, "time", noon.Format(time.RFC3339))
		require.Equal(t, 200, r.status, r.Error)
		require.Equal(t, warnings, r.Warnings, text)
		require.Equal(t, !strings.Contains(text, "none"), strings.Contains(string(r.Data), "m1"), text)
		_, err := fmt.Sscanf(r.header.Get(query.SourceHeader), "rollups=0, chunks=%d,", &n)
		require.NoError(t, err)
		require.Positive(t, n)
		return n
	}
	all := chunks("a[2h]")
	require.Equal(t, 8, all)
	for _, text := range []string{
		"max_over_time(a[2h])", "max_over_time(a[2h]) + max_over_time(b[2h])", "max_over_time(a[2h]) - min_over_time(a[2h])",
		"max_over_time(a[2h]) / max_over_time(a[2h])", "stddev_over_time((a > 1)[2h:10s])",
		"sum_over_time((a and on (device) b > 1)[2h:10s]) / count_over_time((a and on (device) b > 1)[2h:10s])",
		"max_over_time(a[115m:]) or max_over_time(b[115m:])",
	} {
		require.Equal(t, all, chunks(text), text)
	}
	require.Equal(t, all, chunks("max_over_time(a[2h]) + max_over_time(far[2h])", rounded))
	require.Equal(t, all, chunks("max_over_time(a[2h]) + max_over_time(none[2h])", `no metric "none"`))
	require.Equal(t, all+all/2, chunks(`max_over_time(a[2h]) + on (device) max_over_time(b{device="m1"}[2h])`))
	require.Equal(t, chunks("a"), chunks("a + b"))
	require.Equal(t, chunks("a")+chunks("b offset 1h"), chunks("a + b offset 1h"))
}

// Subqueries on a grid of rollups read no chunks.
func TestSubqueriesFromRollups(t *testing.T) {
	s := newServer(t, nil)
	midnight := noon.Truncate(24 * time.Hour)
	sealedDay(t, s, midnight)
	s.world.Now = s.world.Now.Add(10 * time.Minute)
	with := newServerIn(t, s.world, func(c *query.Config, _ *prom.Config) { c.Rollups = s.world.Rollups })
	for _, text := range []string{
		"count_over_time((avg_over_time(starts[10m]) > 1)[1h:10m])", "max_over_time(sum_over_time(starts[10m])[1h:5m])",
		"resets((0 - (max_over_time(velocity[5m]) > bool 50))[1h:5m] offset 10m)",
		"quantile_over_time(0.5, sum(max_over_time(velocity[5m]))[1h:5m])",
		`last_over_time({__name__=~"velocity|starts"}[1h])`,
		"max_over_time(min_over_time(count_over_time(velocity[5m])[30m:5m])[1h:30m])",
	} {
		want := s.ask(t, "/api/v1/query", "query", text, "time", midnight.Format(time.RFC3339))
		got := with.ask(t, "/api/v1/query", "query", text, "time", midnight.Format(time.RFC3339))
		require.Equal(t, 200, want.status, want.Error)
		require.Equal(t, string(want.Data), string(got.Data), text)
		require.Contains(t, string(want.Data), `"value":[`, text)
		require.Contains(t, got.header.Get(query.SourceHeader), "chunks=0,", text)
		require.NotContains(t, got.header.Get(query.SourceHeader), "rollups=0,", text)
	}
	r := with.ask(t, "/api/v1/query", "query", "irate(starts[1h]) - max_over_time(velocity[1h])", "time",
		midnight.Format(time.RFC3339))
	require.NotContains(t, r.header.Get(query.SourceHeader), "rollups=0,")
	require.NotContains(t, r.header.Get(query.SourceHeader), "chunks=0,")
}

// Operations on sets join series, match several, and use one of them twice; subqueries and ranges differ in their
// offset only, or have "@": all is what the engine answers.
func TestSubqueriesEqualEngine(t *testing.T) {
	c := chance{rand.New(rand.NewPCG(*randomSeed, 2))}
	engine, answers := engineOf(), 0
	for range 6 {
		s := newServer(t, nil)
		c.readings(t, s, noon)
		readings := prom.Over(s.query, "acme")
		leaves := prom.Pushdowns{QueryEngine: engine, Over: readings}
		for _, text := range []string{
			"velocity - velocity offset 5m", "max_over_time(velocity[5m]) - max_over_time(velocity[5m] offset 5m)",
			"min_over_time(velocity[5m]) - max_over_time(velocity[5m])",
			"rate(velocity[90.0005]) - rate(velocity[90.0004])",
			"sum_over_time((velocity > 50 or velocity)[1h:1m])", "sum_over_time((velocity > 50 or velocity * 1)[1h:1m])",
			"sum_over_time((velocity > 50 or on (fleet) starts)[1h:1m])",
			"sum_over_time((velocity > 50 or ignoring (device) velocity)[1h:1m])",
			"sum_over_time((starts and on (fleet) (velocity > 60))[1h:1m])",
			"sum_over_time((starts unless on (fleet) (velocity > 60))[1h:1m]) / sum_over_time((velocity > 60)[1h:1m])",
			"count_over_time((velocity and velocity > 60)[1h:1m]) / count_over_time(velocity[1h:1m])",
			"max_over_time((velocity > 1)[10m:1m]) - max_over_time((velocity > 1)[10m:1m] offset 1m)",
			"resets((-velocity)[1h:1m]) + sum_over_time((0 - velocity)[1h:1m]) + sum_over_time((velocity)[1h:1m])",
			"predict_linear((velocity * 2)[10m:1m] @ 1795174000, 60)", "predict_linear(velocity[10m:1m] @ start(), 60)",
			"predict_linear((velocity @ end() > 2)[10m:1m], 60)", "sum_over_time((velocity - velocity @ 1795174000)[10m:1m])",
			"sum_over_time(max_over_time((velocity > 1)[5m:1m])[30m:5m])", `sum_over_time({fleet="1"}[10m:1m])`,
			`last_over_time({__name__=~"velocity|starts"}[10m])`, `sum_over_time((-{__name__=~"velocity|starts"})[10m:1m])`,
		} {
			answer, _ := alike(t.Context(), t, c.ask(t.Context(), readings, nil, text, noon), engine, leaves, text)
			if !strings.HasPrefix(answer, "\n") {
				answers++
			}
		}
		s.Close()
	}
	require.Greater(t, answers, 30)
}

// What is computed in between is changed in place, or given back: a query needs no more memory for being long.
func TestColumnsTakeBoundedMemory(t *testing.T) {
	column := int64(8 * 720 * 2) // of two devices
	s := newServer(t, func(_ *query.Config, p *prom.Config) { p.MemoryBytes = 9 * column })
	hours(s)
	one := "a"
	for range 20 {
		one = fmt.Sprintf("(-(%s) * 2 and on (device) (a > 1 or a))", one)
	}
	for text, status := range map[string]int{
		fmt.Sprintf("sum_over_time(%s[2h:10s])", one):                                                              200,
		"sum_over_time(a[2h:10s]) + avg_over_time((b * 2)[2h:10s])":                                                200,
		"count_over_time((a > 1 and b > 1 and a offset 10s > 1 and b offset 10s > 1 and a offset 20s > 1)[2h:1s])": 422,
	} {
		r := s.ask(t, "/api/v1/query", "query", text, "time", noon.Format(time.RFC3339), "lookback_delta", "10s")
		require.Equal(t, status, r.status, "%s: %s", text, r.Error)
	}
}
