package prom

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// readSet is pushdowns that one read can serve: of the same range, with matchers that differ in the metric's name only.
type readSet struct {
	all   []*pushdown
	early map[*pushdown]*evaluation // computed along with another pushdown
}

func (p *rewriter) read(l *pushdown) {
	if l.metric == "" {
		return
	}
	key := fmt.Sprintf("%v%q", l.reads(), withoutName(l.matchers))
	if p.reads[key] == nil {
		p.reads[key] = &readSet{early: make(map[*pushdown]*evaluation)}
	}
	l.together = p.reads[key]
	l.together.all = append(l.together.all, l)
}

// withoutName returns the matchers of other labels than the metric's name.
func withoutName(matchers []*labels.Matcher) []*labels.Matcher {
	return slices.DeleteFunc(slices.Clone(matchers), func(m *labels.Matcher) bool {
		return m.Name == model.MetricNameLabel
	})
}

// maxTogether bounds the pushdowns of one read.
const maxTogether = 4

// take returns what was computed of a pushdown along with another, once; nil for nothing.
func (r *readSet) take(l *pushdown) (e *evaluation) {
	if r != nil {
		e = r.early[l]
		delete(r.early, l)
	}
	return e
}

// readWith returns the pushdowns that are computed from samples of the same read.
func (s *selector) readWith(ctx context.Context, l *pushdown) (with []*pushdown, err error) {
	if _, ok := s.rollupGrid(l); ok || l.together == nil {
		return nil, nil
	}
	for _, other := range l.together.all {
		if other == l || other.uses == 0 || other.found != nil || len(with) == maxTogether-1 {
			continue
		}
		if _, ok := s.rollupGrid(other); ok {
			continue
		}
		if _, unknown, err := s.lacks(ctx, namesIn(other.matchers)); err != nil {
			return nil, err
		} else if !unknown {
			with = append(with, other)
		}
	}
	return with, nil
}

// evaluateTogether computes a pushdown and others from one read.
func (e *evaluation) evaluateTogether(ctx context.Context, others []*pushdown) error {
	all := []*evaluation{e}
	e.pushdown.whole = true
	for _, l := range others {
		l.whole = true
		other, err := e.begin(l)
		if err != nil {
			return err
		}
		all = append(all, other)
	}
	matchers, err := anyOf(all)
	if err != nil {
		return err
	}
	r := e.request(matchers)
	r.Range = e.pushdown.reads()
	var scratch series
	warnings, err := e.read(ctx, r, matchers, func(one *series) (kept bool, err error) {
		left := slices.DeleteFunc(slices.Clone(all), func(e *evaluation) bool {
			return !matches(e.pushdown.matchers, one.labels)
		})
		for i, of := range left {
			samples := one
			if i < len(left)-1 { // all but the last get a copy, which they may change
				if err := e.copyTo(&scratch, one); err != nil {
					return false, err
				}
				samples = &scratch
			}
			if err := of.add(samples); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	delete(warnings, errRounded.Error()) // which add has noted of the series that it is about
	for _, of := range all {
		of.warnings.Merge(warnings)
		if of != e {
			e.pushdown.together.early[of.pushdown] = of
		}
	}
	return nil
}

// copyTo sets a series to the samples of another one.
func (s *selector) copyTo(out, from *series) error {
	if more := len(from.times) - cap(out.times); more > 0 {
		if err := s.memory.Take(16 * int64(more)); err != nil {
			return err
		}
		out.times, out.values = make([]int64, 0, len(from.times)), make([]float64, 0, len(from.times))
	}
	out.labels, out.rounded = from.labels, from.rounded
	out.times, out.values = append(out.times[:0], from.times...), append(out.values[:0], from.values...)
	return nil
}

// anyOf returns matchers of what any of some pushdowns matches.
func anyOf(all []*evaluation) ([]*labels.Matcher, error) {
	names := make([]string, 0, len(all))
	for _, e := range all {
		names = append(names, regexp.QuoteMeta(e.pushdown.metric))
	}
	slices.Sort(names)
	name, err := labels.NewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(slices.Compact(names), "|"))
	if err != nil {
		return nil, fmt.Errorf("match %d metrics: %w", len(names), err)
	}
	return append(withoutName(all[0].pushdown.matchers), name), nil
}

// rollupGrids are the grids of rollups, the cheapest to read first.
var rollupGrids = []rollup.Grid{rollup.HalfHour, rollup.Minute}

// rollupGrid returns the grid of rollups that can answer a pushdown.
func (s *selector) rollupGrid(l *pushdown) (rollup.Grid, bool) {
	names := len(equalTo(l.matchers, model.MetricNameLabel))
	if names == 0 || names > maxTogether || !s.querier.HasRollups() || s.asOf > 0 { // rollups have no past
		return 0, false
	}
	for _, g := range rollupGrids {
		if l.fitsGrid(int64(g)) {
			return g, true
		}
	}
	return 0, false
}

// fromRollups computes the pushdown from rollups, and from samples where no rollup covers a device. It computes a
// device from samples again where rollups do not tell the result. Where matchers leave few devices it reads samples
// only: rollups are of all devices, and so are the chunks where no rollup exists yet.
func (e *evaluation) fromRollups(ctx context.Context, r query.Request, grid rollup.Grid) error {
	few, err := e.fewDevices(ctx, r)
	if err != nil {
		return err
	}
	if few {
		return e.fromSamples(ctx, r, nil)
	}
	b := newBuckets(e.pushdown, int64(grid))
	if err := e.memory.Take(b.bytes()); err != nil {
		return err
	}
	if narrow := r.From; narrow != nil {
		r.From = func(basis *query.Basis) int64 {
			from := narrow(basis)
			if e.pushdown.steps.n > 0 {
				*b = *newBuckets(e.pushdown, int64(grid))
			}
			return from
		}
	}
	f := bucketFiller{buckets: b}
	again := make(map[string]bool)
	var named labels.ScratchBuilder
	device, from := "", 0    // the device's series in out
	var seen []labels.Labels // label sets of the device
	r.Rollups = &query.RollupsRequest{Grid: grid, Columns: b.needs}
	res, err := e.querier.Series(ctx, r, func(s query.Curve) error {
		if s.Device != device {
			if err := e.flush(); err != nil {
				return err
			}
			device, from, seen = s.Device, len(e.out), seen[:0]
		}
		if again[device] {
			return nil
		}
		tags, err := e.tags.Of(ctx, device)
		if err != nil {
			return err
		}
		l := labelsOf(&named, curveName{s.Metric, device}, s.Labels, tags)
		if !matches(e.pushdown.matchers, l) {
			return nil
		}
		values, err := e.values()
		if err != nil {
			return err
		}
		certain := f.fill(s)
		for _, other := range seen {
			certain = certain && !labels.Equal(other, l) // two that are one to PromQL
		}
		seen = append(seen, l)
		some, sure := false, false
		if certain {
			some, sure = b.compute(e.pushdown, values)
		}
		switch {
		case !certain || !sure:
			again[device], e.pushdown.whole = true, true // its series come behind all others
			e.out = e.out[:from]
		case some:
			return e.keep(l)
		}
		return nil
	})
	e.cost = e.cost.Plus(res.Stats)
	damaged := errors.Is(err, rollup.ErrCorrupt) // as if they had never been made
	if err != nil && !damaged {
		return err
	}
	e.warnings.Merge(gaps(res.Incomplete))
	if narrowing(e.pushdown.matchers) {
		known, err := e.tags.Known(ctx)
		if err != nil {
			return err
		}
		e.warnings.Merge(catalogGap(known))
	}
	switch {
	case damaged && !e.folded.IsEmpty():
		return errUnordered
	case damaged:
		e.out, again = nil, nil
	case len(again) == 0:
		return nil
	}
	e.pushdown.again, r.Rollups, r.From, r.Kept = true, nil, nil, nil
	if !damaged && len(again) <= maxNamed {
		r.Devices = make([]string, 0, len(again))
		for device := range again {
			r.Devices = append(r.Devices, device)
		}
	}
	return e.fromSamples(ctx, r, again)
}

// fewPerDevices is the least number of devices for each of a few that are read by themselves.
const fewPerDevices = 16

// fewDevices reports whether matchers that name no device leave so few of many that rollups do not pay.
func (e *evaluation) fewDevices(ctx context.Context, r query.Request) (bool, error) {
	if r.Devices != nil || !narrowing(e.pushdown.matchers) {
		return false, nil
	}
	known, err := e.tags.Known(ctx)
	if err != nil || known.Gap() != nil {
		return false, err
	}
	n := known.Count(conditionsOf(ctx, e.pushdown.matchers))
	return n <= query.FewDevices && n*fewPerDevices <= known.Len(), nil
}

// maxNamed bounds the devices that a request names.
const maxNamed = 128

// bucketFiller fills buckets with the rollups and samples of a series.
type bucketFiller struct {
	*buckets
	values []float64
}

// fill replaces the buckets by those of a series. It reports whether they equal those of its samples: not where values
// were rounded: PromQL must warn of that.
func (f *bucketFiller) fill(s query.Curve) (certain bool) {
	f.reset()
	for i := range s.Rollups {
		c := &s.Rollups[i]
		if c.Table.Rounded[c.Row] {
			return false
		}
		for h := c.From; h < c.To; h++ {
			if from := h; c.Hours.Has(h) {
				for h+1 < c.To && c.Hours.Has(h+1) {
					h++
				}
				f.copy(rowPart{c.Table, c.Row, c.Day.Start() + int64(from)*hourMillis, (from - c.From) * c.Grid.PerHour(),
					(h + 1 - from) * c.Grid.PerHour()})
			}
		}
	}
	for i := range s.Stretches {
		st := &s.Stretches[i]
		if st.Kind == telemetry.Text {
			continue
		}
		if n := len(st.Bits); cap(f.values) < n {
			f.values = make([]float64, n)
		}
		f.values = f.values[:len(st.Bits)]
		if !toFloats(f.values, st.Kind, st.Bits) {
			return false
		}
		for k, t := range st.Times {
			f.add(t, f.values[k])
		}
	}
	// The first sample of a day belongs behind all of the day before.
	for i := range s.Rollups {
		if c := &s.Rollups[i]; c.At0 != nil && c.Hours.Has(0) && c.At0[c.Row].Present {
			f.add(c.Day.Start(), c.At0[c.Row].V)
		}
	}
	return true
}

const hourMillis = 3_600_000

// rowPart is n buckets of a row of a table, from one of its buckets on, which begins at an instant.
type rowPart struct {
	*rollup.Table
	row     int
	begin   int64
	from, n int
}

// copy copies buckets from a rollup.
func (b *buckets) copy(t rowPart) {
	at, from, n := int((t.begin-b.begin)/b.width), t.from, t.n
	if at < 0 {
		from, n, at = from-at, n+at, 0
	}
	n = min(n, len(b.counts)-at)
	if n <= 0 {
		return
	}
	lo := t.row*t.Buckets + from
	hi := lo + n
	if t.N != nil {
		copy(b.counts[at:], t.N[lo:hi])
	}
	if t.Last != nil && b.needs.Has(rollup.Newest) {
		copy(b.stale[at:], t.Stale[lo:hi])
		copy(b.lastT[at:], t.LastT[lo:hi])
		copy(b.last[at:], t.Last[lo:hi])
	}
	if t.First != nil {
		copy(b.firstT[at:], t.FirstT[lo:hi])
		copy(b.first[at:], t.First[lo:hi])
		for _, f := range t.Resets[t.row] {
			if k := int(f.Bucket) - from; k >= 0 && k < n {
				for _, v := range f.Values {
					b.counterResets = append(b.counterResets, counterReset{at + k, true, v})
				}
			}
		}
	}
	if t.Hi != nil {
		copy(b.hi[at:], t.Hi[lo:hi])
		copy(b.lo[at:], t.Lo[lo:hi])
		var of rollup.Size
		for _, s := range t.Size[lo:hi] {
			of = of.Join(s)
		}
		b.noteSize(of.MaxMagnitude(), of.Whole())
	}
	if t.Min != nil && b.needs.Has(rollup.Lowest) {
		copy(b.extreme[at:], t.Min[lo:hi])
	}
	if t.Max != nil && b.needs.Has(rollup.Highest) {
		copy(b.extreme[at:], t.Max[lo:hi])
	}
}
