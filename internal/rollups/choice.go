package rollups

import (
	"cmp"
	"maps"
	"slices"
)

// choose splits metrics into the ones that get rollups and the others, both sorted. Where there are more metrics than
// --rollup-metrics, the metrics of --rollup-first come first, in its order, then the others by name.
func (r *round) choose(metrics map[string]bool) (chosen, others []string) {
	all := slices.SortedFunc(maps.Keys(metrics), func(a, b string) int {
		return cmp.Or(r.rank(a)-r.rank(b), cmp.Compare(a, b))
	})
	n := min(len(all), r.cfg.MaxMetrics)
	chosen, others = all[:n:n], all[n:]
	slices.Sort(chosen)
	slices.Sort(others)
	return chosen, others
}

// rank returns the index of a metric in --rollup-first, and the length of that for all others.
func (r *round) rank(metric string) int {
	if i := slices.Index(r.cfg.First, metric); i >= 0 {
		return i
	}
	return len(r.cfg.First)
}
