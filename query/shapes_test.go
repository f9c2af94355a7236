package query_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// Series and statistics, too, are what a plain map of the last values would give, whichever chunks overlap, were stored
// twice or are in a head as well (I5, I7).
func TestSeriesAndStatisticsMatchModel(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 77))
			w, truth := randomWorld(t, rnd)
			for range 40 {
				q := newQuerier(t, w, func(c *query.Config) { c.Log, c.Fanout = w.Log, 1+rnd.IntN(6) })
				r := randomRequest(rnd, w.Now)
				r.Descending, r.Limit = false, 0
				t.Logf("request %+v", r)
				want := truth.curves(r)

				var curves []query.Curve
				res, err := q.Series(t.Context(), r, func(c query.Curve) error {
					curves = append(curves, c)
					return nil
				})
				require.NoError(t, err)
				require.True(t, res.Complete, "%v", res.Incomplete)
				require.Len(t, curves, len(want))
				for i := range curves {
					require.Equal(t, want[i], flat(curves[i]))
				}

				step := []time.Duration{0, time.Second, time.Minute, 24 * time.Hour, 40 * 24 * time.Hour}[rnd.IntN(5)]
				var got []query.Statistic
				_, err = q.Statistics(t.Context(), r, step, func(s query.Statistic) error {
					got = append(got, s)
					return nil
				})
				require.NoError(t, err)
				sameStatistics(t, statisticsOf(want, r.Range, step), got)
			}
		})
	}
}

// flatCurve is a series with all its samples.
type flatCurve struct {
	device, metric string
	labels         string
	times          []int64
	values         []telemetry.Value
}

func flat(c query.Curve) flatCurve {
	out := flatCurve{device: c.Device, metric: c.Metric, labels: string(c.Labels.AppendKey(nil))}
	for _, s := range c.Stretches {
		out.times = append(out.times, s.Times...)
		for i := range s.Times {
			out.values = append(out.values, s.Value(i))
		}
	}
	return out
}

func (m truth) curves(r query.Request) []flatCurve {
	found := make(map[instant]*flatCurve)
	sets := make(map[string]telemetry.Labels)
	order := slices.SortedFunc(maps.Keys(m), func(a, b instant) int { return cmp.Compare(a.time, b.time) })
	for _, at := range order {
		if at.tenant != r.Tenant || !r.Range.Contains(at.time) ||
			(r.Devices != nil && !slices.Contains(r.Devices, at.device)) ||
			(r.Metrics != nil && !slices.Contains(r.Metrics, at.metric)) {
			continue
		}
		of := at
		of.time = 0
		if found[of] == nil {
			found[of] = &flatCurve{device: at.device, metric: at.metric, labels: at.labels}
			sets[at.labels] = m[at].labels
		}
		found[of].times = append(found[of].times, at.time)
		found[of].values = append(found[of].values, m[at].value)
	}
	var out []flatCurve
	for _, c := range found {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b flatCurve) int {
		return cmp.Or(cmp.Compare(a.device, b.device), sets[a.labels].Compare(sets[b.labels]),
			cmp.Compare(a.metric, b.metric))
	})
	return out
}

// statisticsOf computes from samples, one after another, what Statistics should answer.
func statisticsOf(curves []flatCurve, r telemetry.Range, step time.Duration) (out []query.Statistic) {
	from := max(r.From, 0)
	for _, c := range curves {
		type of struct {
			kind  telemetry.Kind
			start int64
		}
		columns := make(map[of]*chunk.Column)
		for i, at := range c.times {
			start := from
			if step > 0 {
				start += (at - from) / step.Milliseconds() * step.Milliseconds()
			}
			k := of{c.values[i].Kind(), start}
			if columns[k] == nil {
				columns[k] = &chunk.Column{Metric: c.metric, Kind: k.kind}
			}
			if k.kind == telemetry.Text {
				columns[k].Texts = append(columns[k].Texts, c.values[i].Text())
			} else {
				columns[k].Bits = append(columns[k].Bits, c.values[i].Bits())
			}
		}
		for _, k := range slices.SortedFunc(maps.Keys(columns), func(a, b of) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.start, b.start))
		}) {
			out = append(out, query.Statistic{Device: c.device, Metric: c.metric, Kind: k.kind, Start: k.start,
				Stats: chunk.StatsOf(columns[k])})
		}
	}
	return out
}

func sameStatistics(t *testing.T, want, got []query.Statistic) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		if w.Kind == telemetry.Float && w.Sum.Kind() == telemetry.Float && g.Sum.Kind() == telemetry.Float {
			bound := max(math.Abs(w.Min.Float()), math.Abs(w.Max.Float())) * float64(w.Count) * 1e-15
			require.InDelta(t, w.Sum.Float(), g.Sum.Float(), bound)
			g.Sum = w.Sum
		}
		g.Labels = nil
		require.Equal(t, w, g)
	}
}

// What stands alone is answered by its statistics: nothing of it is decoded (R6).
func TestStatisticsUseChunkStatistics(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 3, 50)
	var spoilt atomic.Int64
	q := newQuerier(t, w, func(c *query.Config) {
		c.Reader = &altered{w.Store, func(doc []byte) []byte {
			spoilt.Add(1)
			return spoil(t, doc)
		}}
	})
	var got []query.Statistic
	res, err := q.Statistics(t.Context(), query.Request{Tenant: "acme", Range: always, Metrics: []string{"x"}}, 0,
		func(s query.Statistic) error {
			got = append(got, s)
			return nil
		})
	require.NoError(t, err, "no column is decoded: they are all damaged")
	require.True(t, res.Complete)
	require.EqualValues(t, 18, spoilt.Load())
	require.Len(t, got, 2)
	for _, s := range got {
		require.Equal(t, 450, s.Count)
		require.Equal(t, 9*49*50/2.0, s.Sum.Float())
		require.Equal(t, [4]float64{0, 49, 49, 0}, [4]float64{s.Min.Float(), s.Max.Float(), s.First.Float(), s.Last.Float()})
	}
	enough := errors.New("enough")
	_, err = q.Statistics(t.Context(), query.Request{Tenant: "acme", Range: always}, 0,
		func(query.Statistic) error { return enough })
	require.Equal(t, enough, err)
	_, err = q.Series(t.Context(), query.Request{Tenant: "acme", Range: always}, func(query.Curve) error { return enough })
	require.ErrorIs(t, err, chunk.ErrCorrupt)
}

// spoil damages the columns of a small chunk and leaves the rest.
func spoil(t *testing.T, doc []byte) []byte {
	t.Helper()
	before, after, found := bytes.Cut(doc, []byte(`"data":"`))
	require.True(t, found, "a small chunk has one block")
	_, after, _ = bytes.Cut(after, []byte(`"`))
	return slices.Concat(before, []byte(`"data":"AAAA"`), after)
}
