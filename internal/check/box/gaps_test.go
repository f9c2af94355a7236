package box_test

import (
	"context"
	"math"
	"reflect"
	"slices"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/gaps"
)

// askGaps asks where readings of a device are missing.
func (q *querier) askGaps(ctx context.Context, tenant string) {
	now := time.Now().UnixMilli()
	r := query.GapsRequest{Tenant: tenant, Device: oneOf(q.rnd, q.b.devicesOf(tenant)...),
		Expect: oneOf(q.rnd, 0, time.Second, time.Minute, time.Hour),
		Range:  telemetry.Range{To: now - oneOf(q.rnd, 0, pick(q.rnd, 0, 25*time.Hour).Milliseconds())}}
	if q.rnd.IntN(3) == 0 {
		r.Sequence = oneOf(q.rnd, q.b.metrics...)
	}
	r.Range.From = r.Range.To - pick(q.rnd, time.Minute, 48*time.Hour).Milliseconds()
	isSame, before := q.b.watch(), q.meter.Read().RUs
	x := q.exactly(ctx, tenant, telemetry.Range{From: 0, To: math.MaxInt64})
	c, res, err := q.q.Evidence(x.after, r)
	if err != nil || !res.Complete || c.Range.Empty() {
		return
	}
	q.checkSpent("gaps of "+r.Device, before, res.Stats.RequestUnits)
	if q.index != nil {
		if c.Refusals, c.Nameless, c.DeadLetters = q.index.Of(tenant, r.Device, c.Judged()); c.DeadLetters != "" {
			return
		}
	}
	known, ok := q.b.oracle.evidence(x, &r, c.Range)
	ok = ok && (q.index == nil || q.b.oracle.refusedReadings(q, tenant, r.Device, &known))
	if !ok || known.Known != c.Known && !(isSame() && q.b.listsTimes()) {
		return
	}
	got, want := gaps.Diagnose(c), gaps.Diagnose(known)
	got.Gaps = slices.DeleteFunc(got.Gaps, func(g gaps.Gap) bool { return g.Verdict == gaps.Late })
	if len(got.Gaps)+len(want.Gaps) == 0 {
		got.Gaps, want.Gaps = nil, nil
	}
	if !slices.Equal(c.Numbers, known.Numbers) {
		q.b.fail("%s: gaps of %s go by the sequence numbers %v of %s instead of %v", q.name, r.Device, c.Numbers, r.Sequence,
			known.Numbers)
	}
	if !reflect.DeepEqual(got, want) {
		q.b.fail("%s: a complete answer to gaps of %s in %v, expect %s, is %+v instead of %+v", q.name, r.Device, c.Range,
			r.Expect, got, want)
	}
}

// evidence returns what must be known of a device's readings where none was refused, if there is only one right answer.
func (o *oracle) evidence(x exact, r *query.GapsRequest, asked telemetry.Range) (c gaps.Evidence, ok bool) {
	all, ok := o.values(x)
	var times []int64
	for s, points := range all {
		for _, p := range points {
			if s.device == r.Device {
				times = append(times, p.time)
			}
			if s.device == r.Device && s.metric == r.Sequence {
				c.Numbers = append(c.Numbers, gaps.Number{At: p.time, N: int64(p.value)})
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	c.Range, c.Expect, c.Known = asked, r.Expect, -1
	if len(times) > 0 {
		c.Known = times[0]
	}
	before := func(at int64) int {
		i, _ := slices.BinarySearch(times, at)
		return i
	}
	read := func() {
		days := times[before(telemetry.DayOf(c.Judged().From).Start()):before(telemetry.DayOf(asked.To-1).End())]
		c.Stretches = []gaps.Stretch{{Times: days}}
	}
	if read(); !c.FindBefore() {
		c.Before = times[before(asked.From)-1]
		read()
	}
	slices.SortFunc(c.Numbers, func(a, b gaps.Number) int { return int(a.At - b.At) })
	c.Numbers = slices.DeleteFunc(c.Numbers, func(n gaps.Number) bool {
		return n.At < telemetry.DayOf(c.Judged().From).Start() || n.At >= telemetry.DayOf(asked.To-1).End()
	})
	return c, ok
}
