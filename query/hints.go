package query

import (
	"context"
	"fmt"
	"slices"

	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/nearest"
)

// Wanted is the names that a question has.
type Wanted struct {
	Metrics, Devices []string
	Labels           []string // tags, or labels of readings
	Numbers          bool     // texts are no answer
}

// Hints returns why an answer to a request is empty, where the catalog has never seen a name of it. It asks nobody
// while all names are among those that were known last: a name that was seen once stays seen. It fails as Known does.
func (q *Querier) Hints(ctx context.Context, r Request) ([]string, error) {
	if r.Metrics == nil && r.Devices == nil {
		return nil, nil
	}
	of := Wanted{Metrics: r.Metrics, Devices: r.Devices}
	if last := q.lastKnown(r.Tenant); last != nil && last.Hints(of) == nil {
		return nil, nil
	}
	k, err := q.Known(ctx, r.Tenant)
	if err != nil {
		return nil, err
	}
	hints := k.Hints(of)
	return hints[:min(len(hints), maxHints)], nil
}

// maxHints is how many hints an answer has.
const maxHints = 10

// maxSuggested is how many devices a misspelt one is compared with.
const maxSuggested = 50_000

// HasAny reports whether the catalog may have one of the metrics and one of the devices. No names are any.
func (k *Known) HasAny(of Wanted) bool {
	var matchers []catalog.Matcher
	for what, names := range map[catalog.Property][]string{catalog.OfMetric: of.Metrics, catalog.OfDevice: of.Devices} {
		if names != nil {
			matchers = append(matchers, catalog.Matcher{Of: what, Values: names,
				Match: func(s string) bool { return slices.Contains(names, s) }})
		}
	}
	return len(matchers) == 0 || k.Count(matchers) > 0
}

// Hints returns a sentence for each name that the catalog has never seen, with the nearest one that it has, and for
// each metric that has only texts, if texts are no answer.
func (k *Known) Hints(of Wanted) (hints []string) {
	say := func(what, name string, all []string) {
		hint := fmt.Sprintf("no %s %q", what, name)
		if near := nearest.Name(name, all); near != "" {
			hint += fmt.Sprintf("; there is %q", near)
		}
		hints = append(hints, hint)
	}
	var metrics []Metric
	if of.Metrics != nil {
		metrics = k.Metrics(nil)
	}
	names := make([]string, len(metrics))
	for i := range metrics {
		names[i] = metrics[i].Metric
	}
	for _, name := range of.Metrics {
		i, found := slices.BinarySearch(names, name)
		switch {
		case !found:
			say("metric", name, names)
		case of.Numbers && slices.Equal(metrics[i].Types, []string{telemetry.Text.String()}):
			hints = append(hints, fmt.Sprintf("metric %q has only texts: ask /api/v1/latest or /api/v1/readings", name))
		}
	}
	for _, id := range of.Devices {
		if _, found := k.Entry(id); !found {
			var all []string
			if k.Len() <= maxSuggested {
				all = k.Select(nil)
			}
			say("device", id, all)
		}
	}
	if len(of.Labels) == 0 {
		return hints
	}
	if labels, all := k.labels(); all {
		for _, name := range of.Labels {
			if !slices.Contains(labels, name) {
				say("tag or label", name, labels)
			}
		}
	}
	return hints
}

// labels returns the names of all tags and labels of readings, and whether these are all.
func (k *Known) labels() (names []string, all bool) {
	k.selected(nil, func(stored, updates *catalog.Set) {
		f := Found{stored, updates}
		names, all = f.TagNames(), true
		for _, s := range f.Shapes() {
			all = all && s.Exact && !s.Partial
			for _, l := range s.Labels {
				names = append(names, l.Name)
			}
		}
	})
	slices.Sort(names)
	return slices.Compact(names), all
}
