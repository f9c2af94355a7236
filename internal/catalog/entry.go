package catalog

import (
	"cmp"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
)

// Entry is what a page or an index has of one device.
type Entry struct {
	Device      string
	First, Last int64    // least and greatest event time, ms; First above Last: none is known
	Metrics     []Metric // sorted, each once
	// Labels are the labels of readings: names with values, sorted, without repetition.
	Labels []telemetry.Label
	Tags   []Tag // sorted by name
}

// Metric is a metric with a kind of its values and its unit, "" for none.
type Metric struct {
	Name string
	Kind telemetry.Kind
	Unit string
}

// Compare orders metrics by name, kind and unit.
func (m Metric) Compare(o Metric) int {
	return cmp.Or(strings.Compare(m.Name, o.Name), cmp.Compare(m.Kind, o.Kind), strings.Compare(m.Unit, o.Unit))
}

// Tag is a tag, and the record that set its value. Of two values the one with the later source counts, then the one
// that was written later, then the greater (rule W13).
type Tag struct {
	Name, Value string
	// Source is zero in pages of earlier releases, and has no stream in copies of tenants.
	Source telemetry.Source
	// Updated is when the page was written, in ms. Of a tag that was seen it is the time of its reading.
	Updated int64
	// Replaces says, of a tag that was seen, that it replaced another value that was seen. Pages don't have it.
	Replaces bool
}

// supersedes reports whether a tag takes the place of another value of the same name.
func (t Tag) supersedes(o Tag) bool {
	return cmp.Or(t.Source.Compare(o.Source), cmp.Compare(t.Updated, o.Updated), strings.Compare(t.Value, o.Value)) > 0
}

// MaxLabelValues bounds how many values of one label are listed of a device.
const MaxLabelValues = 100

// Partial is a label that no reading has, since its name is empty: a device with it has metrics or labels that did not
// find room in its entry.
var Partial = telemetry.Label{}

// isPartial reports whether a device with these labels has metrics or labels that are not listed.
func isPartial(labels []telemetry.Label) bool { return len(labels) > 0 && labels[0] == Partial }

// Normalize puts the lists of an entry in order, each element once.
func (e *Entry) Normalize() {
	slices.SortFunc(e.Metrics, Metric.Compare)
	e.Metrics = slices.Compact(e.Metrics)
	slices.SortFunc(e.Labels, CompareLabels)
	e.Labels = slices.Compact(e.Labels)
	slices.SortStableFunc(e.Tags, compareTags)
}

func compareTags(a, b Tag) int { return strings.Compare(a.Name, b.Name) }

// CompareLabels orders labels by name and value.
func CompareLabels(a, b telemetry.Label) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
}

// TagLabels returns the tags that have a value, without their times.
func (e *Entry) TagLabels() telemetry.Labels {
	if len(e.Tags) == 0 {
		return nil
	}
	out := make(telemetry.Labels, len(e.Tags))
	for i, t := range e.Tags {
		out[i] = telemetry.Label{Name: t.Name, Value: t.Value}
	}
	return out.NonEmpty()
}

// MetricNames returns the names of the metrics, each once.
func (e *Entry) MetricNames() []string {
	out := make([]string, len(e.Metrics))
	for i, m := range e.Metrics {
		out[i] = m.Name
	}
	return slices.Compact(out)
}

// Span records that the device has readings at these times, if first is not above last.
func (e *Entry) Span(first, last int64) {
	switch {
	case first > last:
	case e.First > e.Last:
		e.First, e.Last = first, last
	default:
		e.First, e.Last = min(e.First, first), max(e.Last, last)
	}
}

// union returns the elements of two sorted sets, one of them itself if it has all.
func union[T comparable](a, b []T, compare func(T, T) int) []T {
	fresh := difference(b, a, compare)
	if len(fresh) == 0 {
		return a
	}
	out := append(append(make([]T, 0, len(a)+len(fresh)), a...), fresh...)
	slices.SortFunc(out, compare)
	return slices.Compact(out)
}

// limitLabelValues keeps the first MaxLabelValues values for every name.
func limitLabelValues(labels []telemetry.Label) []telemetry.Label {
	if len(labels) <= MaxLabelValues {
		return labels
	}
	out := make([]telemetry.Label, 0, len(labels))
	run := 0
	for i, l := range labels {
		if run++; i == 0 || labels[i-1].Name != l.Name {
			run = 1
		}
		if run <= MaxLabelValues {
			out = append(out, l)
		}
	}
	return out
}
