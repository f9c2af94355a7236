package worker

import (
	"fmt"
	"slices"
	"time"
)

// HeldByParts adds up what Held should be: rows and dead letters, and what is known of devices and chains.
func HeldByParts(w *Worker) (rows, known int64) {
	sets := map[*columns]bool{}
	for _, t := range w.registry.tenants {
		if v := t.values; v != nil {
			for _, own := range v.own {
				known += labelNameBytes + int64(len(own))*labelValueBytes
			}
		}
		for _, d := range t.byID {
			known += int64(d.bytes())
			if x := d.rated(); x != nil {
				known += x.bytes
			}
			if c := d.seen.columns; c != nil && !sets[c] {
				sets[c] = true
				known += int64(c.bytes())
			}
			for _, c := range d.chains {
				rows += int64(c.bytes())
				known += chainBytes
			}
		}
	}
	for _, l := range append(slices.Clone(w.publisher.refused.queued.all()), w.publisher.deferred.queued.all()...) {
		rows += int64(l.bytes)
	}
	known += int64(len(w.throttle.deferrals.all) * deferralBytes)
	known += int64(w.names.metrics.Bytes() + w.names.schemas.Bytes())
	for _, o := range w.names.outdated {
		known += int64(o.names.Bytes())
	}
	return rows, known
}

// Devices returns how many devices a Worker remembers.
func Devices(w *Worker) (n int) {
	for _, t := range w.registry.tenants {
		n += len(t.byID)
	}
	return n
}

// CountWork counts from now on how often the Worker compares two of its chains or devices, or shows one to a head.
func CountWork(w *Worker) (count func() int) {
	n := 0
	for _, o := range []*minHeap[*chain]{&w.index.wakes, &w.index.filling, &w.index.lagging, &w.index.acting,
		&w.index.idle} {
		countLess(o, &n)
	}
	countLess(&w.updates.lookups, &n)
	countLess(&w.updates.holding, &n)
	looks := w.registry.visited
	return func() int { return n + w.registry.visited - looks }
}

func countLess[T any](o *minHeap[T], n *int) {
	less := o.items.less
	o.items.less = func(a, b T) bool {
		*n++
		return less(a, b)
	}
}

// Loose reports whether something is on its way to the journal, or should be, and can go there now.
func (w *Worker) Loose() bool {
	j := &w.journal
	if !j.on {
		return false
	}
	if j.inFlight != nil {
		return true
	}
	limit, loose := w.publisher.firstRefused(), false
	j.loose.upto(func(c *chain) bool { return !loose && c.journaled.loose < limit }, func(c *chain) {
		loose = loose || !c.journaled.bulky
	})
	return loose
}

// SeriesByDay returns how many series are counted of a tenant, by day.
func SeriesByDay(w *Worker, tenant string) map[string]int {
	out := map[string]int{}
	for day, n := range w.registry.tenants[tenant].series {
		out[day.String()] = n
	}
	return out
}

// CountedLabels returns of how many tenants a Worker counts the values of labels.
func CountedLabels(w *Worker) (n int) {
	for _, t := range w.registry.tenants {
		if t.values != nil {
			n++
		}
	}
	return n
}

// MostOtherJobs returns how many jobs of a Worker may be under way beside writes: those for which there is a bound, and
// the burials that it hands out when there is something to bury of every kind.
func MostOtherJobs() int {
	now := time.Unix(0, 0)
	w := New(Config{}, Assignment{}, Process{Memory: NewMemory(1 << 30), Now: now})
	w.publisher.refused.add(DeadLetter{})
	w.publisher.deferred.add(DeadLetter{})
	for i := range 2 * maxPublications {
		c := w.open(w.registry.device("acme", fmt.Sprint(i)), 0, now)
		c.flight = &flight{}
		w.rejectFlight(c, "never", now)
	}
	const census, stamp, journal = 1, 1, 1
	return len(w.publications(nil, now)) + maxUpdates + census + stamp + journal
}
