package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// samplesOf is the series of a request, one line each, however they are divided into stretches.
func samplesOf(t *testing.T, q *query.Querier, r query.Request) (lines []string, res query.Result) {
	t.Helper()
	res, err := q.Series(t.Context(), r, func(c query.Curve) error {
		line := fmt.Sprintf("%s %v %s", c.Device, c.Labels, c.Metric)
		for _, s := range c.Stretches {
			for i, at := range s.Times {
				line += fmt.Sprintf(" %d=%v", at, s.Value(i))
			}
		}
		lines = append(lines, line)
		return nil
	})
	require.NoError(t, err)
	return lines, res
}

// openBins is what heads hold by device and day, and may cut.
type openBins struct {
	w    *querytest.World
	head store.PartitionHead
	rows map[string][]querytest.Record
}

func (o *openBins) take(r querytest.Record) {
	name := fmt.Sprint(r.Device, telemetry.DayOf(r.Time))
	o.rows[name] = append(o.rows[name], r)
	o.head.Position = r.Position.Offset + 1
}

// cut stores the first rows of a bin; the rest is another one.
func (o *openBins) cut(name string, n int) {
	o.w.Chunk(o.rows[name][:n]...)
	if o.rows[name] = o.rows[name][n:]; len(o.rows[name]) == 0 {
		delete(o.rows, name)
	}
}

func (o *openBins) names() []string {
	var names []string
	for name := range o.rows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (o *openBins) show() {
	var all []querytest.Record
	for _, name := range o.names() {
		all = append(all, o.rows[name]...)
	}
	o.w.Heads.SetOnly(o.head, all...)
}

// Whatever bins take, however they are cut, whichever process owns them, for every query: an answer with what was read
// of them before is what it is without.
func TestCachedBinsMatchModel(t *testing.T) {
	for seed := range seeds(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 27))
			w := querytest.New(t, noon)
			registry := prometheus.NewRegistry()
			cached := newQuerier(t, w, func(c *query.Config) {
				c.Registerer, c.CacheBytes = registry, []int64{64 << 20, 24 << 10}[seed%2]
			})
			plain := newQuerier(t, w, func(c *query.Config) { c.CacheBytes = -1 })
			open := &openBins{w: w, head: store.PartitionHead{Stream: 1, Owner: 1}, rows: make(map[string][]querytest.Record)}
			for offset := int64(0); offset < 700; offset++ {
				w.Now = w.Now.Add(time.Minute)
				at := w.Now.Add(-time.Duration(rnd.IntN(3)) * time.Second)
				if rnd.IntN(10) == 0 { // late
					at = at.Add(-time.Duration(rnd.IntN(60)) * time.Minute)
				}
				r := record(offset, modelDevices[rnd.IntN(3)], at.Truncate(time.Minute), float("a", float64(offset)))
				if rnd.IntN(8) == 0 {
					r.Labels = modelLabels[rnd.IntN(3)]
				}
				if rnd.IntN(3) == 0 {
					r.Fields = append(r.Fields, telemetry.Field{Metric: "b", Value: telemetry.IntValue(offset)})
				}
				open.take(r)
				switch names := open.names(); rnd.IntN(60) {
				case 0:
					name := names[rnd.IntN(len(names))]
					open.cut(name, 1+rnd.IntN(len(open.rows[name])))
				case 1:
					open.head.Owner++
				}
				if rnd.IntN(3) > 0 {
					continue
				}
				open.show()
				ask := query.Request{Tenant: "acme", Metrics: [][]string{{"a"}, {"a", "b"}, {"b"}, {"a", "c"}}[rnd.IntN(4)]}
				ask.Range = telemetry.Range{From: w.Now.Add(-time.Duration(1+rnd.IntN(20)) * time.Hour).UnixMilli(),
					To: w.Now.UnixMilli() + rnd.Int64N(2)}
				want, _ := samplesOf(t, plain, ask)
				got, res := samplesOf(t, cached, ask)
				require.Equal(t, want, got, "%d: %+v", offset, ask)
				require.True(t, res.Complete, "%v", res.Incomplete)
			}
			if seed%2 == 0 {
				hits, misses := headRowsOf(t, registry)
				require.Greater(t, hits, 2*misses)
			}
		})
	}
}

// headRowsOf is how many rows of bins were read before, and how many were not.
func headRowsOf(t *testing.T, registry *prometheus.Registry) (hits, misses float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "binnacle_query_cache_head_rows_total" {
			for _, m := range f.Metric {
				if m.Label[0].GetValue() == "hit" {
					hits = m.GetCounter().GetValue()
				} else {
					misses = m.GetCounter().GetValue()
				}
			}
		}
	}
	return hits, misses
}

// What a query keeps under a name that no metric can have is not taken for what another one asks for.
func TestCacheKeysAreUnambiguous(t *testing.T) {
	w := querytest.New(t, noon)
	q := newQuerier(t, w, nil)
	rec := func(offset int64, metrics ...string) querytest.Record {
		var fields []telemetry.Field
		for _, m := range metrics {
			fields = append(fields, telemetry.Field{Metric: m, Value: telemetry.FloatValue(float64(offset))})
		}
		return querytest.Record{Position: telemetry.Position{Stream: 1, Offset: offset}, Reading: telemetry.Reading{
			Tenant: "acme", Device: "d0", Time: noon.Add(time.Duration(offset) * time.Minute).UnixMilli(), Fields: fields}}
	}
	w.Chunk(rec(1, "a", "b"))
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 3, Owner: 1}, rec(2, "a", "b"))
	ask := func(metrics ...string) []string {
		lines, res := samplesOf(t, q, query.Request{Tenant: "acme", Metrics: metrics,
			Range: telemetry.Range{From: noon.UnixMilli(), To: noon.Add(2 * time.Hour).UnixMilli()}})
		require.Empty(t, res.Incomplete)
		return lines
	}
	require.Empty(t, ask("a\x00b"))
	require.Len(t, ask("a", "b"), 2)
	require.Len(t, ask("a"), 1)
	require.Empty(t, ask("a\x00b"))
}

// Heads get as many known bins as a request has room for, and none of days that nobody has asked for in a long time.
func TestKnownBinsInHeadRequests(t *testing.T) {
	w := querytest.New(t, noon)
	q := newQuerier(t, w, nil)
	var records []querytest.Record
	for i := range 8000 {
		at := noon.Add(-time.Minute)
		if i%8 == 0 {
			at = at.AddDate(0, 0, -1)
		}
		records = append(records, querytest.Record{Position: telemetry.Position{Stream: 1, Offset: int64(i)},
			Reading: telemetry.Reading{Tenant: "acme", Device: fmt.Sprintf("%s%d", strings.Repeat("<", 190), i),
				Time: at.UnixMilli(), Fields: []telemetry.Field{{Metric: "a", Value: telemetry.FloatValue(1)}}}})
	}
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 8000, Owner: 1}, records...)
	known := func(hours, rows int) (known, ofToday int) {
		lines, res := samplesOf(t, q, query.Request{Tenant: "acme", Metrics: []string{"a"},
			Range: telemetry.Range{From: w.Now.Add(-time.Duration(hours) * time.Hour).UnixMilli(), To: noon.UnixMilli()}})
		require.Empty(t, res.Incomplete)
		require.Equal(t, rows, len(lines))
		asked := w.Heads.Requests()
		body, err := json.Marshal(asked[len(asked)-1])
		require.NoError(t, err)
		require.Less(t, len(body), 5<<20)
		for _, k := range asked[len(asked)-1].Known {
			for _, b := range k.Bins {
				if known++; b.Day == telemetry.DayOf(noon.UnixMilli()) {
					ofToday++
				}
			}
		}
		return known, ofToday
	}
	n, _ := known(48, 8000)
	require.Zero(t, n)
	n, today := known(48, 8000)
	require.Greater(t, n, 3000)
	require.Less(t, today, n)
	for range 8 {
		w.Now = w.Now.Add(30 * time.Minute)
		_, _ = known(6, 7000)
	}
	n, _ = known(48, 8000)
	require.Zero(t, n)
}

// forgetful are heads that leave out more rows than they should.
type forgetful struct {
	truthful
	by int64
}

type truthful = store.Heads

func (f *forgetful) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	for _, k := range r.Known {
		for i := range k.Bins {
			k.Bins[i].Through += f.by
		}
	}
	return f.truthful.Heads(ctx, r)
}

// An answer that begins above other rows than those that are known is no complete one.
func TestHeadOmitsUnknownRows(t *testing.T) {
	w := querytest.New(t, noon)
	heads := &forgetful{truthful: w.Heads}
	q := newQuerier(t, w, func(c *query.Config) { c.Heads = heads })
	var all []querytest.Record
	for i := range int64(4) {
		heads.by = i / 2 // of two records that came
		all = append(all, record(2*i, "d0", noon.Add(time.Duration(2*i)*time.Minute), float("a", 1)),
			record(2*i+1, "d0", noon.Add(time.Duration(2*i+1)*time.Minute), float("a", 2)))
		w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: 2*i + 2, Owner: 1}, all...)
		_, res := samplesOf(t, q, query.Request{Tenant: "acme", Metrics: []string{"a"},
			Range: telemetry.Range{From: noon.UnixMilli(), To: noon.Add(4 * time.Hour).UnixMilli()}})
		require.Equal(t, i < 2, res.Complete, "%d: %v", i, res.Incomplete)
	}
}
