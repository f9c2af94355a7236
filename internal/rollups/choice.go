package rollups

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// Which metrics get lanes: all of them, up to a bound. Where there are more, those that are named first, then those
// that queries of the last week have asked for most, then by name.

// useDays is how far back queries count.
const useDays = 7

// usesAge is how old what is known of uses may be.
const usesAge = time.Hour

// chooseEvery is how often a key and day may be sealed anew because other metrics are asked for.
const chooseEvery = 24 * time.Hour

// A metric takes the place of another one in what is sealed if it was asked for so often, and so many times as often as
// the other: sealing a day anew costs as much as sealing it.
const (
	leastQueries = 10
	moreQueries  = 2
)

// knownUses is what was read of a tenant's uses.
type knownUses struct {
	read time.Time
	uses map[string]control.Use
}

// usesOf is what queries have asked of a tenant's lanes in the last week. That it can't be read changes only which
// metrics come first.
func (w *Writer) usesOf(ctx context.Context, tenant string) map[string]control.Use {
	if w.cfg.Uses == nil {
		return nil
	}
	now := w.cfg.Now()
	known := w.uses[tenant]
	if !known.read.IsZero() && now.Sub(known.read) < usesAge {
		return known.uses
	}
	uses, err := w.cfg.Uses(ctx, tenant, telemetry.DayOf(now.UnixMilli())-useDays)
	if err != nil {
		w.cfg.Logger.Warn("which lanes are asked for is not read", "tenant", tenant, "error", err)
		uses = known.uses
	}
	w.uses[tenant] = knownUses{now, uses}
	return uses
}

// choose splits metrics into those that get lanes and the others, both sorted.
func (r *round) choose(metrics map[string]bool) (chosen, others []string) {
	all := slices.SortedFunc(maps.Keys(metrics), func(a, b string) int {
		return cmp.Or(r.rank(a)-r.rank(b), cmp.Compare(r.asked[b].Queries, r.asked[a].Queries), cmp.Compare(a, b))
	})
	n := min(len(all), r.cfg.MaxMetrics)
	chosen, others = all[:n:n], all[n:]
	slices.Sort(chosen)
	slices.Sort(others)
	return chosen, others
}

// rank is where a metric stands among those that come before others.
func (r *round) rank(metric string) int {
	if i := slices.Index(r.cfg.First, metric); i >= 0 {
		return i
	}
	return len(r.cfg.First)
}

// chosenAnew reports whether lanes that there are should be made of other metrics: one that has none is asked for much
// more than one that has them. It says so once a day of a key and day: to seal all anew is dear.
func (r *round) chosenAnew() bool {
	at := r.id()
	if r.cfg.Now().Before(r.chosen[at].Add(chooseEvery)) || !slices.ContainsFunc(r.old.Batches, r.ofOthers) {
		return false
	}
	r.chosen[at] = r.cfg.Now()
	return true
}

// ofOthers reports whether a batch should have lanes of other metrics.
func (r *round) ofOthers(b rollup.Batch) bool {
	if len(b.Without) == 0 || len(b.Metrics) < r.cfg.MaxMetrics {
		return false // what has none although there is room can't have any
	}
	all := make(map[string]bool)
	for i := range b.Metrics {
		all[b.Metrics[i].Name] = true
	}
	for _, m := range b.Without {
		all[m] = true
	}
	chosen, _ := r.choose(all)
	most, least := int64(0), int64(math.MaxInt64)
	for _, m := range b.Without {
		if slices.Contains(chosen, m) {
			most = max(most, r.asked[m].Queries)
		}
	}
	for i := range b.Metrics {
		if m := b.Metrics[i].Name; !slices.Contains(chosen, m) {
			least = min(least, r.asked[m].Queries)
		}
	}
	return most >= leastQueries && least <= most/moreQueries
}
