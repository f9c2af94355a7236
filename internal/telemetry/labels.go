package telemetry

import (
	"cmp"
	"slices"
	"strings"
)

// Label is a name and a value, both as the device sent them.
type Label struct{ Name, Value string }

// Labels are sorted by name, and no two have the same name. They are part of a series' identity when they label a
// reading; as tags they describe a device. A nil Labels is the empty set.
type Labels []Label

// NewLabels sorts l in place and keeps the last label for each name. Empty values are kept.
func NewLabels(l []Label) Labels {
	out, _ := UniqueLabels(l)
	return out
}

// UniqueLabels does what NewLabels does, and returns a name that has two values in l, empty if none has.
func UniqueLabels(l []Label) (labels Labels, ambiguous string) {
	slices.SortStableFunc(l, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	out := l[:0]
	for i, x := range l {
		if i+1 < len(l) && l[i+1].Name == x.Name {
			if l[i+1].Value != x.Value {
				ambiguous = x.Name
			}
			continue
		}
		out = append(out, x)
	}
	if len(out) == 0 {
		return nil, ambiguous
	}
	return out, ambiguous
}

// NonEmpty returns the labels that have a value, l itself if all do: an empty one is none, as in Prometheus.
func (l Labels) NonEmpty() Labels {
	isEmpty := func(x Label) bool { return x.Value == "" }
	if !slices.ContainsFunc(l, isEmpty) {
		return l
	}
	if out := slices.DeleteFunc(slices.Clone(l), isEmpty); len(out) > 0 {
		return out
	}
	return nil
}

// Get returns the value of a name, and whether it is there.
func (l Labels) Get(name string) (string, bool) {
	for _, x := range l {
		if x.Name == name {
			return x.Value, true
		}
	}
	return "", false
}

// Compare orders label sets: pair by pair, names before values; a set that continues another comes after it.
func (l Labels) Compare(m Labels) int {
	return slices.CompareFunc(l, m, func(a, b Label) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.Value, b.Value)
	})
}

// Map returns the set as a map, nil when it is empty.
func (l Labels) Map() map[string]string {
	if len(l) == 0 {
		return nil
	}
	m := make(map[string]string, len(l))
	for _, x := range l {
		m[x.Name] = x.Value
	}
	return m
}

// LabelsOf makes Labels of a map.
func LabelsOf(m map[string]string) Labels {
	l := make([]Label, 0, len(m))
	for k, v := range m {
		l = append(l, Label{k, v})
	}
	return NewLabels(l)
}

// AppendKey appends an encoding of l that is equal for equal sets only; it serves as a map key.
func (l Labels) AppendKey(b []byte) []byte {
	for _, x := range l {
		b = append(b, x.Name...)
		b = append(b, 0xFF)
		b = append(b, x.Value...)
		b = append(b, 0xFF)
	}
	return b
}
