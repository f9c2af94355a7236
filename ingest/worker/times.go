package worker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/ingest/journal"
	"binnacle/ingest/queue"
	"binnacle/internal/telemetry"
)

// carriedTimes keeps in the journal the first and last times of stored rows that the catalog lacks (rule J8). The
// catalog follows with the times of a device once a week, and a stored row is in no block that counts: without this a
// crash would forget its time. So a chunk that widens what is known of its device holds back both floors, and the
// blocks of its rows still count, until a record with the device's times is in the journal. That record counts until
// the catalog has those times, or a later record does.
type carriedTimes struct {
	on     bool // there is a journal, and the catalog does not follow with every chunk
	blocks *journal.BlockIndex
	every  time.Duration // after so long a record is written again, so that a takeover need not read far back

	owed  queue.Heap[*owedTimes] // by the offset that they hold back
	loose queue.Heap[*owedTimes] // by the offset of rows that are in no block
	held  queue.Heap[*device]    // with a record that counts, by its offset

	marks []marked // how far the journal was, the oldest first
	end   int64    // of the journal, as far as is known
}

// owedTimes are times of stored rows of a device that neither the catalog nor a record of the journal has.
type owedTimes struct {
	device *device
	times  span
	from   int64   // lowest offset of such a row; math.MaxInt64 for none that could be read again
	loose  int64   // of one that is in no block of the journal; math.MaxInt64 for none
	blocks []int64 // of the journal, which count until then

	place, loosePlace int32
	sent              bool // in the append in flight
}

const nothingHeld = math.MaxInt64

func newCarriedTimes(cfg *Config, blocks *journal.BlockIndex) carriedTimes {
	return carriedTimes{
		on: cfg.Journal && cfg.CatalogEvery >= 0, blocks: blocks, every: cfg.Hold,
		owed: queue.NewHeap(func(o *owedTimes) *int32 { return &o.place },
			func(a, b *owedTimes) bool { return a.from < b.from }),
		loose: queue.NewHeap(func(o *owedTimes) *int32 { return &o.loosePlace },
			func(a, b *owedTimes) bool { return a.loose < b.loose }),
		held: queue.NewHeap(func(d *device) *int32 { return &d.carriedPlace },
			func(a, b *device) bool { return a.carriedAt < b.carriedAt }),
	}
}

// floor returns the lowest offset of a stored row with a time that is nowhere yet; ok is false for none.
func (x *carriedTimes) floor() (offset int64, ok bool) {
	if x.owed.Len() == 0 {
		return 0, false
	}
	return x.owed.First().from, true
}

// journalFloor returns the lowest offset of such a row that no block has.
func (x *carriedTimes) journalFloor() (offset int64, ok bool) {
	if x.loose.Len() == 0 {
		return 0, false
	}
	return x.loose.First().loose, true
}

// storedRows are rows that are stored: those from first to through, or none that could be read again if that is lower.
type storedRows struct {
	first, through int64
	times          span
}

// stored records that rows of a chain are stored. All times that were seen of the device are owed then: rows that a
// lookup or a conflict finds to be stored may lie in chunks before the tail, and only the times of the tail are read.
func (x *carriedTimes) stored(c *chain, rows storedRows) {
	seen := rows.times
	if first, last, ok := c.device.Times(); ok {
		seen = seen.with(span{first, last})
	}
	if !x.on || c.device.hasTimes(seen) {
		return
	}
	o := x.owe(c.device, seen)
	if rows.first <= rows.through {
		o.from = min(o.from, rows.first)
	}
	if after := c.journaled.through; max(after+1, rows.first) <= rows.through {
		o.loose = min(o.loose, max(rows.first, after+1))
	}
	x.file(o)
}

// owe has times carried by the next append.
func (x *carriedTimes) owe(d *device, times span) *owedTimes {
	o := d.owed
	if o == nil {
		o = &owedTimes{device: d, times: times, from: nothingHeld, loose: nothingHeld}
		d.owed = o
	}
	o.times = o.times.with(times)
	x.file(o)
	return o
}

func (x *carriedTimes) file(o *owedTimes) {
	x.owed.Put(o)
	x.loose.Put(o)
}

// keep has a block of a chain count until the times of its device are carried, and reports whether that is needed.
func (x *carriedTimes) keep(d *device, block int64) bool {
	o := d.owed
	if o == nil {
		return false
	}
	o.blocks = append(o.blocks, block)
	return true
}

// settled lets go of what the catalog has of a device now.
func (x *carriedTimes) settled(d *device) {
	if d.carriedAt != noOffset && d.isListed(d.carried) {
		x.drop(d)
	}
	if o := d.owed; o != nil && d.hasTimes(o.times) {
		d.owed = nil
		x.release(o)
	}
}

// drop gives up the record of a device.
func (x *carriedTimes) drop(d *device) {
	if d.carriedAt != noOffset {
		x.blocks.Remove(d.carriedAt)
		x.held.Remove(d)
		d.carriedAt = noOffset
	}
}

// forget gives up all that is carried, or is to be, of a device that was erased.
func (x *carriedTimes) forget(d *device) {
	x.drop(d)
	if o := d.owed; o != nil {
		d.owed = nil
		x.release(o)
	}
}

func (x *carriedTimes) release(o *owedTimes) {
	x.owed.Remove(o)
	x.loose.Remove(o)
	for _, at := range o.blocks {
		x.blocks.Remove(at)
	}
}

// take returns what is to be carried by an append, as many as there is room for.
func (x *carriedTimes) take(room int) (out []*owedTimes) {
	x.owed.UpTo(func(o *owedTimes) bool { return len(out) < room }, func(o *owedTimes) {
		if !o.sent && len(out) < room {
			out = append(out, o)
		}
	})
	for _, o := range out {
		o.sent = true
		o.device.owed = nil // what is stored from now on goes with the next append
		if o.device.carriedAt != noOffset {
			o.times = o.times.with(o.device.carried)
		}
	}
	return out
}

// carry ends what was owed: a record at an offset of the journal has the times.
func (x *carriedTimes) carry(o *owedTimes, at int64) {
	d := o.device
	x.release(o)
	if d.isListed(o.times) {
		x.blocks.Remove(at)
		return
	}
	if d.carriedAt != noOffset && !o.times.contains(d.carried) { // loaded meanwhile: the next record has both
		both := x.owe(d, o.times)
		both.blocks = append(both.blocks, at)
		return
	}
	x.adopt(d, o.times, at)
}

// adopt has a record take the place of the one that a device had.
func (x *carriedTimes) adopt(d *device, times span, at int64) {
	x.drop(d)
	d.carried, d.carriedAt = times, at
	x.held.Put(d)
}

// failed takes the times of a failed append back.
func (x *carriedTimes) failed(o *owedTimes) {
	o.sent = false
	d := o.device
	if newer := d.owed; newer != nil {
		o.times, o.from, o.loose = o.times.with(newer.times), min(o.from, newer.from), min(o.loose, newer.loose)
		o.blocks = append(o.blocks, newer.blocks...)
		x.owed.Remove(newer)
		x.loose.Remove(newer)
	}
	d.owed = o
	x.file(o)
}

// lost has the times of a device carried anew: the journal has lost its records.
func (x *carriedTimes) lost(d *device) {
	if d.owed != nil {
		d.owed.blocks = nil
	}
	if d.carriedAt != noOffset {
		x.held.Remove(d)
		d.carriedAt = noOffset
		x.owe(d, d.carried)
	}
}

// timesRecord is times of a device and the offset in the journal at which they stand.
type timesRecord struct {
	times span
	at    int64
}

// load adopts a record of the journal, of a device that may have another one. A record below old is written again.
func (x *carriedTimes) load(d *device, r timesRecord, old int64) {
	times, at := r.times, r.at
	if !x.on || d.carriedAt == at || d.isListed(times) {
		return
	}
	x.blocks.Loaded(at)
	if (d.carriedAt == noOffset || times.contains(d.carried) && at > d.carriedAt) && at >= old {
		x.adopt(d, times, at)
		return
	}
	o := x.owe(d, times)
	o.blocks = append(o.blocks, at)
}

// renew has records written again that are so old that they alone make a takeover read far back.
func (x *carriedTimes) renew(now time.Time) {
	if n := len(x.marks); n == 0 || now.Sub(x.marks[n-1].at) >= x.every/8 {
		x.marks = append(x.marks, marked{now, x.end})
	}
	for len(x.marks) > 1 && now.Sub(x.marks[1].at) >= x.every {
		x.marks = x.marks[1:]
	}
	if now.Sub(x.marks[0].at) < x.every {
		return
	}
	for n := 0; n < maxAppendBlocks && x.held.Len() > 0 && x.held.First().carriedAt < x.marks[0].position; n++ {
		d := x.held.First()
		o := x.owe(d, d.carried)
		o.blocks = append(o.blocks, d.carriedAt)
		x.held.Remove(d)
		d.carriedAt = noOffset
	}
}

// each visits the devices with times that are to be carried.
func (x *carriedTimes) each(visit func(*device)) {
	x.owed.UpTo(func(*owedTimes) bool { return true }, func(o *owedTimes) { visit(o.device) })
}

// with returns the least span that has both.
func (s span) with(t span) span { return span{min(s.from, t.from), max(s.to, t.to)} }

func (s span) contains(t span) bool { return s.from <= t.from && s.to >= t.to }

// isListed reports whether the catalog has times of the device that span others.
func (d *device) isListed(times span) bool {
	first, last, ok := d.Listed()
	return ok && span{first, last}.contains(times)
}

// hasTimes reports whether times lie within what the catalog and the journal's record have of the device.
func (d *device) hasTimes(times span) bool {
	if d.carriedAt == noOffset {
		return d.isListed(times)
	}
	known := d.carried
	if first, last, ok := d.Listed(); ok {
		known = known.with(span{first, last})
	}
	return known.contains(times)
}

// addTimes adds records with times of devices to an append.
func (w *Worker) addTimes(a *Append) {
	for _, o := range w.journal.times.take(maxAppendBlocks - len(a.sent)) {
		r := journal.Record{
			Stream: w.stream, Tenant: o.device.tenant.Name, Device: o.device.ID, Day: telemetry.DayOf(o.times.to),
			From: o.times.from, To: o.times.to,
		}
		if chains := o.device.chains; len(chains) > 0 { // a process that loads it need not look up the tail
			c := slices.MaxFunc(chains, func(a, b *chain) int { return cmp.Compare(a.day, b.day) })
			r.Day, r.Tail = c.day, c.journalTail(w.generation)
		}
		if w.journal.add(a, &r, sentBlock{times: o}) != added {
			w.journal.times.failed(o)
		}
	}
}

// LoadTimes takes a record of the journal that another process has appended while the partition was away.
func (w *Worker) LoadTimes(at int64, r *journal.Record) {
	if r.Rows > 0 || r.Stream != w.stream {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loadTimes(at, r, 0)
}

func (w *Worker) loadTimes(at int64, r *journal.Record, old int64) {
	d := w.registry.device(r.Tenant, r.Device)
	d.Spans(r.From, r.To)
	w.journal.times.load(d, timesRecord{span{r.From, r.To}, at}, old)
	w.forgetUnused(d)
}

// timesOfRows returns the times of a bin's rows.
func timesOfRows(rows *binning.Bin) span {
	from, to := rows.Span()
	return span{from, to}
}
