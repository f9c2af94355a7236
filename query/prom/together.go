package prom

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
