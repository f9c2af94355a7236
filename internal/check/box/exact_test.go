package box_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/merge"
)

// exact is a question with one right answer: it must include all that the log had when it began.
type exact struct {
	tenant string
	r      telemetry.Range
	begun  int64           // how much had been acknowledged
	ends   []store.LogEnd  // of the log
	after  context.Context // asks for all below the ends
}

// exactly begins a question about a tenant and range.
func (q *querier) exactly(ctx context.Context, tenant string, r telemetry.Range) exact {
	x := exact{tenant: tenant, r: r, begun: q.b.oracle.acknowledged()}
	for p, l := range q.b.log.topics[topic] {
		x.ends = append(x.ends, store.LogEnd{Topic: topic, Partition: int32(p), End: int64(len(l.records))})
	}
	x.after = query.WithAfter(ctx, x.ends)
	return x
}

// values returns the only values that a complete answer may be made of, by series in the order of their instants. It
// reports false if something was acknowledged meanwhile, erased or hidden, so that there are several right answers.
func (o *oracle) values(x exact) (all map[series][]at, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.orders) > 0 || o.b.operating.retention {
		return nil, false
	}
	all = map[series][]at{}
	for _, device := range o.b.devicesOf(x.tenant) {
		for _, s := range o.byDevice[device] {
			if !x.r.Contains(s.time) {
				continue
			}
			last := o.versions[s][len(o.versions[s])-1]
			if last.number > x.begun || o.b.limiting.on && !o.isCertain(o.versions[s]) {
				return nil, false
			}
			of := s
			of.time = 0
			all[of] = append(all[of], at{s.time, last.value.Float()})
		}
	}
	for _, points := range all {
		slices.SortFunc(points, func(p, q at) int { return int(p.time - q.time) })
	}
	return all, true
}

// at is a value at an instant.
type at struct {
	time  int64
	value float64
}

// isNear reports whether two results are the same but for one unit in the last place, which rollups may cost.
func isNear(x, y float64) bool {
	return x == y || math.IsNaN(x) && math.IsNaN(y) || math.Nextafter(x, y) == y
}

// askExact asks a question with one right answer.
func (q *querier) askExact(ctx context.Context) {
	tenant := q.b.tenants[q.rnd.IntN(len(q.b.tenants))]
	switch n := q.rnd.IntN(5); {
	case n == 4 || n > 1 && q.index != nil:
		q.askGaps(ctx, tenant)
	case n == 0:
		q.askLists(ctx, tenant)
	case n == 1 || q.b.about == lagging: // PromQL may ask for parts of days
		q.askAggregates(ctx, tenant)
	default:
		q.askPromQL(ctx, tenant)
	}
}

// aggregated names a result of aggregates.
type aggregated struct {
	device, metric string
	start          int64
}

// askAggregates asks for aggregates of windows.
func (q *querier) askAggregates(ctx context.Context, tenant string) {
	step := oneOf(q.rnd, time.Minute, 7*time.Minute, time.Hour, 24*time.Hour)
	to := time.Now().UTC().Truncate(step).Add(step)
	from := to.Add(-step * time.Duration(1+q.rnd.IntN(30)))
	if q.b.about.asksWholeDays() {
		to = to.Truncate(24 * time.Hour).Add(24 * time.Hour)
		from = from.Truncate(24 * time.Hour)
	}
	x := q.exactly(ctx, tenant, telemetry.Range{From: from.UnixMilli(), To: to.UnixMilli()})
	names := []string{"count", "sum", "avg", "min", "max", "first", "last"}
	names = names[:oneOf(q.rnd, 5, len(names))] // statistics do not stand for rows where the first or last is asked for
	ask := query.Aggregation{By: &query.By{Device: true}, Fill: merge.NoFill}
	byDevice := q.rnd.IntN(3) > 0
	ask.By.Device = byDevice
	for _, name := range names {
		a, err := merge.ParseAggregate(name)
		if err != nil {
			panic(err)
		}
		ask.Aggregates = append(ask.Aggregates, a)
	}
	var err error
	if ask.Buckets, err = merge.EveryStep(merge.Bounds{Range: x.r, Most: 10_000}, step); err != nil {
		panic(err)
	}
	got := map[aggregated][]float64{}
	res, err := q.q.Aggregates(x.after, query.Request{Tenant: tenant, Range: x.r}, ask, func(a query.Aggregated) error {
		got[aggregated{a.Device, a.Metric, a.Start}] = slices.Clone(a.Values)
		return nil
	})
	if err != nil || !res.Complete {
		return
	}
	all, ok := q.b.oracle.values(x)
	if !ok {
		return
	}
	want := map[aggregated][]at{}
	for s, points := range all {
		for _, p := range points {
			k := aggregated{s.device, s.metric, p.time - (p.time-x.r.From)%step.Milliseconds()}
			if !byDevice {
				k.device = ""
			}
			want[k] = append(want[k], p)
		}
	}
	about := fmt.Sprintf("aggregates of %s from %d to %d, step %s, by device %t", tenant, x.r.From, x.r.To, step, byDevice)
	for k, points := range want {
		if len(got[k]) != len(names) || !sameAggregates(got[k], points) {
			q.b.fail("%s: a complete answer to %s has %v for %v of %v", q.name, about, got[k], k, points)
			return
		}
	}
	if len(got) != len(want) {
		q.b.fail("%s: a complete answer to %s has %d results instead of %d", q.name, about, len(got), len(want))
	}
}

// sameAggregates compares count, sum, average, least, greatest, and perhaps first and last. Of several values at the
// first or last instant either is right.
func sameAggregates(got []float64, points []at) bool {
	sum, least, most := 0.0, math.Inf(1), math.Inf(-1)
	begin, end := int64(math.MaxInt64), int64(math.MinInt64)
	for _, p := range points {
		sum, least, most = sum+p.value, min(least, p.value), max(most, p.value)
		begin, end = min(begin, p.time), max(end, p.time)
	}
	n := float64(len(points))
	return got[0] == n && got[1] == sum && isNear(got[2], sum/n) && got[3] == least && got[4] == most &&
		(len(got) == 5 || slices.Contains(points, at{begin, got[5]}) && slices.Contains(points, at{end, got[6]}))
}
