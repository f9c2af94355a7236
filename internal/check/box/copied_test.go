package box_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// copiedFrom is added to the partition of a reading that an account has by a copy.
const copiedFrom = 100

const (
	// seenWithin is how long after a copy a complete answer may lack it: no head knows of it, so that a querier may have
	// an older copy of the control documents, and a replica may lag.
	seenWithin = 2 * time.Minute
	// obeyedWithin is how long after an order of erasure a copy may send rows that it erases: 5 seconds as rule T4 says,
	// and the calls between.
	obeyedWithin = 2 * time.Minute
)

// numbered is a stream of an account.
type numbered struct {
	isCopied bool
	// of is the number at the source of one that was copied.
	of    uint32
	since time.Time
}

// document takes a control document that the store has acknowledged from an actor.
func (o *oracle) document(d store.Document, from *actor) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch d.Kind {
	case erasure.Kind:
		o.ordersDocument(d)
	case tenant.Kind:
		is, _ := o.b.snapshot().Tenant(d.ID)
		o.keepings[d.ID] = &keeping{policies: []keepPolicy{{classes: []keepClass{{"*", is.Retention}}}}}
		if isCopy := strings.HasPrefix(from.name, o.b.prefix+"copy."); isCopy {
			if of, _ := o.from.b.snapshot().Tenant(d.ID); of.Retention != is.Retention {
				o.b.fail("%s has registered %s with a retention of %s instead of %s", from.name, d.ID, is.Retention, of.Retention)
			}
		}
	case stream.Kind:
		s, err := stream.Of(d)
		x := numbered{isCopied: s.IsCopied(), since: time.Now()}
		if x.isCopied && err == nil {
			_, err = fmt.Sscanf(s.Topic, "%d", &x.of)
		}
		if err != nil {
			o.b.fail("the stream %s can't be read: %v", d.ID, err)
		}
		o.streams[s.Number] = x
	}
}

// isOwedCopy reports whether a complete answer to the last question of a querier must have a version that was copied.
func (x *version) isOwedCopy(q *querier) bool {
	return !x.copied.IsZero() && q.asked.Sub(x.copied) > seenWithin
}

// copied takes a chunk that a copy has stored: its rows are some of the source, and no order erases them. The caller
// holds mu.
func (o *oracle) copied(doc []byte, f chunk.Frame, sent time.Time) {
	h, err := store.ParseStoredChunk(doc)
	if err != nil {
		o.b.fail("a copy can't be read: %v", err)
	}
	from := o.from
	from.mu.Lock()
	defer from.mu.Unlock()
	name, _, _ := strings.Cut(h.TenantShard, "~")
	values, sources := map[ingesttest.Series]telemetry.Value{}, map[ingesttest.Series]store.Source{}
	ingesttest.Merge(values, sources, h.Device, store.Source{}, f)
	for key, v := range values {
		s := series{name, key.Device, key.Labels, key.Metric, key.Time}
		i := slices.IndexFunc(from.versions[s], func(x version) bool {
			return x.value == v && x.partition == h.ID.Partition && x.offset >= h.First && x.offset <= h.Through
		})
		if i < 0 {
			o.b.fail("a copy has %v for %v, which nobody sent to partition %d", v, s, h.ID.Partition)
			return
		}
		x := from.versions[s][i]
		at := place{x.partition, x.offset}
		for _, since := range []time.Time{from.erased(s, at), o.erased(s, at.copied())} {
			if !since.IsZero() && sent.Sub(since) > obeyedWithin {
				o.b.fail("a copy has %v, which was erased %s before", s, sent.Sub(since))
			}
		}
		o.takeVersion(s, x)
	}
	for _, e := range h.Erased {
		if of := o.orders[e.Order]; of != nil {
			of.rows += e.Rows
		}
	}
	if !h.IsFence() {
		o.checkTTL(name, &h.Header, sent)
	}
}

// copied returns where the reading is in the account that it was copied to.
func (p place) copied() place { return place{p.partition + copiedFrom, p.offset} }

// record returns a record of the log of this account, or of the one that copies come from.
func (o *oracle) record(at place) *logged {
	if at.partition >= copiedFrom {
		return o.from.record(place{at.partition - copiedFrom, at.offset})
	}
	return &o.b.log.partition(topic, at.partition).records[at.offset]
}

// takeVersion takes a version of the source, unless it is known. The caller holds mu.
func (o *oracle) takeVersion(s series, x version) {
	x.partition, x.copied = x.partition+copiedFrom, time.Now()
	if slices.ContainsFunc(o.versions[s], func(y version) bool { return y.number == x.number }) {
		return
	}
	if o.versions[s] == nil {
		o.byDevice[s.device] = append(o.byDevice[s.device], s)
	}
	o.versions[s] = append(o.versions[s], x)
	slices.SortFunc(o.versions[s], func(x, y version) int { return cmp.Compare(x.number, y.number) })
}

// made is a chunk as an ingester has stored it.
type made struct {
	chunk.Header
	at time.Time
	// until is when it expires, zero for never.
	until time.Time
}

// madeNow returns a chunk that is stored now.
func madeNow(h *chunk.Header) made {
	m := made{Header: *h, at: time.Now()}
	if h.TTL > 0 {
		m.until = m.at.Add(time.Duration(h.TTL) * time.Second)
	}
	return m
}

// checkTTL holds that a copy stays no longer than its chunk, and than the target keeps its day (rule T5).
func (o *oracle) checkTTL(name string, h *chunk.Header, sent time.Time) {
	most := o.from.made[nameOf(h)].until
	of, _ := o.b.snapshot().Tenant(name)
	if ttl := of.TTLOf(h.Device, h.ID.Day, sent.UnixMilli()); ttl > 0 {
		if until := sent.Add(time.Duration(ttl) * time.Second); most.IsZero() || until.Before(most) {
			most = until
		}
	}
	until := madeNow(h).until
	// Between the look at the clock and the write may be other calls.
	others := 2 * time.Minute
	if o.b.slow.rnd != nil {
		others = 20 * time.Minute
	}
	if !most.IsZero() && (until.IsZero() || until.Sub(most) > time.Since(sent)+others) {
		o.b.fail("the copy of chunk %s of %s lives until %s, and may until %s", h.ID, h.Device, until, most)
	}
}

// chunkName names a chunk in the account of its ingester, and in that of its copy.
type chunkName struct {
	device    string
	day       telemetry.Day
	partition int32
	number    uint32
}

func nameOf(h *chunk.Header) chunkName {
	return chunkName{h.Device, h.ID.Day, h.ID.Partition, h.ID.Number}
}

// copiedOrder returns the order of the source that one with this id is a copy of, nil if it is none. The caller holds
// mu.
func (o *oracle) copiedOrder(id string) *ordered {
	if o.from == nil {
		return nil
	}
	o.from.mu.Lock()
	defer o.from.mu.Unlock()
	return o.from.orders[baseOf(id)]
}

// baseOf returns the id of the order of which one is a copy, or a second copy.
func baseOf(id string) string {
	base, _, _ := strings.Cut(id, ".again")
	return base
}

// isSame reports whether an order is about the same as another one.
func (x *ordered) isSame(y *ordered) bool {
	return x.tenant == y.tenant && x.device == y.device && x.from == y.from && x.to == y.to && x.at == y.at
}

// copyOfOrder takes the positions of the copy of an order: the same in the streams that were copied, and nothing of the
// account's own (rule T4). The caller holds mu.
func (o *oracle) copyOfOrder(is *ordered, positions []erasure.Position, of *ordered) {
	own := map[uint32]bool{}
	for _, p := range positions {
		if !o.streams[p.Stream].isCopied {
			own[p.Stream], is.positions[0] = p.Through == -1, p.Through
			continue
		}
		isRead := o.takePosition(is, p) && p.Partition != erasure.EveryPartition
		if isRead && p.Through != of.positions[p.Partition] {
			o.b.fail("erasure %s covers partition %d up to offset %d, and its copy up to %d", of.id, p.Partition,
				of.positions[p.Partition], p.Through)
		}
	}
	for number, s := range o.streams {
		if !s.isCopied && is.announced.Sub(s.since) > time.Minute && !own[number] {
			o.b.fail("the copy of erasure %s is about stream %d of the account itself", of.id, number)
		}
	}
}

// checkCopied holds that an order of the account itself covers whole streams that were copied (rule T4).
func (o *oracle) checkCopied(x *ordered, positions []erasure.Position) {
	for number, s := range o.streams {
		isWhole := slices.ContainsFunc(positions, func(p erasure.Position) bool {
			return p.Stream == number && p.Partition == erasure.EveryPartition && p.Through >= 1<<53-1
		})
		if s.isCopied && x.announced.Sub(s.since) > time.Minute && !isWhole {
			o.b.fail("erasure %s does not cover stream %d whole, which was copied", x.id, number)
		}
	}
}

// takePosition takes the position of an order in a stream that was copied, and reports whether it is the one that the
// source's log is read as.
func (o *oracle) takePosition(x *ordered, p erasure.Position) bool {
	if _, isRead := o.from.streams[o.streams[p.Stream].of]; !isRead {
		return false
	}
	partitions := []int32{p.Partition}
	if p.Partition == erasure.EveryPartition {
		partitions = []int32{0, 1}
	}
	for _, i := range partitions {
		x.positions[i+copiedFrom] = p.Through
	}
	return true
}

// takeAll expects all that the source has acknowledged.
func (o *oracle) takeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from.mu.Lock()
	defer o.from.mu.Unlock()
	for s, all := range o.from.versions {
		for _, x := range all {
			o.takeVersion(s, x)
		}
	}
	for _, a := range o.from.accepted {
		o.accepted = append(o.accepted, accepted{a.of, a.at.copied(), a.number})
	}
}
