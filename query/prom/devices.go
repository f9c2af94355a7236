package prom

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"binnacle/internal/catalog"
	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
)

// maxNarrow is how many devices are named in a request; of more all are read, and left out afterwards.
const maxNarrow = 5000

// maxAgain bounds how often a query looks for devices that appear while it runs.
const maxAgain = 3

// narrowed calls ask with a request for the devices that may match, by the catalog and by what heads know beyond it,
// and again with those that have appeared meanwhile. Warnings say what may be missing.
func (s *selector) narrowed(ctx context.Context, r query.Request, matchers []*labels.Matcher,
	ask func(query.Request) (annotations.Annotations, error)) (warnings annotations.Annotations, err error) {
	known, err := s.tags.Known(ctx)
	if err != nil {
		return nil, err
	}
	conditions := conditionsOf(matchers)
	if r.Devices != nil || !narrowing(matchers) || known.Gap() != nil {
		warnings, err = ask(r)
		if narrowing(matchers) {
			warnings.Merge(catalogGap(known))
		}
		return warnings, err
	}
	var done []string
	for range maxAgain {
		devices := known.Select(conditions)
		if len(devices) > maxNarrow {
			return ask(r)
		}
		some := r
		some.Devices = slices.DeleteFunc(devices, func(id string) bool {
			_, found := slices.BinarySearch(done, id)
			return found
		})
		if done == nil || len(some.Devices) > 0 {
			said, err := ask(some)
			if err != nil {
				return nil, err
			}
			warnings.Merge(said)
		}
		done = append(append([]string{}, done...), some.Devices...)
		slices.Sort(done)
		if !known.Changed(ctx) {
			return warnings, nil
		}
		if known, err = s.tags.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	for _, id := range known.Select(conditions) {
		if _, found := slices.BinarySearch(done, id); !found {
			warnings.Add(fmt.Errorf("%w: new devices appear faster than they are read", errIncomplete))
			break
		}
	}
	warnings.Merge(catalogGap(known))
	return warnings, nil
}

// found returns what find finds. A metric or device that the catalog has never seen is not looked for, which costs
// nothing; a hint says so, as it does where find finds nothing.
func (s *selector) found(ctx context.Context, matchers []*labels.Matcher,
	find func() ([]*series, annotations.Annotations, error)) (
	out []*series, warnings annotations.Annotations, err error) {
	names := namesIn(matchers)
	known, unknown, err := s.lacks(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	if !unknown {
		if out, warnings, err = find(); err != nil || len(out) > 0 {
			return out, warnings, err
		}
		if known, err = s.tags.Known(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, hint := range known.Hints(names) {
		if !slices.Contains(s.hints, hint) {
			s.hints = append(s.hints, hint)
		}
	}
	return out, warnings, nil
}

// lacks reports whether no device of the tenant is, or has, what the names say.
func (s *selector) lacks(ctx context.Context, names query.Wanted) (known *query.Known, unknown bool, err error) {
	if names.Metrics == nil && names.Devices == nil {
		return nil, false, nil
	}
	if err := s.querier.Await(ctx, s.tenant); err != nil {
		return nil, false, err
	}
	if known, err = s.tags.Known(ctx); err != nil {
		return nil, false, err
	}
	return known, known.Gap() == nil && !known.HasAny(names) && !known.Changed(ctx), nil
}

func namesIn(matchers []*labels.Matcher) query.Wanted {
	of := query.Wanted{Numbers: true,
		Metrics: equalTo(matchers, model.MetricNameLabel), Devices: equalTo(matchers, deviceLabel)}
	for _, m := range matchers {
		isName := m.Name == model.MetricNameLabel || m.Name == deviceLabel || strings.HasPrefix(m.Name, exported)
		if !isName && !m.Matches("") {
			of.Labels = append(of.Labels, m.Name)
		}
	}
	return of
}

// catalogGap returns a warning for each reason why devices may be missing.
func catalogGap(known *query.Known) annotations.Annotations { return gaps(known.Gap()) }

// gaps returns a warning for each reason why an answer is incomplete.
func gaps(reasons []string) (warnings annotations.Annotations) {
	for _, why := range reasons {
		warnings.Add(fmt.Errorf("%w: %s", errIncomplete, why))
	}
	return warnings
}

// narrowing reports whether matchers restrict anything but the metric.
func narrowing(matchers []*labels.Matcher) bool {
	return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name != model.MetricNameLabel })
}

// conditionsOf returns the matchers that a device must pass to have a series that matches.
func conditionsOf(matchers []*labels.Matcher) (out []catalog.Matcher) {
	for _, m := range matchers {
		c := catalog.Matcher{Of: catalog.OfName, Name: m.Name, Match: m.Matches}
		switch m.Name {
		case deviceLabel:
			c.Of = catalog.OfDevice
		case model.MetricNameLabel:
			c.Of = catalog.OfMetric
		}
		switch {
		case m.Type == labels.MatchEqual:
			c.Values = []string{m.Value}
		case m.Type == labels.MatchRegexp && len(m.SetMatches()) > 0:
			c.Values = m.SetMatches()
		}
		out = append(out, c)
	}
	return out
}
