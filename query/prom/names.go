package prom

import (
	"slices"
	"strings"

	"binnacle/internal/telemetry"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

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
