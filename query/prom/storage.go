package prom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// Warnings of answers.
var (
	errRounded    = errors.New("integers beyond 2^53 are rounded to the nearest float")
	errIncomplete = errors.New("the answer is incomplete")
	errNoStart    = errors.New("start is missing, so what has no samples in the 24 hours before end is left out")
)

// tenantStorage reads one tenant for PromQL. It belongs to one request and counts what it holds in that request's
// memory. One goroutine at a time may call it.
type tenantStorage struct {
	querier *query.Querier
	tenant  string
	asOf    int64 // latest time of storage to consider, ms since 1970 UTC; 0: now
	memory  *query.Memory

	tags      *query.Tags
	pushdowns pushdowns
	cost      query.Stats // sum over all reads so far
	hints     []string    // why selectors found nothing

	memoryBytes int64  // the limit of memory
	maxSamples  int    // the engine's limit
	bound       *bound // bound of the running evaluation; nil for none
	reads       reads  // reads for selectors without a pushdown

	// check gets each computed pushdown, and may change its outcome. Tests set it; nil otherwise.
	check  func(*pushdown)
	foldAt int // how many points are held before they are folded; 0: foldAt
}

// Querier implements storage.Queryable. Both times are inclusive.
func (t *tenantStorage) Querier(mint, maxt int64) (storage.Querier, error) {
	return &selector{tenantStorage: t, mint: mint, maxt: maxt}, nil
}

// retainedBytes is about what a series takes until the answer is written, here and in the engine, beside its samples
// and what its labels spell.
const retainedBytes = 256

// selector reads a range of time.
type selector struct {
	*tenantStorage
	mint, maxt int64
	noStart    bool // the request has no start: a list warns when it leaves something out
	first      int  // of a list of series no more than this many are needed, and one to know that there are more; 0: all
}

// Close implements storage.Querier. Series live as long as the request.
func (*selector) Close() error { return nil }

// Select implements storage.Querier. The series are always sorted.
func (s *selector) Select(ctx context.Context, _ bool, hints *storage.SelectHints,
	matchers ...*labels.Matcher) storage.SeriesSet {
	if l := s.pushdowns.of(matchers); l != nil {
		return s.set(func() *outcome { return s.outcome(ctx, l) })
	}
	r := s.request(matchers)
	if hints != nil {
		r.Range = rangeOf(max(s.mint, hints.Start), min(s.maxt, hints.End))
	}
	engine := s.bound != nil
	return s.set(func() *outcome {
		if known := s.reads.find(matchers, r.Range); known != nil {
			return known
		}
		out := s.found(ctx, matchers, func() ([]*series, annotations.Annotations, error) {
			return s.collect(ctx, r, matchers)
		})
		if engine {
			s.reads = append(s.reads, read{fmt.Sprintf("%q", matchers), r.Range, out})
		}
		return out
	})
}

// set returns the set of a selector, as one of the evaluation under way.
func (t *tenantStorage) set(find func() *outcome) *set {
	out := &set{find: find}
	if t.bound != nil {
		t.bound.add(out)
	}
	return out
}

// request returns the request for what the matchers may match.
func (s *selector) request(matchers []*labels.Matcher) query.Request {
	return query.Request{
		Tenant: s.tenant, Range: rangeOf(s.mint, s.maxt), AsOf: s.asOf,
		Devices: equalTo(matchers, deviceLabel), Metrics: equalTo(matchers, model.MetricNameLabel),
	}
}

// rangeOf returns the range between two inclusive times.
func rangeOf(mint, maxt int64) telemetry.Range {
	return telemetry.Range{From: max(mint, 0), To: min(maxt, telemetry.MaxMillis-1) + 1}
}

func (s *selector) collect(ctx context.Context, r query.Request, matchers []*labels.Matcher) (
	out []*series, warnings annotations.Annotations, err error) {
	warnings, err = s.read(ctx, r, matchers, func(one *series) (kept bool, err error) {
		out = append(out, one)
		return true, s.memory.Take(retainedBytes + int64(one.labels.ByteSize()))
	})
	if err != nil {
		return nil, nil, err
	}
	sortSeries(out)
	return out, warnings, nil
}

// read calls take with each series of a request that matches, in no order. It reuses a series that take does not keep.
func (s *selector) read(ctx context.Context, r query.Request, matchers []*labels.Matcher,
	take func(*series) (kept bool, err error)) (warnings annotations.Annotations, err error) {
	return s.narrowed(ctx, r, matchers, func(r query.Request) (annotations.Annotations, error) {
		return s.readSome(ctx, r, matchers, take)
	})
}

// readSome reads as read does, without asking the catalog first which devices may match.
func (s *selector) readSome(ctx context.Context, r query.Request, matchers []*labels.Matcher,
	take func(*series) (kept bool, err error)) (warnings annotations.Annotations, err error) {
	var (
		b       labels.ScratchBuilder
		rounded bool
		device  string
		of      []*series // the device
		spare   []*series
	)
	give := func() error {
		for _, one := range mergeSeries(of) {
			kept, err := take(one)
			if err != nil {
				return err
			}
			if !kept {
				spare = append(spare, one)
			}
		}
		of = of[:0]
		return nil
	}
	res, err := s.querier.Series(ctx, r, func(c query.Curve) error {
		if c.Device != device {
			if err := give(); err != nil {
				return err
			}
			device = c.Device
		}
		tags, err := s.tags.Of(ctx, c.Device)
		if err != nil {
			return err
		}
		named := labelsOf(&b, curveName{c.Metric, c.Device}, c.Labels, tags)
		if !matches(matchers, named) {
			return nil
		}
		one := &series{}
		if n := len(spare); n > 0 {
			one, spare = spare[n-1], spare[:n-1]
		}
		one.labels = named
		if one.rounded, err = s.fill(one, c); err != nil {
			return err
		}
		if len(one.times) == 0 {
			spare = append(spare, one)
			return nil
		}
		rounded = rounded || one.rounded
		of = append(of, one)
		return nil
	})
	s.cost = s.cost.Plus(res.Stats)
	if err == nil {
		err = give()
	}
	if err != nil {
		return nil, err
	}
	warnings = gaps(res.Incomplete)
	if rounded {
		warnings.Add(errRounded)
	}
	return warnings, nil
}

// fill sets the samples of a series to the numbers of a curve, and reports whether any is rounded. It skips text.
func (s *selector) fill(out *series, c query.Curve) (rounded bool, err error) {
	n := 0
	for i := range c.Stretches {
		if c.Stretches[i].Kind != telemetry.Text {
			n += len(c.Stretches[i].Times)
		}
	}
	if more := n - cap(out.times); more > 0 {
		if err := s.memory.Take(16 * int64(more)); err != nil {
			return false, err
		}
		out.times, out.values = make([]int64, 0, n), make([]float64, 0, n)
	}
	out.times, out.values = out.times[:0], out.values[:0]
	for i := range c.Stretches {
		st := &c.Stretches[i]
		if st.Kind == telemetry.Text {
			continue
		}
		out.times = append(out.times, st.Times...)
		from := len(out.values)
		out.values = out.values[:from+len(st.Bits)]
		if !toFloats(out.values[from:], st.Kind, st.Bits) {
			rounded = true
		}
	}
	return rounded, nil
}

// toFloats sets out to values as PromQL has them, and reports whether each is that very number. Bits of floats are
// kept: they distinguish stale markers from other NaN.
func toFloats(out []float64, kind telemetry.Kind, bits []uint64) (exact bool) {
	out = out[:len(bits)]
	if kind == telemetry.Float {
		for i, b := range bits {
			out[i] = math.Float64frombits(b)
		}
		return true
	}
	const most = 1 << 53
	exact = true
	for i, b := range bits {
		n := int64(b)
		out[i] = float64(n)
		if (n < -most || n > most) && !(out[i] < math.MaxInt64 && int64(out[i]) == n) {
			exact = false
		}
	}
	return exact
}

func sortSeries(all []*series) { slices.SortStableFunc(all, compareSeries) }

func compareSeries(a, b *series) int { return labels.Compare(a.labels, b.labels) }

// mergeSeries sorts series and merges those with the same labels, which differ only in what PromQL does not have.
func mergeSeries(all []*series) []*series {
	if len(all) < 2 {
		return all
	}
	sortSeries(all)
	var out []*series
	for _, s := range all {
		if n := len(out); n > 0 && labels.Equal(out[n-1].labels, s.labels) {
			out[n-1] = out[n-1].mergedWith(s)
			continue
		}
		out = append(out, s)
	}
	return out
}

// mergedWith returns the samples of both; at an instant of both that of s.
func (s *series) mergedWith(other *series) *series {
	out := &series{labels: s.labels, rounded: s.rounded || other.rounded}
	for i, j := 0, 0; i < len(s.times) || j < len(other.times); {
		if j == len(other.times) || i < len(s.times) && s.times[i] <= other.times[j] {
			if j < len(other.times) && s.times[i] == other.times[j] {
				j++
			}
			out.times, out.values = append(out.times, s.times[i]), append(out.values, s.values[i])
			i++
			continue
		}
		out.times, out.values = append(out.times, other.times[j]), append(out.values, other.values[j])
		j++
	}
	return out
}

// names returns the label sets of all series in the range that have numbers and match, from the catalog where it can.
func (s *selector) names(ctx context.Context, matchers []*labels.Matcher) (
	out []labels.Labels, warnings annotations.Annotations, err error) {
	var beyond error
	warnings, ok, err := s.fromCatalog(ctx, matchers, func(l *catalogLists) (ok bool) {
		out, ok, beyond = l.series(s.memory, s.first)
		return ok
	})
	if beyond != nil {
		return nil, nil, listError(beyond)
	}
	if err != nil || ok {
		return out, warnings, err
	}
	out, said, err := s.namesRead(ctx, matchers)
	said.Merge(warnings)
	return out, said, err
}

// listError returns an error that names what to narrow if a list of series needs too much memory.
func listError(err error) error {
	if errors.Is(err, query.ErrMemory) {
		return &query.LimitError{Limit: "the memory that a query may use", Narrow: []string{
			"ask for fewer series (match[])", "for the values of one label",
		}}
	}
	return err
}

// namesRead returns the same from the statistics of chunks and heads.
func (s *selector) namesRead(ctx context.Context, matchers []*labels.Matcher) (
	out []labels.Labels, warnings annotations.Annotations, err error) {
	warnings, err = s.narrowed(ctx, s.request(matchers), matchers, func(r query.Request) (annotations.Annotations, error) {
		some, said, err := s.nameSome(ctx, r, matchers)
		out = append(out, some...)
		return said, err
	})
	slices.SortFunc(out, labels.Compare)
	return slices.CompactFunc(out, labels.Equal), warnings, err
}

// nameSome returns the label sets of a request's series that match, by device.
func (s *selector) nameSome(ctx context.Context, r query.Request, matchers []*labels.Matcher) (
	out []labels.Labels, warnings annotations.Annotations, err error) {
	var b labels.ScratchBuilder
	res, err := s.querier.Statistics(ctx, r, 0, func(st query.Statistic) error {
		if st.Kind == telemetry.Text {
			return nil
		}
		tags, err := s.tags.Of(ctx, st.Device)
		if l := labelsOf(&b, curveName{st.Metric, st.Device}, st.Labels, tags); matches(matchers, l) && err == nil {
			err = s.memory.Take(int64(seriesBytes + l.ByteSize()))
			out = append(out, l)
		}
		return err
	})
	s.cost = s.cost.Plus(res.Stats)
	if err != nil {
		return nil, nil, listError(err)
	}
	warnings = gaps(res.Incomplete)
	return out, warnings, nil
}

// LabelValues implements storage.Querier.
func (s *selector) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) (
	[]string, annotations.Annotations, error) {
	return s.list(ctx, matchers, func(l *catalogLists) ([]string, bool) { return l.values(name) },
		func(found []labels.Labels) []string { return valuesOf(found, name) })
}

// LabelNames implements storage.Querier.
func (s *selector) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) (
	[]string, annotations.Annotations, error) {
	return s.list(ctx, matchers, (*catalogLists).names, namesOf)
}

// list returns a list from the catalog, or else from the label sets of all series in the range that match.
func (s *selector) list(ctx context.Context, matchers []*labels.Matcher, known func(*catalogLists) ([]string, bool),
	read func([]labels.Labels) []string) ([]string, annotations.Annotations, error) {
	var list []string
	warnings, ok, err := s.fromCatalog(ctx, matchers, func(l *catalogLists) (ok bool) {
		list, ok = known(l)
		return ok
	})
	if err != nil || ok {
		return list, warnings, err
	}
	found, said, err := s.namesRead(ctx, matchers)
	said.Merge(warnings)
	return read(found), said, err
}

// valuesOf returns the values of a label, sorted, each once.
func valuesOf(sets []labels.Labels, name string) []string {
	values := make(map[string]bool)
	for _, l := range sets {
		if v := l.Get(name); v != "" {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// namesOf returns the names of labels, sorted, each once.
func namesOf(sets []labels.Labels) []string {
	names := make(map[string]bool)
	for _, l := range sets {
		l.Range(func(l labels.Label) { names[l.Name] = true })
	}
	return slices.Sorted(maps.Keys(names))
}

// series is the samples of one label set in the order of time, no instant twice.
type series struct {
	labels  labels.Labels
	times   []int64
	values  []float64
	rounded bool // some value
}

// Labels implements storage.Series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *series) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	i, ok := it.(*iterator)
	if !ok {
		i = &iterator{Iterator: chunkenc.NewNopIterator()}
	}
	i.series, i.at = s, -1
	return i
}

// iterator stands at a sample of a series, at first before all. It is without an error, no sample is a histogram, and
// readings do not say when a counter began.
type iterator struct {
	chunkenc.Iterator // empty
	*series
	at int
}

// Next implements chunkenc.Iterator.
func (i *iterator) Next() chunkenc.ValueType {
	i.at = min(i.at+1, len(i.times))
	return i.kind()
}

// millis is int64 under another name: vet takes a Seek of an int64 for io.Seeker's.
type millis = int64

// Seek implements chunkenc.Iterator.
func (i *iterator) Seek(t millis) chunkenc.ValueType {
	i.at = max(i.at, 0)
	for range 2 { // steps are often one sample apart
		if i.at == len(i.times) || i.times[i.at] >= t {
			return i.kind()
		}
		i.at++
	}
	more, _ := slices.BinarySearch(i.times[i.at:], t)
	i.at += more
	return i.kind()
}

func (i *iterator) kind() chunkenc.ValueType {
	if i.at >= len(i.times) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (i *iterator) At() (time int64, value float64) { return i.times[i.at], i.values[i.at] }

// AtT implements chunkenc.Iterator.
func (i *iterator) AtT() int64 { return i.times[i.at] }

// set is the series of a selector. What they are is found out when the first one is asked for, or before.
type set struct {
	find func() *outcome
	*outcome
	at int
}

// Next implements storage.SeriesSet.
func (s *set) Next() bool {
	s.resolve()
	s.at++
	return s.err == nil && s.at < len(s.series)
}

// resolve finds out what the series are, once.
func (s *set) resolve() {
	if s.find != nil {
		s.outcome, s.find, s.at = s.find(), nil, -1
	}
}

// At implements storage.SeriesSet.
func (s *set) At() storage.Series { return s.series[s.at] }

// Err implements storage.SeriesSet.
func (s *set) Err() error { return s.err }

// Warnings implements storage.SeriesSet.
func (s *set) Warnings() annotations.Annotations { return s.warnings }
