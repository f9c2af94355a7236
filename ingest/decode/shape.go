package decode

import (
	"cmp"
	"slices"

	"binnacle/internal/telemetry"
)

// shape remembers in which order the last reading had its metrics. Readings of one kind follow one
// another, so the next has most often the same names at the same places: they need no look-up and, from
// the third on, no sorting.
type shape struct {
	names  []string // names by place
	same   bool     // nothing was learnt since the last reading
	ranks  []int    // sorted place of the field at a place; empty when not known for names
	unsort []telemetry.Field
}

// guess returns the last reading's name at a place, if this reading has the same name there.
func (s *shape) guess(place int, raw []byte) (string, bool) {
	if place < len(s.names) && s.names[place] == string(raw) {
		return s.names[place], true
	}
	return "", false
}

// learn corrects a guess.
func (s *shape) learn(place int, name string) {
	s.same, s.ranks = false, s.ranks[:0]
	switch {
	case place < len(s.names):
		s.names[place] = name
	case place < maxKept:
		s.names = append(s.names, name)
	}
}

// sort does what sortFields does. Every field's name must have been guessed or learnt at its place.
func (s *shape) sort(f []telemetry.Field) (sorted []telemetry.Field, ambiguous string) {
	if len(f) > 0 && len(s.ranks) == len(f) && complete(f) {
		s.unsort = append(s.unsort[:0], f...)
		for place, rank := range s.ranks {
			f[rank] = s.unsort[place]
		}
		return f, ""
	}
	n := len(f)
	f, ambiguous = sortFields(f)
	if s.same && len(f) == n && n <= len(s.names) {
		s.rank(f)
	}
	s.same = true
	return f, ambiguous
}

func complete(f []telemetry.Field) bool {
	for i := range f {
		if f[i].Value.Kind() == 0 {
			return false
		}
	}
	return true
}

// rank learns where the first names stand among the sorted fields, which are as many and all different.
func (s *shape) rank(sorted []telemetry.Field) {
	s.ranks = s.ranks[:0]
	for _, name := range s.names[:len(sorted)] {
		i, _ := slices.BinarySearchFunc(sorted, name, func(f telemetry.Field, name string) int {
			return cmp.Compare(f.Metric, name)
		})
		s.ranks = append(s.ranks, i)
	}
}

// sortFields drops fields without a value, sorts the others by metric, and keeps the last one of every metric. It
// returns a metric that has two values, empty if none has.
func sortFields(f []telemetry.Field) (sorted []telemetry.Field, ambiguous string) {
	if !complete(f) {
		f = slices.DeleteFunc(f, func(f telemetry.Field) bool { return f.Value.Kind() == 0 })
	}
	byMetric := func(a, b telemetry.Field) int { return cmp.Compare(a.Metric, b.Metric) }
	if !slices.IsSortedFunc(f, byMetric) {
		slices.SortStableFunc(f, byMetric)
	}
	out := f[:0]
	for i, x := range f {
		if i+1 < len(f) && f[i+1].Metric == x.Metric {
			if f[i+1].Value != x.Value {
				ambiguous = x.Metric
			}
			continue
		}
		out = append(out, x)
	}
	return out, ambiguous
}
