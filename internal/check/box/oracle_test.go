package box_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/journal"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// series names one value: a series and an instant.
type series struct {
	tenant, device, labels, metric string
	time                           int64
}

// version is one value of a series and instant, of those that were acknowledged.
type version struct {
	number    int64 // counts what was acknowledged
	partition int32
	offset    int64
	value     telemetry.Value
	copied    time.Time // of one that a copy has stored in this account
}

// oracle is a plain map of what the log has acknowledged.
type oracle struct {
	b *box
	// from is the oracle of the account that copies come from, nil for none.
	from *oracle

	mu       sync.Mutex // guards below
	number   int64
	versions map[series][]version
	// keepings are keyed by tenant.
	keepings map[string]*keeping
	byDevice map[string][]series // in the order in which they came
	// tags are the newest ones by device.
	tags    map[string]telemetry.Labels
	refused map[place]string
	// refusedOf are what is known of refused records that can be read.
	refusedOf map[place]series
	replayed  map[place]place     // where a dead letter stood that was published again
	orders    map[string]*ordered // of erasure
	letters   map[place]int
	stored    map[ingesttest.Series]telemetry.Value
	through   map[ingesttest.Series]store.Source
	checked   map[int32]int64 // by partition, the offset below which all was found in the store
	verdicts  map[int64]*verdict
	expected  map[int32][]expected
	accepted  []accepted
	streams   map[uint32]numbered // of the account, by their numbers
	made      map[chunkName]made  // in streams of the account itself
	// blocks has all blocks that the journal ever had, lost blocks included.
	blocks map[int32][]block
}

// block is a block of the journal.
type block struct {
	journal.Record
	offset int64
}

// appended takes a record that the journal has acknowledged.
func (o *oracle) appended(partition int32, offset int64, value []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, err := journal.ParseRecord(value)
	if err != nil {
		o.b.fail("record %d of the journal can't be read: %v", offset, err)
	}
	r.Data = nil
	o.blocks[partition] = append(o.blocks[partition], block{r, offset})
}

// isJournaled reports whether a block that a commit counts on has the row of a reading. The caller holds mu.
func (o *oracle) isJournaled(s series, at place, c *journal.Commit) bool {
	return slices.ContainsFunc(o.blocks[at.partition], func(b block) bool {
		return b.offset >= c.From && b.offset < c.To && b.Device == s.device && b.Tenant == s.tenant && b.Rows > 0 &&
			b.First <= at.offset && at.offset <= b.Through && b.From <= s.time && s.time <= b.To
	})
}

// place is where a record stands in the log.
type place struct {
	partition int32
	offset    int64
}

// accepted is a reading that must be stored.
type accepted struct {
	of     series // without labels and metric
	at     place
	number int64
}

// stored returns the series as stores in memory have it.
func (s series) stored() ingesttest.Series {
	return ingesttest.Series{Device: s.device, Labels: s.labels, Metric: s.metric, Time: s.time}
}

// expected is what a record must leave in the store.
type expected struct {
	series []series
	first  int64 // number of the first one's version
}

func newOracle(b *box) *oracle {
	return &oracle{b: b, keepings: map[string]*keeping{},
		versions: map[series][]version{}, byDevice: map[string][]series{}, refused: map[place]string{},
		tags:      map[string]telemetry.Labels{},
		refusedOf: map[place]series{}, orders: map[string]*ordered{}, streams: map[uint32]numbered{},
		made: map[chunkName]made{}, blocks: map[int32][]block{}, replayed: map[place]place{},
		letters: map[place]int{}, stored: map[ingesttest.Series]telemetry.Value{},
		through: map[ingesttest.Series]store.Source{}, checked: map[int32]int64{}, expected: map[int32][]expected{},
		verdicts: map[int64]*verdict{}}
}

func (o *oracle) acknowledged() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.number
}

// produced takes the readings of a record that the log has acknowledged; with a reason it must be refused.
func (o *oracle) produced(at place, readings []telemetry.Reading, refused string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := expected{first: o.number + 1}
	if refused != "" {
		o.refused[at] = refused
		for _, r := range readings {
			o.refusedOf[at] = series{tenant: r.Tenant, device: r.Device, time: r.Time}
		}
	} else {
		for _, r := range readings {
			if r.Tags != nil {
				o.tags[r.Device] = r.Tags
			}
			o.accepted = append(o.accepted, accepted{series{tenant: r.Tenant, device: r.Device, time: r.Time}, at, o.number + 1})
			for _, f := range r.Fields {
				o.number++
				s := series{r.Tenant, r.Device, string(r.Labels.AppendKey(nil)), f.Metric, r.Time}
				if o.versions[s] == nil {
					o.byDevice[r.Device] = append(o.byDevice[r.Device], s)
				}
				o.versions[s] = append(o.versions[s], version{number: o.number, partition: at.partition, offset: at.offset,
					value: f.Value})
				x.series = append(x.series, s)
			}
		}
	}
	o.expected[at.partition] = append(o.expected[at.partition], x)
}

// letter takes a dead letter.
func (o *oracle) letter(a *actor, rec *logged) {
	l, ok := rec.letter()
	if !ok {
		o.b.fail("a dead letter can't be read: %s", rec.value)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	at := place{l.Partition, l.Offset}
	if o.letters[at]++; o.refused[at] == "" && !o.refuses(a, &l, true) && !o.expires(a, &l) {
		o.b.fail("record %d of partition %d was refused for %s: %s", l.Offset, l.Partition, l.Reason, l.Detail)
	}
}

// created takes a chunk that is stored.
func (o *oracle) created(a *actor, device string, doc []byte, sent time.Time) {
	c, err := chunk.Parse(doc)
	if err != nil {
		o.b.fail("a chunk can't be read: %v", err)
		return
	}
	frame, err := c.Frame(nil)
	if err != nil {
		o.b.fail("a chunk can't be read: %v", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.streams[c.Header.ID.Stream].isCopied {
		o.copied(doc, frame, sent)
		return
	}
	o.made[nameOf(&c.Header)] = madeNow(&c.Header)
	ingesttest.Merge(o.stored, o.through, device, store.Source{Stream: c.Header.ID.Stream,
		Partition: c.Header.ID.Partition, Through: c.Header.Through}, frame)
	if o.b.limiting.on || o.b.retaining.on {
		o.tookChunk(a, device, frame)
		o.lives(a, &c.Header)
	}
}

// committed holds I1: what lies below a committed offset is in a chunk, or in a dead letter.
func (o *oracle) committed(a *actor, partition int32, c kafka.Committed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at := o.checked[partition]; at < c.Offset; at++ {
		x := o.expected[partition][at]
		for i, s := range x.series {
			if key := s.stored(); !o.isStored(x.first+int64(i), s, place{partition, at}) {
				o.b.fail("offset %d of partition %d is committed, and %v of record %d is not stored, but %v", c.Offset, partition,
					s, at, o.through[key])
				return
			}
		}
		if p := (place{partition, at}); o.refused[p] != "" && o.letters[p] == 0 && !o.refusedErased(p) {
			o.b.fail("offset %d of partition %d is committed, and record %d, which is refused, has no dead letter", c.Offset,
				partition, at)
			return
		}
		o.checked[partition] = at + 1
	}
	j, _ := journal.ParseCommit(c.Metadata)
	o.b.carries(a, partition, &j)
	o.nextOwner(partition)
	for p := (place{partition, c.Offset}); p.offset < min(j.F, int64(len(o.expected[partition]))); p.offset++ {
		x := o.expected[partition][p.offset]
		for i, s := range x.series {
			if !o.isStored(x.first+int64(i), s, p) && !o.isJournaled(s, p, &j) {
				o.b.fail("a commit of partition %d counts on all below %d (F), and %v of record %d is neither stored nor in a "+
					"block of the journal from %d to %d", partition, j.F, s, p.offset, j.From, j.To)
				return
			}
		}
		if o.refused[p] != "" && o.letters[p] == 0 && !o.refusedErased(p) {
			o.b.fail("a commit of partition %d counts on all below %d (F), and record %d, which is refused, has no dead letter",
				partition, j.F, p.offset)
			return
		}
	}
}

// isStored reports whether a version of a value is stored, erased or refused. The caller holds mu.
func (o *oracle) isStored(number int64, s series, at place) bool {
	return o.isInChunk(s, at.offset) || !o.erased(s, at).IsZero() || o.isDecided(number)
}

// isInChunk reports whether a version of a value, or a newer one, is in a chunk. The caller holds mu.
func (o *oracle) isInChunk(s series, offset int64) bool {
	at, ok := o.through[s.stored()]
	return ok && at.Through >= offset
}

// compare holds what a complete answer promises: everything that was acknowledged when it began, if it is strict, what
// a complete answer has shown before, and nothing that was not produced.
func (o *oracle) compare(q *querier, asked question, got map[series]telemetry.Value, begun int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	devices := asked.Devices
	if devices == nil {
		devices = o.b.devicesOf(asked.Tenant)
	}
	if asked.isLatest {
		o.compareLatest(q, asked, got, begun, devices)
		return
	}
	seen := 0
	for _, device := range devices {
		for _, s := range o.byDevice[device] {
			if !asked.covers(s) {
				continue
			}
			v, ok := got[s]
			if ok {
				seen++
			}
			o.compareOne(q, asked, s, v, ok, begun)
		}
	}
	if seen != len(got) {
		for s := range got {
			if o.versions[s] == nil {
				o.b.fail("%s: a complete answer to %s has %v, which nobody sent", q.name, asked, s)
				return
			}
		}
		o.b.fail("%s: a complete answer to %s has values of others", q.name, asked)
	}
}

// compareOne holds one value of a complete answer.
func (o *oracle) compareOne(q *querier, asked question, s series, v telemetry.Value, ok bool, begun int64) {
	has := int64(0)
	for _, x := range o.versions[s] {
		if ok && x.value == v {
			has = x.number
		}
	}
	owed := o.owed(q, asked, s, begun, has)
	if !ok {
		if owed > 0 {
			o.b.fail("%s: a complete answer to %s lacks %v", q.name, asked, s)
		}
		return
	}
	for _, x := range o.versions[s] {
		if x.value == v {
			if o.isGone(q, s, x) {
				o.b.fail("%s: an answer to %s has version %d of %v, which was erased before", q.name, asked, x.number, s)
			}
			if o.mustHide(s, q.asked.Add(-hiddenWithin)) {
				o.b.fail("%s: an answer to %s has %v, which was hidden before", q.name, asked, s)
			}
			if x.number < owed {
				o.b.fail("%s: a complete answer to %s has an old value of %v: version %d, and %d is owed", q.name, asked, s,
					x.number, owed)
			}
			q.shown[s] = max(q.shown[s], x.number)
			return
		}
	}
	o.b.fail("%s: a complete answer to %s has %v for %v, which nobody sent", q.name, asked, v, s)
}

// owed returns the number of the oldest version that a complete answer may have for a value, 0 if it may have none:
// what was acknowledged when a strict one began, or shown before, but for what is erased.
func (o *oracle) owed(q *querier, asked question, s series, begun, has int64) (owed int64) {
	for _, x := range o.versions[s] {
		isOwed := x.isOwedCopy(q)
		if x.copied.IsZero() {
			isOwed = x.number == q.shown[s] || x.number <= q.taken[x.partition] || asked.Strict && x.number <= begun
		}
		if isOwed && !o.isErased(s, x) && !o.mayHide(s) && (x.number <= has || !o.mayLack(q, s, x)) {
			owed = max(owed, x.number)
		}
	}
	return owed
}

// compareLatest holds a complete answer with the newest value of each series: none is older than the newest that is
// owed.
func (o *oracle) compareLatest(q *querier, asked question, got map[series]telemetry.Value, begun int64,
	devices []string) {
	type one struct{ device, labels, metric string }
	answered := map[one]int64{}
	for s, v := range got {
		if o.versions[s] == nil || !asked.Range.Contains(s.time) {
			o.b.fail("%s: a complete answer to %s has %v, which nobody sent", q.name, asked, s)
			return
		}
		o.compareOne(q, asked, s, v, true, begun)
		answered[one{s.device, s.labels, s.metric}] = s.time + 1
	}
	for _, device := range devices {
		for _, s := range o.byDevice[device] {
			at := answered[one{s.device, s.labels, s.metric}]
			if asked.Range.Contains(s.time) && at <= s.time && o.owed(q, asked, s, begun, 0) > 0 {
				o.b.fail("%s: a complete answer to %s has nothing as new as %v", q.name, asked, s)
				return
			}
		}
	}
}

// String describes a question.
func (q question) String() string {
	kind := "readings"
	if q.isLatest {
		kind = "latest"
	}
	return fmt.Sprintf("%s of %s %v from %d to %d, strict %t, after %v up to %v", kind, q.Tenant, q.Devices, q.Range.From,
		q.Range.To, q.Strict, q.after, q.last)
}

// settled holds, at the end, that the store has what was acknowledged, each once, and each refused record a dead
// letter.
func (o *oracle) settled() {
	stored := o.b.stores.Stored()
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := 0
	for s, all := range o.versions {
		last, ok := o.last(s, all)
		if !ok || o.mayHide(s) {
			continue
		}
		kept++
		if v, ok := stored[s.stored()]; !ok || v != last.value {
			o.b.fail("at the end the store has %v for %v instead of %v (found %t)", v, s, last.value, ok)
			return
		}
	}
	if len(stored) != kept && !o.b.retaining.on {
		o.b.fail("at the end the store has %d values instead of %d: %v", len(stored), kept, o.surplus(stored))
	}
	for at, why := range o.refused {
		if o.letters[at] == 0 && !o.refusedErased(at) {
			o.b.fail("record %d of partition %d (%s) has no dead letter", at.offset, at.partition, why)
		}
	}
	readings := 0
	for _, h := range o.b.stores.Headers() {
		if tenant, _, _ := strings.Cut(h.TenantShard, "~"); !o.mayHide(series{tenant: tenant, device: h.Device,
			time: h.ID.Day.Start()}) {
			readings += h.Readings
		}
	}
	if kept := o.keptReadings(); readings != kept {
		o.b.fail("at the end chunks have %d readings, and %d were accepted", readings, kept)
	}
	if !o.b.retaining.on {
		o.b.stores.CheckChains()
	}
}

// surplus returns what is stored although it is erased, or although nobody sent it. The caller holds mu.
func (o *oracle) surplus(stored map[ingesttest.Series]telemetry.Value) (out []string) {
	for s, all := range o.versions {
		if _, ok := o.last(s, all); ok {
			delete(stored, s.stored())
			continue
		}
		if v, ok := stored[s.stored()]; ok {
			out = append(out, fmt.Sprintf("%v of %v in %v", v, s, all))
		}
	}
	return out
}
