package chunk

import (
	"slices"
	"sort"
)

// wanted are the metrics that were asked for.
type wanted struct {
	all    bool
	sorted []string
}

// wantedOf returns some metrics, or all if metrics is nil.
func wantedOf(metrics []string) wanted {
	if !slices.IsSorted(metrics) {
		metrics = slices.Sorted(slices.Values(metrics))
	}
	return wanted{metrics == nil, metrics}
}

// Wanted reports whether a metric is among some, or any if metrics is nil: by a binary search in sorted order.
func Wanted(metrics []string) func(metric string) bool { return wantedOf(metrics).has }

func (w wanted) has(metric string) bool {
	_, found := slices.BinarySearch(w.sorted, metric)
	return found || w.all
}

// hasRaw returns has for a name that is no string yet, and need not become one.
func (w wanted) hasRaw(metric []byte) bool {
	if w.all {
		return true
	}
	i := sort.Search(len(w.sorted), func(i int) bool { return w.sorted[i] >= string(metric) })
	return i < len(w.sorted) && w.sorted[i] == string(metric)
}
