package box_test

import (
	"binnacle/ingest/journal"
	"binnacle/internal/catalog"
	"binnacle/internal/kafka"
)

// nextOwner holds what a process would find that takes a partition over now, by what was committed last: where the
// journal is whole, each row below F is stored or in a block that is loaded (rules J3, J4 and J6), and each time of a
// stored row is in the catalog or in a record that is loaded (rule J8). The caller holds mu.
func (o *oracle) nextOwner(partition int32) {
	b := o.b
	at := b.log.commits[commitKey(topic, partition)]
	c, ok := journal.ParseCommit(at.Metadata)
	if !ok || !b.profile.journal {
		return
	}
	all, isWhole := b.counted(partition, &c, at.Offset)
	if !isWhole {
		return
	}
	if b.profile.loses != "" || b.setback.on {
		o.ownerHas(partition, at.Offset, &c, all)
	}
	if b.keepsTimes() && b.profile.catalogEvery > 0 {
		o.ownerKnows(partition, c.F, all)
	}
}

// counted returns the records of the journal that a commit counts on, and reports whether the journal is whole.
func (b *box) counted(partition int32, c *journal.Commit, floor int64) (all []*journal.Record, isWhole bool) {
	l := b.log.partition(kafka.JournalOf(topic), partition)
	loader, err := journal.NewLoader(*c, floor, l.first, l.end())
	if err != nil {
		return nil, false
	}
	for n := c.From; n < c.To; n++ {
		if n >= l.end() {
			return nil, false
		}
		r := &l.records[n-l.first]
		if r.block == nil {
			parsed, err := journal.ParseRecord(r.value)
			if err != nil {
				return nil, false
			}
			parsed.Data = nil
			r.block = &parsed
		}
		if b.profile.loses != "" || b.setback.on { // nowhere else a link fails
			if _, _, err := loader.Take(n, r.value); err != nil {
				return nil, false
			}
		}
		all = append(all, r.block)
	}
	return all, true
}

// ownerHas holds that each row from the committed offset on and below F is stored, or in a block. The caller holds mu.
func (o *oracle) ownerHas(partition int32, floor int64, c *journal.Commit, all []*journal.Record) {
	for at := (place{partition, floor}); at.offset < min(c.F, int64(len(o.expected[partition]))); at.offset++ {
		x := o.expected[partition][at.offset]
		for i, s := range x.series {
			if !o.isStored(x.first+int64(i), s, at) && !hasRow(all, s, at) {
				o.b.fail("whoever takes partition %d over now goes on at %d (F), and %v of record %d is neither stored nor in a "+
					"block of the journal from %d to %d, which is whole", partition, c.F, s, at.offset, c.From, c.To)
				return
			}
		}
	}
}

// ownerKnows holds that each time of a stored row below F is known. The caller holds mu.
func (o *oracle) ownerKnows(partition int32, f int64, all []*journal.Record) {
	spans := map[string]span{}
	for _, r := range all {
		if r.Rows == 0 {
			spans[r.Device] = spans[r.Device].with(r.From, r.To)
		}
	}
	for _, tenant := range o.b.tenants {
		for _, device := range o.b.devicesOf(tenant) {
			if o.isForgetting(tenant, device) {
				continue
			}
			known, isListed := spans[device], false
			for _, s := range o.byDevice[device] {
				if !known.has(s.time) && !isListed {
					isListed = true
					if e, ok := o.b.listed(tenant).Entry(device); ok {
						known = known.with(e.First, e.Last)
					}
				}
				if !known.has(s.time) && o.isStoredAlone(s, partition, f, all) {
					o.b.fail("whoever takes partition %d over now knows times of %s from %d to %d, and %v is stored", partition,
						device, known.from, known.to-1, s)
					return
				}
			}
		}
	}
}

// isStoredAlone reports whether a row of a partition below F is stored, and in no block. One that a later life has
// refused does not count. The caller holds mu.
func (o *oracle) isStoredAlone(s series, partition int32, f int64, all []*journal.Record) bool {
	for _, v := range o.versions[s] {
		at := place{partition, v.offset}
		if v.partition == partition && v.offset < f && o.isInChunk(s, v.offset) &&
			o.erased(s, at).IsZero() && !o.mayHide(s) && len(o.verdict(v.number).refusedBy) == 0 && !hasRow(all, s, at) {
			return true
		}
	}
	return false
}

// span is event times in ms, half-open. The zero value is empty.
type span struct{ from, to int64 }

func (s span) has(t int64) bool { return s.from <= t && t < s.to }

// with returns the least span that has times from first to last, too.
func (s span) with(first, last int64) span {
	if s.to == 0 {
		return span{first, last + 1}
	}
	return span{min(s.from, first), max(s.to, last+1)}
}

// isForgetting reports whether the catalog forgets a device for an order that is not acknowledged: then readings may be
// left, which the next record of the device lists again. The caller holds mu.
func (o *oracle) isForgetting(tenant, device string) bool {
	for _, x := range o.orders {
		if x.acknowledged.IsZero() && x.tenant == tenant && (x.device == "" || x.device == device) {
			return true
		}
	}
	return false
}

// hasRow reports whether a block has the row of a reading.
func hasRow(all []*journal.Record, s series, at place) bool {
	for _, r := range all {
		if r.Rows > 0 && r.Device == s.device && r.Tenant == s.tenant && r.First <= at.offset && at.offset <= r.Through &&
			r.From <= s.time && s.time <= r.To {
			return true
		}
	}
	return false
}

// index is the catalog of a tenant as of so many changes.
type index struct {
	*catalog.Index
	changes int
}

// listed returns what the catalog says of a tenant.
func (b *box) listed(tenant string) *catalog.Index {
	x, ok := b.indexes[tenant]
	if !ok || x.changes != b.catalogued {
		x = index{b.stores.Catalog.Index(tenant), b.catalogued}
		b.indexes[tenant] = x
	}
	return x.Index
}
