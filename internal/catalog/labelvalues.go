// Package catalog has the catalog of a tenant's devices, for listing and matching: the form of the pages in which it is
// stored, how the pages of a device are merged, and an index of it in memory, over which matchers, counts and lists
// run.
//
// A page is written once and never changed, and has something of some devices. A catalog is the union of its pages, in
// whatever order they are read, and however often: sets are united, of times the least and the greatest count, of a tag
// the value that was set last. That is why many can write pages at a time, and anyone can merge them.
//
// It knows nothing of stores, clocks or tenants. docs/internals/format/catalog.md specifies the pages.
package catalog

import "hash/maphash"

// LabelValues has the values of labels, as numbers of this process. It never changes.
type LabelValues struct {
	names map[string]map[uint64]struct{}
}

// ValueHash hashes a value of a label: two values have the same number by chance only, one pair in 2^64.
func ValueHash(value string) uint64 { return maphash.String(seed, value) }

// Has reports whether a label has a value, which is given by its number.
func (v *LabelValues) Has(name string, number uint64) bool {
	_, ok := v.names[name][number]
	return ok
}

// Len returns how many values a label has.
func (v *LabelValues) Len(name string) int { return len(v.names[name]) }

// Names returns how many labels there are.
func (v *LabelValues) Names() int { return len(v.names) }

// MaxLen returns how many values the label has that has most.
func (v *LabelValues) MaxLen() (most int) {
	for _, values := range v.names {
		most = max(most, len(values))
	}
	return most
}

// LabelValues returns the values that labels have among all devices of the index. Of a device MaxLabelValues of a label
// are listed at most.
func (x *Index) LabelValues() *LabelValues {
	out := &LabelValues{names: make(map[string]map[uint64]struct{})}
	all := x.Select(nil, 0, x.Blocks())
	devices := make([]int, len(x.labelSets.list))
	all.codes(&x.labels, devices)
	for i, set := range x.labelSets.list {
		if devices[i] == 0 {
			continue
		}
		for _, l := range set {
			if l == Partial {
				continue
			}
			values := out.names[l.Name]
			if values == nil {
				values = make(map[uint64]struct{})
				out.names[l.Name] = values
			}
			values[ValueHash(l.Value)] = struct{}{}
		}
	}
	return out
}
