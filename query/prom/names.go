package prom

import (
	"binnacle/internal/telemetry"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// deviceLabel is the label that has a series' device.
const deviceLabel = "device"

// exported is put before a name that something more important has taken.
const exported = "exported_"

// labelsOf is what PromQL calls a series: its metric as the name, its device, the reading's labels and the device's
// tags. Of two that have the same name the one that stands first here keeps it. Empty values are dropped, since to
// PromQL they are no labels.
func labelsOf(b *labels.ScratchBuilder, metric, device string, sets ...telemetry.Labels) labels.Labels {
	taken := map[string]string{model.MetricNameLabel: metric, deviceLabel: device}
	for _, set := range sets {
		var losers []telemetry.Label
		for _, l := range set {
			if l.Name == "" || l.Value == "" {
				continue
			}
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

// matches reports whether all matchers do.
func matches(matchers []*labels.Matcher, l labels.Labels) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// equalTo is the values that a label can have under the matchers: nil for all that there are, as far as they tell.
// What it does not exclude must still be matched.
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
	if values == nil {
		return nil
	}
	out := make([]string, 0, len(values))
	for _, v := range values {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}
