package box_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"
)

// verdict is what has become of a reading that a limit may refuse. A later life of an ingester may decide otherwise,
// and so may one that takes its partition over again after a setback: it begins with full buckets.
type verdict struct {
	storedBy *actor
	stored   time.Time
	// refusedBy have sent a dead letter, and isRefused says that one is acknowledged.
	refusedBy []*actor
	isRefused bool
	// missedOf is the ingester by which a complete answer lacked the reading: it must have refused it.
	missedOf *actor
}

// verdict returns the verdict on a version of a value. The caller holds mu.
func (o *oracle) verdict(number int64) *verdict {
	if o.verdicts[number] == nil {
		o.verdicts[number] = &verdict{}
	}
	return o.verdicts[number]
}

// isDecided reports whether a reading needs no chunk: a dead letter of it is acknowledged. The caller holds mu.
func (o *oracle) isDecided(number int64) bool {
	return o.verdicts[number] != nil && o.verdicts[number].isRefused
}

// isKept reports whether a reading must be in the store at the end. The caller holds mu.
func (o *oracle) isKept(number int64) bool {
	return !o.isDecided(number) || o.verdict(number).storedBy != nil
}

// last returns the newest version of a value that must be in the store at the end; ok is false for none. The caller
// holds mu.
func (o *oracle) last(s series, all []version) (x version, ok bool) {
	for _, x := range slices.Backward(all) {
		if o.isKept(x.number) && !o.isErased(s, x) {
			return x, true
		}
	}
	return version{}, false
}

// isCertain reports whether all versions of a value are in the store, and nobody refuses one. The caller holds mu.
func (o *oracle) isCertain(all []version) bool {
	return !slices.ContainsFunc(all, func(x version) bool {
		v := o.verdict(x.number)
		return v.storedBy == nil || len(v.refusedBy) > 0
	})
}

// tookChunk takes the readings of a chunk that is stored. The caller holds mu.
func (o *oracle) tookChunk(a *actor, device string, f chunk.Frame) {
	all, from := map[ingesttest.Series]telemetry.Value{}, map[ingesttest.Series]store.Source{}
	ingesttest.Merge(all, from, device, store.Source{}, f)
	tenant, _, _ := strings.Cut(device, "-")
	for at, value := range all {
		s := series{tenant, device, at.Labels, at.Metric, at.Time}
		for _, x := range o.versions[s] {
			if x.value == value && o.b.limiting.on {
				o.took(a, s, x)
			}
			if x.value == value && o.b.retaining.on {
				o.tookExpired(a, s, x)
			}
		}
	}
}

// isNew reports whether no reading of a device, nor one of others, has an instant: where limits refuse some, it must be
// clear which.
func (o *oracle) isNew(device string, at int64, others []telemetry.Reading) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(o.byDevice[device], func(s series) bool { return s.time == at }) &&
		!slices.ContainsFunc(others, func(r telemetry.Reading) bool { return r.Time == at })
}

// took takes a reading of a chunk that is stored. The caller holds mu.
func (o *oracle) took(a *actor, s series, x version) {
	v := o.verdict(x.number)
	if v.storedBy == nil {
		v.storedBy, v.stored = a, time.Now()
	}
	switch {
	case slices.Contains(v.refusedBy, a) && !o.b.setback.on:
		o.b.fail("%s has refused %v (record %d of partition %d), and stores it", a.name, s, x.offset, x.partition)
	case v.missedOf == a:
		o.b.fail("a complete answer lacked %v (record %d of partition %d), which %s had not refused, and stores", s, x.offset,
			x.partition, a.name)
	}
}

// refuses takes a dead letter that an ingester sends: acknowledged says whether the log has it. It reports whether the
// dead letter may be.
func (o *oracle) refuses(a *actor, l *deadletter.DeadLetter, acknowledged bool) bool {
	if !o.b.limiting.on || int(l.Offset) >= len(o.expected[l.Partition]) {
		return false
	}
	x := o.expected[l.Partition][l.Offset]
	if len(x.series) == 0 {
		return false
	}
	published := time.UnixMilli(o.b.log.partition(topic, l.Partition).records[l.Offset].time)
	early := time.Since(published) < o.b.limiting.heldFor-o.b.soonest()
	if why := o.b.limiting.wrong(l, x.series[0].tenant, early); why != "" {
		o.b.fail("%s refuses record %d of partition %d for %s, %s: %s", a.name, l.Offset, l.Partition, l.Reason, l.Detail,
			why)
	}
	if l.Reason == decode.UnknownTenant && o.b.adding.isAdded(x.series[0].tenant, published) {
		o.b.fail("%s refuses record %d of partition %d: %s was added %s before", a.name, l.Offset, l.Partition,
			x.series[0].tenant, published.Sub(o.b.adding.added[x.series[0].tenant].at))
	}
	for i, s := range x.series {
		if l.Elements != nil && !l.Elements.Has(i) {
			continue
		}
		v := o.verdict(x.first + int64(i))
		v.isRefused = v.isRefused || acknowledged
		if v.refusedBy = append(v.refusedBy, a); v.storedBy == a && !o.b.setback.on {
			o.b.fail("%s has stored %v (record %d of partition %d), and refuses it", a.name, s, l.Offset, l.Partition)
		}
	}
	return true
}

// wrong returns why a dead letter of a reading of a tenant is wrong, "" if it is not; early says that the reading has
// not waited for held-for.
func (l *limiting) wrong(x *deadletter.DeadLetter, tenant string, early bool) string {
	waited := strings.HasPrefix(x.Detail, "it has waited for too long")
	given := l.given[tenant]
	_, rest, _ := strings.Cut(x.Detail, ": the limit ")
	name, _, ok := strings.Cut(rest, " of the tenant is passed by device ")
	switch {
	case x.Reason == decode.UnknownTenant && strings.HasPrefix(tenant, "new"):
		waited = true
	case x.Reason != decode.Limit || !ok:
		return "that is no reason"
	case !given["ingest-"+name]:
		return fmt.Sprintf("the tenant has had the limits %v", given)
	case strings.HasPrefix(x.Detail, "more came than a second brings") && !given[refusesAtOnce]:
		return "it should be deferred"
	}
	if waited && early {
		return "it has not waited for long"
	}
	return ""
}

// mayLack reports whether a complete answer may lack a version of a value because a limit refuses it. The caller holds
// mu.
func (o *oracle) mayLack(q *querier, s series, x version) bool {
	if !o.b.limiting.on {
		return false
	}
	v, by := o.verdict(x.number), q.asks[x.partition]
	switch {
	case o.b.settling && v.storedBy != nil:
		return false
	case len(v.refusedBy) > 0 || by == nil || by.dead():
		return true
	case v.storedBy == by, v.storedBy != nil && v.stored.Before(q.asked.Add(-o.b.profile.maxLag)):
		return false
	}
	v.missedOf = by
	return !o.b.defers(by, s, x)
}

// defers reports whether an ingester defers a reading now. Then it did so when it was asked, and no answer that lacks
// the reading is complete (rule R3).
func (b *box) defers(a *actor, s series, x version) bool {
	b.mu.Lock()
	var in *ingest.Ingester
	for _, slot := range b.slots {
		for _, life := range slot.lives {
			if life.actor == a {
				in = life.in
			}
		}
	}
	b.mu.Unlock()
	if in == nil {
		return false
	}
	all, err := in.Limits(b.context(), s.tenant)
	return err == nil && slices.ContainsFunc(all.Deferred, func(d ingest.DeferredReadings) bool {
		return d.Partition == x.partition && d.From <= x.offset && (d.Device == "" || d.Device == s.device)
	})
}

// alone returns, for each partition, the ingester that has it, nil where several believe that.
func (b *box) alone() (all []*actor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.slots {
		var one *actor
		if len(s.lives) == 1 {
			one = s.lives[0].actor
		}
		all = append(all, one)
	}
	return all
}

// refusing takes the dead letters that an ingester sends.
func (o *oracle) refusing(a *actor, all []logged) {
	if !o.b.limiting.on {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range all {
		if l, ok := all[i].letter(); ok {
			o.refuses(a, &l, false)
		}
	}
}

// letter returns the dead letter that a record is; ok is false if it is none.
func (r *logged) letter() (l deadletter.DeadLetter, ok bool) {
	headers := make([]kafka.Header, len(r.headers))
	for i, h := range r.headers {
		headers[i] = kafka.Header(h)
	}
	return deadletter.Parse(r.key, r.value, headers)
}
