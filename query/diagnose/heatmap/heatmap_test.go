package heatmap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/diagnose/heatmap"
	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/require"
)

// load returns a grid of random keys, some of them the rest of a slot.
func load(r *rand.Rand, keys, columns int) heat.Grid {
	g := heat.Grid{Container: "chunks-2026-11", From: 0, Step: heat.Minute, Columns: columns}
	for i := range keys {
		k := heat.KeyOf(g.Container, sharding.Shard(fmt.Sprint("t", i/4), sharding.Slot(r.IntN(sharding.Slots))))
		if i%10 == 0 {
			k = k.Rest()
		}
		row := heat.Row{Key: k, Amounts: make([]heat.Amount, columns)}
		for c := range columns {
			row.Amounts[c].RUs[r.IntN(heat.Kinds)] = math.Exp(4 * r.NormFloat64())
			row.Amounts[c].Bytes, row.Amounts[c].Throttled = r.Int64N(1e6), r.Int64N(3)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func columnSums(m heatmap.Map) []float64 {
	sums := make([]float64, m.Columns)
	for _, l := range m.Rows {
		for c, v := range l.Sums {
			sums[c] += v
		}
	}
	return sums
}

// Whatever the map is compacted to, each column keeps its sum, as does each physical partition; keys stay in the order
// of their hash, none is lost, and rows of two partitions are never one.
func TestCompactionKeepsSums(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := load(r, 1+r.IntN(300), 1+r.IntN(30))
		ranges := epk.Split(1 + r.IntN(20))
		for _, kind := range []heatmap.Kind{heatmap.RUs, heatmap.Bytes, heatmap.Throttled} {
			in := heatmap.Input{Kind: kind, Grid: g, Ranges: ranges, Now: 1 << 50, Rows: 1000}
			whole := heatmap.New(in)
			in.Rows = 1 + r.IntN(100)
			small := heatmap.New(in)
			require.LessOrEqual(t, len(small.Rows), max(in.Rows, len(ranges)), "seed %d", seed)
			require.Equal(t, whole.Keys, small.Keys)
			keys := 0
			for i, l := range small.Rows {
				keys += l.Keys
				if i > 0 {
					require.LessOrEqual(t, small.Rows[i-1].At, l.At)
					require.LessOrEqual(t, small.Rows[i-1].Range, l.Range)
				}
			}
			require.Equal(t, small.Keys, keys)
			want := columnSums(whole)
			total, first := 0.0, 0.0
			for c, got := range columnSums(small) {
				require.InDelta(t, want[c], got, 1e-6*want[c]+0.5, "seed %d, column %d", seed, c)
				total += got
			}
			for c := range g.Columns {
				for i := range g.Rows {
					a := g.Rows[i].Amounts[c]
					first += map[heatmap.Kind]float64{heatmap.RUs: a.Total(), heatmap.Bytes: float64(a.Bytes),
						heatmap.Throttled: float64(a.Throttled)}[kind]
				}
			}
			require.InDelta(t, first, total, 1e-6*first+1)
			for i := range ranges {
				require.InDelta(t, whole.Ranges[i].Sum, small.Ranges[i].Sum, 1e-6*first+1)
			}
		}
	}
}

// The hottest key stays by itself however far the map is compacted.
func TestCompactionLeavesTheHottestAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	g := load(r, 200, 10)
	g.Rows[33].Amounts[5].RUs[0] = 1e9
	m := heatmap.New(heatmap.Input{Kind: heatmap.RUs, Grid: g, Ranges: epk.Split(2), Now: 1 << 50, Rows: 12})
	i := slices.IndexFunc(m.Rows, func(l heatmap.Row) bool { return l.First == g.Rows[33].Shard })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, 1, m.Rows[i].Keys)
	require.Contains(t, m.Findings[0], "times the mean")
	require.Contains(t, m.Findings[1], g.Rows[33].Shard)
}

// A split changes to which partition a row belongs, and no value: the key space before and after has the same heat.
func TestASplitInventsNoHeat(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	g := load(r, 150, 12)
	before := epk.Split(4)
	cut := sharding.Shard("cut", 90)
	middle := epk.MultiHash(epk.String(cut))
	after := []epk.Range{before[0], {Min: before[1].Min, Max: middle}, {Min: middle, Max: before[1].Max}, before[2],
		before[3]}
	in := heatmap.Input{Kind: heatmap.RUs, Grid: g, Ranges: before, Now: 1 << 50, Rows: 1000}
	one := heatmap.New(in)
	in.Ranges = after
	two := heatmap.New(in)
	require.InDelta(t, one.Ranges[1].Sum, two.Ranges[1].Sum+two.Ranges[2].Sum, 1e-3*float64(len(one.Rows)*12))
	for _, i := range []int{0, 2, 3} {
		other := i
		if i > 1 {
			other++
		}
		require.InDelta(t, one.Ranges[i].Sum, two.Ranges[other].Sum, 1e-3*float64(len(one.Rows)*12))
	}
	for c, sum := range columnSums(one) {
		require.InDelta(t, sum, columnSums(two)[c], 1e-3*float64(len(two.Rows)))
	}
}

// Columns from now on have the forecast, each hour evenly, and nothing that was counted.
func TestTheForecastIsBeyondNow(t *testing.T) {
	key := heat.KeyOf("chunks-2026-11", sharding.Shard("acme", 3))
	g := heat.Grid{Container: key.Container, From: 0, Step: 15 * heat.Minute, Columns: 16,
		Rows: []heat.Row{{Key: key, Amounts: make([]heat.Amount, 16)}}}
	for c := range 16 {
		g.Rows[0].Amounts[c].RUs[0] = 1000
	}
	e := heat.Expected{Key: key}
	e.RUs[0], e.RUs[1], e.RUs[2] = 30, 40, 80
	f := heat.Forecast{At: heat.Hour + 30*heat.Minute, Cells: []heat.Expected{e}}
	m := heatmap.New(heatmap.Input{Kind: heatmap.RUs, Grid: g, Forecast: f, Ranges: epk.Split(3), Now: f.At, Rows: 10})
	require.Equal(t, 6, m.Now)
	want := []float64{1000, 1000, 1000, 1000, 1000, 1000, 15, 15, 10, 10, 10, 10, 20, 20, 20, 20}
	require.Equal(t, want, m.Rows[0].Sums)
}

// source is a Source of one grid.
type source struct {
	grid heat.Grid
	err  error
}

func (s *source) Grid(_ context.Context, container string, span heat.Span) (heat.Grid, error) {
	s.grid.Container = container
	s.grid.From, s.grid.Step, s.grid.Columns = span.From, span.Step, int((span.To-span.From)/span.Step)
	return s.grid, s.err
}

func (s *source) Forecast(context.Context, time.Time) (heat.Forecast, error) {
	return heat.Forecast{}, nil
}

// What is asked wrongly is a 400 that names the parameter; what is not there is a 404, what can't be read a 502, also
// where an error of the connection names a URL.
func TestHandlerAnswers(t *testing.T) {
	now := time.Date(2026, 11, 23, 4, 30, 0, 0, time.UTC)
	s := &source{}
	n := 2
	var failed error
	h := heatmap.NewHandler(heatmap.Config{Source: s,
		Shared: func(day telemetry.Day) string { return sharding.Container("", sharding.Month.Of(day)) },
		Now:    func() time.Time { return now },
		Ranges: func(context.Context, string) ([]epk.Range, error) { return epk.Split(n), failed },
		Marks:  func(string) []heatmap.Mark { return []heatmap.Mark{{At: now.UnixMilli() - 1, Kind: "epoch"}, {At: 5}} }})
	ask := func(query string) (int, string) {
		w := httptest.NewRecorder()
		ops.Endpoint(h.Serve).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/heat?"+query, nil))
		return w.Code, w.Body.String()
	}
	for query, want := range map[string]string{
		"kind=x": "kind", "rows=0": "rows", "rows=1001": "rows", "from=x": "from", "to=y": "to", "step=2m": "step",
		"container=a/b": "container", "who=me": "who", "kind=rus&kind=rus": "kind", "from=10&to=5": "from",
		"from=0&to=1795400000000": "from", "from=1795000000000&to=1795400000000&step=1m": "step",
	} {
		code, text := ask(query)
		require.Equal(t, 400, code, query)
		require.Contains(t, text, want+": ", query)
	}
	code, text := ask("kind=bytes")
	require.Equal(t, 200, code)
	var m heatmap.Map
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	require.Equal(t, "chunks-2026-11", m.Container)
	require.Equal(t, heat.Minute, m.Step)
	require.Equal(t, []heatmap.Mark{{At: now.UnixMilli() - 1, Kind: "epoch"}}, m.Marks)
	require.Equal(t, []string{"No bytes in this time."}, m.Findings)

	n = 3
	now = now.Add(time.Minute)
	_, text = ask("to=" + fmt.Sprint(now.Add(time.Hour).UnixMilli()))
	require.Contains(t, text, "2 physical partitions became 3")
	var before, after heatmap.Map
	_, text = ask("from=-1h&to=now")
	require.NoError(t, json.Unmarshal([]byte(text), &before))
	_, text = ask(fmt.Sprintf("from=%d&to=%d", now.Unix()-3600, now.UnixMilli()))
	require.NoError(t, json.Unmarshal([]byte(text), &after))
	require.Equal(t, before.From, after.From, "seconds since 1970 are recognised")
	require.Equal(t, now.Add(-time.Hour).Truncate(time.Minute).UnixMilli(), after.From)
	_, text = ask("from=2026-10-24T00:00:00Z")
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	require.Equal(t, 6*heat.Hour, m.Step)

	failed = store.ErrNoContainer
	code, text = ask("container=other")
	require.Equal(t, 404, code, text)
	for _, failed = range []error{errors.New("broken"), &url.Error{Op: "Get", URL: "https://account", Err: io.EOF}} {
		code, _ = ask("")
		require.Equal(t, 502, code)
	}
}
