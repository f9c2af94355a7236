package query_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/merge"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// summer is around the night in which Berlin's clocks are put forward: the 31st has 23 hours.
var summer = time.Date(2024, 3, 29, 12, 0, 0, 0, time.UTC)

var modelTags = map[string]map[string]string{
	"m1": {"fleet": "east", "site": "hall"}, "m2": {"fleet": "west", "site": "hall"}, "heavy": {"fleet": "east"},
}

// Whatever is asked, aggregates are those of a plain map of the last values: of readings that were sent again, were
// corrected, lie in chunks that overlap, and half of the time in heads.
func TestAggregatesMatchModel(t *testing.T) {
	for seed := range seeds(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 55))
			w, truth := summerWorld(t, rnd)
			for range 30 {
				q := newQuerier(t, w, func(c *query.Config) { c.Log, c.Fanout = w.Log, 1+rnd.IntN(6) })
				c := randomCase(t, rnd)
				t.Logf("%+v by %+v, fill %s, %v every %s %s in %v, closed on the right %t", c.request, c.asked.By, c.asked.Fill,
					c.names, c.step, c.unit, c.zone, c.right)
				want := c.of(truth)
				var got []query.Aggregated
				res, err := q.Aggregates(t.Context(), c.request, c.asked, func(a query.Aggregated) error {
					a.Values = slices.Clone(a.Values)
					got = append(got, a)
					return nil
				})
				require.NoError(t, err)
				require.True(t, res.Complete, "%v", res.Incomplete)
				require.Len(t, got, len(want))
				for i := range want {
					require.Equal(t, want[i].group, nameOf(got[i]), "%d", i)
					require.Equal(t, [2]int64{want[i].start, want[i].end}, [2]int64{got[i].Start, got[i].End}, "%d", i)
					for k, a := range c.asked.Aggregates {
						alike(t, want[i].values[k], got[i].Values[k], "%s of %s at %d", a, want[i].group, want[i].start)
					}
				}
			}
		})
	}
}

// alike allows for what sums round off in another order.
func alike(t *testing.T, want, got float64, format string, args ...any) {
	t.Helper()
	if math.IsNaN(want) || math.IsNaN(got) {
		require.Equal(t, math.IsNaN(want), math.IsNaN(got), append([]any{format}, args...)...)
		return
	}
	require.InDelta(t, want, got, 1e-7*max(1, math.Abs(want)), append([]any{format}, args...)...)
}

func summerWorld(t *testing.T, rnd *rand.Rand) (*querytest.World, truth) {
	w := querytest.New(t, summer.AddDate(-1, 0, 0))
	w.Tenant("acme")
	w.Now = summer.AddDate(0, 0, 4)
	_, err := w.Directory.Refresh(t.Context())
	require.NoError(t, err)
	for device, tags := range modelTags {
		w.Catalog.AddPage("acme", storetest.Entry(device, tags))
	}
	truth := make(truth)
	logs := make(map[telemetry.Position][]querytest.Record)
	for range 300 + rnd.IntN(600) {
		p := telemetry.Position{Stream: 1 + rnd.Uint32N(2), Partition: rnd.Int32N(3)}
		r := querytest.Record{Position: p, Reading: telemetry.Reading{
			Tenant: "acme", Device: modelDevices[rnd.IntN(len(modelDevices))], Labels: modelLabels[rnd.IntN(len(modelLabels))],
			Time: summer.UnixMilli() + rnd.Int64N(60*12*5)*5*60_000/5,
		}}
		for _, m := range modelMetrics {
			if rnd.IntN(2) == 0 {
				r.Fields = append(r.Fields, telemetry.Field{Metric: m, Value: tameValue(rnd)})
			}
		}
		if r.Fields == nil {
			continue
		}
		r.Position.Offset = int64(2 * len(logs[p]))
		logs[p] = append(logs[p], r)
		truth.take(r)
	}
	w.Log.Set(9000, 9000, 9000)
	for p := range 3 {
		w.Heads.Set(store.PartitionHead{Stream: 2, Partition: int32(p), Position: 9000})
	}
	for p, log := range logs {
		distribute(w, rnd, p, log)
	}
	return w, truth
}

func tameValue(rnd *rand.Rand) telemetry.Value {
	switch rnd.IntN(12) {
	case 0:
		return telemetry.IntValue(int64(rnd.IntN(2000)) - 1000)
	case 1:
		return telemetry.BoolValue(rnd.IntN(2) == 0)
	case 2:
		return telemetry.TextValue("é")
	case 3:
		return telemetry.FloatValue([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rnd.IntN(3)])
	}
	return telemetry.FloatValue(float64(rnd.IntN(1000)) / 10)
}

// What stands alone is answered by its statistics (R6), unless what is asked needs more than they tell.
func TestAggregatesUseChunkStatistics(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 3, 50)
	q := newQuerier(t, w, func(c *query.Config) {
		c.Reader = &altered{w.Store, func(doc []byte) []byte { return spoil(t, doc) }}
	})
	for _, c := range []struct {
		by    *query.By
		names []string
		whole bool
	}{
		{nil, []string{"count", "min", "max", "sum", "avg", "first", "last"}, true},
		{&query.By{}, []string{"count", "min", "max", "sum", "avg"}, true},
		{&query.By{}, []string{"last"}, false},
		{nil, []string{"avg", "p50"}, false},
		{nil, []string{"stddev"}, false},
		{nil, []string{"rate"}, false},
		{nil, []string{"time_avg"}, false},
	} {
		asked := query.Aggregation{By: c.by}
		for _, name := range c.names {
			a, err := merge.ParseAggregate(name)
			require.NoError(t, err)
			asked.Aggregates = append(asked.Aggregates, a)
		}
		var err error
		asked.Buckets, err = merge.EveryStep(merge.Bounds{Range: always, Most: 1}, 0)
		require.NoError(t, err)
		n := 0
		_, err = q.Aggregates(t.Context(), query.Request{Tenant: "acme", Range: always, Metrics: []string{"x"}}, asked,
			func(a query.Aggregated) error {
				n++
				return nil
			})
		if !c.whole {
			require.ErrorIs(t, err, chunk.ErrCorrupt, "%v by %v: the columns are all damaged", c.names, c.by)
			continue
		}
		require.NoError(t, err)
		require.Positive(t, n)
	}
}

// Days of a time zone begin when its clocks say so, which is not always midnight, and has not always been a day.
func TestCalendarBucketsInTimeZones(t *testing.T) {
	for zone, days := range map[string][]string{
		"Europe/Berlin":     {"2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"},
		"America/Sao_Paulo": {"2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}, // begins at 01:00
		"America/Havana":    {"2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}, // back at 01:00
		"Pacific/Apia":      {"2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"}, // without the 30th
		"Asia/Beirut":       {"2026-03-27T22:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},
	} {
		in, err := time.LoadLocation(zone)
		require.NoError(t, err)
		var at []time.Time
		for _, day := range days {
			x, err := time.Parse(time.RFC3339, day)
			require.NoError(t, err)
			at = append(at, x)
		}
		r := telemetry.Range{From: at[0].UnixMilli() + 1, To: at[2].UnixMilli()}
		b, err := merge.EveryUnit(merge.Bounds{Range: r, Most: 9}, merge.Day, in)
		require.NoError(t, err)
		require.Equal(t, 2, b.Len(), zone)
		require.Equal(t, days, []string{
			time.UnixMilli(b.Start(0)).UTC().Format(time.RFC3339), time.UnixMilli(b.End(0)).UTC().Format(time.RFC3339),
			time.UnixMilli(b.End(1)).UTC().Format(time.RFC3339)}, zone)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	_, err = merge.EveryUnit(merge.Bounds{Range: always, Most: 11_000}, merge.Day, berlin)
	var many *merge.TooManyBuckets
	require.ErrorAs(t, err, &many)
	_, err = merge.EveryStep(merge.Bounds{Range: always, Most: 11_000}, time.Second)
	require.ErrorAs(t, err, &many)
}

// Percentiles hold every value: what that takes is counted, and the error says what to narrow.
func TestAggregatesMemoryLimit(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 3, 5000)
	q := newQuerier(t, w, func(c *query.Config) { c.MemoryBytes = 1 << 20 })
	asked := query.Aggregation{By: &query.By{}}
	run := func(name string) error {
		a, err := merge.ParseAggregate(name)
		require.NoError(t, err)
		asked.Aggregates = []query.Aggregate{a}
		asked.Buckets, err = merge.EveryStep(merge.Bounds{Range: always, Most: 1}, 0)
		require.NoError(t, err)
		_, err = q.Aggregates(t.Context(), query.Request{Tenant: "acme", Range: always}, asked,
			func(query.Aggregated) error { return nil })
		return err
	}
	require.NoError(t, run("stddev"))
	var limit *query.LimitError
	require.ErrorAs(t, run("p95"), &limit)
	require.Contains(t, limit.Error(), "no percentiles")
}

// Statistics of many buckets count in the memory of their query, and no longer than until they are answered.
func TestStatisticsCountAsMemory(t *testing.T) {
	w := querytest.New(t, noon)
	for d := range 8 {
		var all []querytest.Record
		for i := range 3000 {
			all = append(all, record(int64(i), fmt.Sprintf("m%d", d), noon.Add(time.Duration(i-3500)*time.Second),
				float("x", float64(i))))
		}
		w.Chunk(all...)
	}
	w.Heads.Set(head(0, 1, 1<<40, 0))
	q := newQuerier(t, w, func(c *query.Config) { c.MemoryBytes = 1 << 20 })
	count := func(step time.Duration) (n int, err error) {
		_, err = q.Statistics(t.Context(), query.Request{Tenant: "acme", Range: lastHour()}, step,
			func(query.Statistic) error { n++; return nil })
		return n, err
	}
	_, err := count(time.Second)
	require.ErrorAs(t, err, new(*query.LimitError))
	n, err := count(4 * time.Second)
	require.NoError(t, err)
	require.Equal(t, 8*750, n)
}
