package worker

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/queue"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// HeldByParts adds up what Held should be: rows and dead letters, and what is known of devices and chains.
func HeldByParts(w *Worker) (rows, known int64) {
	sets := map[uintptr]bool{}
	for _, t := range w.bins.Tenants {
		for _, d := range t.ByID {
			known += int64(d.Bytes())
			// The columns of a device: the list, and what else a set takes.
			if c := inside(d.Device, "seen", "columns"); !c.IsNil() && !sets[c.Pointer()] {
				sets[c.Pointer()] = true
				known += 96 + 24*int64(c.Elem().FieldByName("list").Cap())
			}
			for c := d.Chains; c != nil; c = c.Next {
				rows += int64(c.Bytes())
				known += bins.ChainBytes
			}
		}
	}
	p := &w.writer.Publisher
	for _, l := range append(slices.Clone(p.Refused.Queued.All()), p.Deferred.Queued.All()...) {
		rows += int64(l.Bytes)
	}
	known += limitsByParts(w.admission.Limits)
	known += int64(w.bins.Names.Metrics.Bytes() + w.bins.Names.Schemas.Bytes())
	for _, o := range w.bins.Names.Outdated {
		known += int64(o.Names.Bytes())
	}
	return rows, known
}

// limitsByParts adds up what Limits holds.
func limitsByParts(l *admit.Limits) (known int64) {
	for _, t := range inside(l, "tenants", "all").Seq2() {
		// Labels: each takes 128 bytes, and each of its values 24.
		if v := t.Elem().FieldByName("values"); !v.IsNil() {
			for _, own := range v.Elem().FieldByName("own").Seq2() {
				known += 128 + int64(own.Len())*24
			}
		}
		for _, d := range t.Elem().FieldByName("devices").Seq2() {
			known += d.Elem().FieldByName("bytes").Int()
		}
	}
	known += int64(inside(l, "deferrals", "all").Len() * 160)
	return known + int64(inside(l, "registering", "waiting").Len()*700)
}

// inside returns a field of a value of another package, by the names that lead to it.
func inside(x any, names ...string) reflect.Value {
	v := reflect.ValueOf(x)
	for _, name := range names {
		v = reflect.Indirect(v).FieldByName(name)
	}
	return v
}

// Devices returns how many devices a Worker remembers.
func Devices(w *Worker) (n int) {
	for _, t := range w.bins.Tenants {
		n += len(t.ByID)
	}
	return n
}

// CountWork counts from now on how often the Worker files one of its chains or devices, or shows one to a head.
func CountWork(w *Worker) (count func() int) {
	n := 0
	x := &w.bins.Index
	for _, o := range []*queue.Heap[*bins.Chain]{&x.Wakes, &x.Holding, &x.Lagging, &x.Idle} {
		countComparisons(o, &n)
	}
	for _, name := range []string{"lookups", "holding"} {
		countComparisons((*queue.Heap[*catalogupdates.Device])(inside(&w.bins.Updates, name).Addr().UnsafePointer()), &n)
	}
	looks := w.bins.Visited
	return func() int { return n + w.bins.Visited - looks }
}

func countComparisons[T any](h *queue.Heap[T], n *int) {
	key := (*func(T) int64)(inside(h, "key").Addr().UnsafePointer())
	of := *key
	*key = func(x T) int64 {
		*n++
		return of(x)
	}
}

// Loose reports whether something is on its way to the journal, or should be, and can go there now.
func (w *Worker) Loose() bool {
	j := &w.bins.Journaled
	if !j.On {
		return false
	}
	if w.appends.InFlight != nil {
		return true
	}
	limit, loose := w.writer.Publisher.FirstRefused(), false
	j.Loose.UpTo(func(c *bins.Chain) bool { return !loose && c.Journaled.Loose < limit }, func(c *bins.Chain) {
		loose = loose || !c.Journaled.Bulky
	})
	return loose
}

// OpenPart returns what a chain has of an open bin that never had one: no worker may have changed that.
func OpenPart() string {
	b := bins.New(bins.Config{}, admit.Log{})
	c := b.Open(b.AddDevice("acme", "d"), 0, time.Unix(0, 0))
	return fmt.Sprintf("%+v", inside(c, "open"))
}

// SeriesByDay returns how many series are counted of a tenant, by day.
func SeriesByDay(w *Worker, tenant string) map[string]int {
	out := map[string]int{}
	t := inside(w.admission.Limits, "tenants", "all").MapIndex(reflect.ValueOf(tenant))
	for day, n := range t.Elem().FieldByName("series").FieldByName("days").Seq2() {
		out[telemetry.Day(day.Int()).String()] = int(n.Int())
	}
	return out
}

// CountedLabels returns of how many tenants a Worker counts the values of labels.
func CountedLabels(w *Worker) (n int) {
	for _, t := range inside(w.admission.Limits, "tenants", "all").Seq2() {
		if !t.Elem().FieldByName("values").IsNil() {
			n++
		}
	}
	return n
}

// MostOtherJobs returns how many jobs of a Worker may be under way beside writes: those for which there is a bound, and
// the publications that it hands out when there are dead letters of every kind.
func MostOtherJobs() int {
	now := time.Unix(0, 0)
	w := New(Config{Register: true, Registrations: admit.NewRegistrations(1000)}, Assignment{},
		Process{Memory: NewMemory(1 << 30), Observer: struct{ write.Observer }{}, Now: now})
	published := 0
	for i := range 2 * write.PublicationsAtOnce {
		w.writer.Publisher.Refused.Add(write.DeadLetter{Record: admit.Record{Offset: int64(i)}})
		published += len(w.writer.Publications(nil, now))
	}
	w.writer.Publisher.Deferred.Add(write.DeadLetter{})
	for i := range 2 * write.MaxPublications {
		r := telemetry.Reading{Tenant: "acme", Device: fmt.Sprint(i), Fields: []telemetry.Field{{Metric: "a"}}}
		w.bins.Take(int64(i), []telemetry.Reading{r}, now)
		c := w.bins.AddDevice(r.Tenant, r.Device).Chains
		c.Abandon(c.Bin, binning.Bin{})
		w.writer.RejectFlight(c, "never", now)
	}
	snapshot := new(control.Snapshot)
	for i := range int64(2 * admit.MaxRegistering) {
		rec := admit.Record{Offset: i, Value: fmt.Appendf(nil, `{"tenant":"t%d","device":"d","ts":1,"values":{"a":1}}`, i)}
		if _, err := w.admission.Admit(&rec, admit.Moment{Snapshot: snapshot, Now: now}); err != nil {
			panic(err)
		}
	}
	registrations := len(w.admission.Limits.NextRegistrations("", now, snapshot))
	const lookup, stamp, journal = 1, 1, 1
	published += len(w.writer.Publications(nil, now))
	return published + registrations + catalogupdates.MaxRunning + lookup + stamp + journal
}

// ObserverOf returns what counts for a Worker.
func ObserverOf(w *Worker) write.Observer { return w.observer }

// Shelve puts the blocks of a device on a shelf.
func Shelve(w *Worker, device string, shelf binning.Shelf) error {
	for c := w.bins.Tenants["acme"].ByID[device].Chains; c != nil; c = c.Next {
		if _, err := w.bins.Shelve(c, shelf); err != nil {
			return err
		}
	}
	return nil
}
