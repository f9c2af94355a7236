package prom

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"
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
	conditions := conditionsOf(ctx, matchers)
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
	find func() ([]*series, annotations.Annotations, error)) (out *outcome) {
	names := namesIn(matchers)
	known, unknown, err := s.lacks(ctx, names)
	if out = (&outcome{err: err}); err != nil {
		return out
	}
	if !unknown {
		if out.series, out.warnings, out.err = find(); out.err != nil || len(out.series) > 0 {
			return out
		}
		if known, err = s.tags.Known(ctx); err != nil {
			return &outcome{err: err}
		}
	}
	for _, hint := range known.Hints(names) {
		if !slices.Contains(s.hints, hint) {
			s.hints = append(s.hints, hint)
		}
	}
	return out
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

// conditionsOf returns the matchers that a device must pass to have a series that matches. Once the context has ended
// they match nothing: a regular expression may take long for each of many names.
func conditionsOf(ctx context.Context, matchers []*labels.Matcher) (out []catalog.Matcher) {
	for _, m := range matchers {
		c := catalog.Matcher{Of: catalog.OfName, Name: m.Name,
			Match: func(name string) bool { return ctx.Err() == nil && m.Matches(name) }}
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

// deviceLabel is the label that has a series' device.
const deviceLabel = "device"

// exported is put before a name that something more important has taken.
const exported = "exported_"

// curveName is the metric and the device of a series.
type curveName struct{ metric, device string }

// renamed returns the name in PromQL of a label or tag. Those that the metric and the device have taken, with exported_
// before them any number of times, get one exported_ more, whatever stands beside them: so two sets of labels that
// differ never become one, as labels device and exported_device would.
func renamed(name string) string {
	base := name
	for strings.HasPrefix(base, exported) {
		base = strings.TrimPrefix(base, exported)
	}
	if base == deviceLabel || base == model.MetricNameLabel {
		return exported + name
	}
	return name
}

// labelsOf returns the labels of a series in PromQL: its metric as the name, its device, then the sets: the reading's
// labels and the device's tags. Of two with one name the first keeps it, and the other gets exported_ until its name is
// free. Empty values are dropped, as they are no labels in PromQL.
func labelsOf(b *labels.ScratchBuilder, of curveName, sets ...telemetry.Labels) labels.Labels {
	b.Reset()
	b.Add(model.MetricNameLabel, of.metric)
	b.Add(deviceLabel, of.device)
	for _, set := range sets {
		for _, l := range set {
			if l.Name != "" && l.Value != "" {
				b.Add(renamed(l.Name), l.Value)
			}
		}
	}
	b.Sort()
	out := b.Labels()
	if _, twice := out.HasDuplicateLabelNames(); !twice {
		return out
	}
	taken := map[string]string{model.MetricNameLabel: of.metric, deviceLabel: of.device}
	for _, set := range sets {
		var losers []telemetry.Label
		for _, l := range set {
			if l.Name == "" || l.Value == "" {
				continue
			}
			l.Name = renamed(l.Name)
			if _, clash := taken[l.Name]; clash {
				losers = append(losers, l)
				continue
			}
			taken[l.Name] = l.Value
		}
		for _, l := range losers {
			name := exported + l.Name
			for taken[name] != "" {
				name = exported + name
			}
			taken[name] = l.Value
		}
	}
	b.Reset()
	for name, value := range taken {
		b.Add(name, value)
	}
	b.Sort()
	return b.Labels()
}

func matches(matchers []*labels.Matcher, l labels.Labels) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) })
}

// equalTo returns the values that a label can have under the matchers, nil if they do not restrict it to some. The
// values must still be matched.
func equalTo(matchers []*labels.Matcher, label string) (values []string) {
	for _, m := range matchers {
		if m.Name != label {
			continue
		}
		var these []string
		switch m.Type {
		case labels.MatchEqual:
			these = []string{m.Value}
		case labels.MatchRegexp:
			these = m.SetMatches()
		}
		if len(these) > 0 && (values == nil || len(these) < len(values)) {
			values = these
		}
	}
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
}
