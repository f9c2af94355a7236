package prom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"binnacle/query"

	"github.com/prometheus/prometheus/util/annotations"
)

// keptKey names values that are kept: by tenant, formula of the pushdown, step, and what the steps are beyond its
// multiples.
type keptKey string

// keptValues is what a pushdown had at some steps. It does not change.
type keptValues struct {
	steps  stepGrid
	series []*series
	infos  annotations.Annotations
	basis  *query.Basis
	tags   query.TagsSum
}

// maxKeptBytes bounds the values that are kept of a pushdown.
const maxKeptBytes = 4 << 20

// kept evaluates a pushdown, but for steps on which nothing has changed since an earlier evaluation (decision record
// 17), and keeps the values.
func (s *selector) kept(ctx context.Context, l *pushdown) ([]*series, annotations.Annotations, error) {
	source, ok := l.keepable()
	tags, known := s.tagsSum(ctx)
	if !ok || !known || s.asOf > 0 || s.check != nil {
		return s.evaluate(ctx, l)
	}
	key := keptKey(fmt.Sprintln(s.tenant, l.steps.step, l.steps.first%l.steps.step, l.formula()))
	before, ok := s.querier.Kept().Get(key).(*keptValues)
	if !ok || before.tags != tags {
		before = &keptValues{}
	}
	now, reused := &keptValues{steps: l.steps, tags: tags}, 0
	source.kept = before.basis
	source.narrow = func(b *query.Basis) int64 {
		changed := int64(math.MinInt64)
		if now.basis = b; b != nil && before.basis != nil {
			changed = b.ChangedSince(before.basis)
			reused = before.valid(source, changed)
		}
		source.steps = stepGrid{now.steps.at(reused), now.steps.step, now.steps.n - reused}
		if source.steps.n == 0 {
			return math.MaxInt64
		}
		return min(changed, source.steps.first-source.offset-max(source.window, source.steps.step)+1)
	}
	tail, warnings, err := s.evaluate(ctx, l)
	source.steps = now.steps
	s.querier.Kept().Count(reused > 0)
	if err != nil {
		return nil, warnings, err
	}
	if now.series = tail; reused > 0 {
		l.uses++ // nobody else changes values of before
		if now.join(before, tail, reused) {
			warnings.Merge(before.infos)
		}
		if err := s.memory.Take(now.bytes()); err != nil {
			return nil, warnings, err
		}
	}
	now.infos = warnings
	after, known := s.tagsSum(ctx)
	// An info of that kind goes with the values of a selector.
	isOther := func(err error) bool { return !errors.Is(err, annotations.PossibleNonCounterInfo) }
	if n := now.bytes(); n <= maxKeptBytes && known && after == tags && now.basis != nil && !source.again &&
		!slices.ContainsFunc(warnings.AsErrors(), isOther) {
		l.uses++ // nobody else changes the values
		s.querier.Kept().Put(key, now, n+now.basis.Bytes())
	}
	return now.series, warnings, nil
}

// keepable returns the pushdown that reads for l, if the values of l can be kept. Nothing else may use what is read
// for an aggregation.
func (l *pushdown) keepable() (source *pushdown, ok bool) {
	if source = l; l.fold != nil {
		source = l.source
		ok = source.found == nil && source.onlyFolds() && len(source.folds) == 1 && !l.nested
	}
	return source, (ok || l.fold == nil) && source.inner == nil && source.metric != "" && !narrowing(source.matchers)
}

func (t *tenantStorage) tagsSum(ctx context.Context) (sum query.TagsSum, ok bool) {
	known, err := t.tags.Known(ctx)
	if err != nil {
		return sum, false
	}
	return known.TagsSum()
}

// valid returns how many steps of a pushdown have the values that are kept, if readings may have changed from an
// instant on.
func (k *keptValues) valid(l *pushdown, changed int64) (n int) {
	skipped := (l.steps.first - k.steps.first) / l.steps.step
	if l.steps.first < k.steps.first || skipped >= int64(k.steps.n) {
		return 0
	}
	for most := min(l.steps.n, k.steps.n-int(skipped)); n < most && l.steps.at(n)-l.offset < changed; n++ {
	}
	return n
}

// join sets the series to the values of the first steps from before, and those of all others. It reports whether
// there are some from before.
func (k *keptValues) join(before *keptValues, tail []*series, reused int) (some bool) {
	skipped := int((k.steps.first - before.steps.first) / k.steps.step)
	if k.series = before.series; k.steps == before.steps && reused == k.steps.n {
		return true
	}
	k.series = nil
	instants, known := k.steps.instants(), make(map[string]*series)
	add := func(one *series, values []float64, at int) {
		name := string(one.labels.Bytes(nil))
		if known[name] == nil {
			known[name] = &series{labels: one.labels, times: instants, values: slices.Repeat([]float64{stale}, k.steps.n)}
			k.series = append(k.series, known[name])
		}
		copy(known[name].values[at:], values)
	}
	for _, one := range before.series {
		if values := one.values[skipped : skipped+reused]; hasValue(values) {
			add(one, values, 0)
			some = true
		}
	}
	for _, one := range tail {
		add(one, one.values, reused)
	}
	sortSeries(k.series)
	return some
}

// bytes returns about how much memory the values take.
func (k *keptValues) bytes() (n int64) {
	for _, one := range k.series {
		n += retainedBytes + 8*int64(len(one.values)) + int64(one.labels.ByteSize())
	}
	return n
}
