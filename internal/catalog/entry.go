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

// Tag is a tag and when its value was set, in ms above 0: of two values the later one counts, and of the same instant
// the greater.
type Tag struct {
	Name, Value string
	Updated     int64
}

// supersedes reports whether a tag takes the place of another value of the same name.
func (t Tag) supersedes(value string, updated int64) bool {
	return t.Updated > updated || t.Updated == updated && t.Value > value
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
	slices.SortFunc(e.Labels, compareLabels)
	e.Labels = slices.Compact(e.Labels)
	slices.SortStableFunc(e.Tags, compareTags)
}

func compareTags(a, b Tag) int { return strings.Compare(a.Name, b.Name) }

func compareLabels(a, b telemetry.Label) int {
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
	out := make([]string, 0, len(e.Metrics))
	for _, m := range e.Metrics {
		if len(out) == 0 || out[len(out)-1] != m.Name {
			out = append(out, m.Name)
		}
	}
	return out
}

// Merge adds what another entry says of the same device.
func (e *Entry) Merge(o Entry) {
	if o.First <= o.Last {
		if e.First > e.Last {
			e.First, e.Last = o.First, o.Last
		}
		e.First, e.Last = min(e.First, o.First), max(e.Last, o.Last)
	}
	e.Metrics = union(e.Metrics, o.Metrics, Metric.Compare)
	e.Labels = limitLabelValues(union(e.Labels, o.Labels, compareLabels))
	// own is false while the list belongs to another entry and must not change.
	own := false
	for _, t := range o.Tags {
		i, found := slices.BinarySearchFunc(e.Tags, t, compareTags)
		if found && !t.supersedes(e.Tags[i].Value, e.Tags[i].Updated) {
			continue
		}
		if !own {
			e.Tags, own = slices.Clone(e.Tags), true
		}
		if found {
			e.Tags[i] = t
		} else {
			e.Tags = slices.Insert(e.Tags, i, t)
		}
	}
}

// MergeEntries returns entries with one for each device, in the order of their ids. Of tags that were set at the same
// time the greater value counts.
func MergeEntries(entries []Entry) []Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b Entry) int { return strings.Compare(a.Device, b.Device) })
	n := 0
	for i := range out {
		if n > 0 && out[n-1].Device == out[i].Device {
			out[n-1].Merge(out[i])
			continue
		}
		out[n] = out[i]
		n++
	}
	return out[:n]
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
