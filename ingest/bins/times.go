package bins

import (
	"binnacle/binning"
	"binnacle/ingest/journal"
	"binnacle/ingest/queue"
	"math"
	"time"
)

// carriedTimes keeps in the journal the first and last times of stored rows that the catalog lacks (rule J8). The
// catalog follows with the times of a device once a week, and a stored row is in no block that counts: without this a
// crash would forget its time. So a chunk that widens the known times of its device holds back both floors, and the
// blocks of its rows still count, until a record with the device's times is in the journal. That record counts until
// the catalog has those times, or a later record does.
type carriedTimes struct {
	on     bool // there is a journal, and the catalog does not follow with every chunk
	blocks *journal.BlockIndex
	every  time.Duration // after so long a record is written again, so that a takeover need not read far back

	owed  queue.Heap[*OwedTimes] // ordered by the offset that they hold back
	loose queue.Heap[*OwedTimes] // ordered by the offset of rows that are in no block
	held  queue.Heap[*Device]    // devices with a record that counts, by its offset

	marks []Marked // how far the journal was, the oldest first
	End   int64    // end of the journal, as far as it is known
}

// OwedTimes are times of stored rows of a device that neither the catalog nor a record of the journal has.
type OwedTimes struct {
	Device *Device
	Times  Span
	from   int64   // lowest offset of such a row; math.MaxInt64 for none that could be read again
	loose  int64   // lowest offset of a row in no block of the journal; math.MaxInt64 for none
	blocks []int64 // offsets of the journal's blocks that count until then

	place, loosePlace int32
	sent              bool // it is in the append in flight
}

const nothingHeld = math.MaxInt64

func newCarriedTimes(cfg *Config, blocks *journal.BlockIndex) carriedTimes {
	return carriedTimes{
		on: cfg.Journal && cfg.CatalogEvery >= 0, blocks: blocks, every: cfg.Hold,
		owed: queue.NewHeap(func(o *OwedTimes) *int32 { return &o.place },
			func(o *OwedTimes) int64 { return o.from }),
		loose: queue.NewHeap(func(o *OwedTimes) *int32 { return &o.loosePlace },
			func(o *OwedTimes) int64 { return o.loose }),
		held: queue.NewHeap(func(d *Device) *int32 { return &d.carriedPlace },
			func(d *Device) int64 { return d.carriedAt }),
	}
}

// Floor returns the lowest offset of a stored row with a time that is nowhere yet; ok is false for none.
func (x *carriedTimes) Floor() (offset int64, ok bool) {
	if x.owed.Len() == 0 {
		return 0, false
	}
	return x.owed.First().from, true
}

// JournalFloor returns the lowest offset of such a row that no block has.
func (x *carriedTimes) JournalFloor() (offset int64, ok bool) {
	if x.loose.Len() == 0 {
		return 0, false
	}
	return x.loose.First().loose, true
}

// StoredRows are rows that are stored: those from first to through, or none that could be read again if that is lower.
type StoredRows struct {
	First, Through int64
	Times          Span
}

// Stored records that rows of a chain are stored. All times that were seen of the device are owed then: rows that a
// lookup or a conflict finds to be stored may lie in chunks before the tail, and only the times of the tail are read.
func (x *carriedTimes) Stored(c *Chain, rows StoredRows) {
	seen := rows.Times
	if first, last, ok := c.Device.Times(); ok {
		seen = seen.with(Span{first, last})
	}
	if !x.on || c.Device.hasTimes(seen) {
		return
	}
	o := x.owe(c.Device, seen)
	if rows.First <= rows.Through {
		o.from = min(o.from, rows.First)
	}
	if after := c.Journaled.Through; max(after+1, rows.First) <= rows.Through {
		o.loose = min(o.loose, max(rows.First, after+1))
	}
	x.file(o)
}

func (x *carriedTimes) owe(d *Device, times Span) *OwedTimes {
	o := d.owed
	if o == nil {
		o = &OwedTimes{Device: d, Times: times, from: nothingHeld, loose: nothingHeld}
		d.owed = o
	}
	o.Times = o.Times.with(times)
	x.file(o)
	return o
}

func (x *carriedTimes) file(o *OwedTimes) {
	x.owed.Put(o)
	x.loose.Put(o)
}

// keep makes a block of a chain count until the times of its device are carried, and reports whether that is needed.
func (x *carriedTimes) keep(d *Device, block int64) bool {
	o := d.owed
	if o == nil {
		return false
	}
	o.blocks = append(o.blocks, block)
	return true
}

// Settled lets go of what the catalog has of a device now.
func (x *carriedTimes) Settled(d *Device) {
	if d.carriedAt != noOffset && d.isListed(d.carried) {
		x.drop(d)
	}
	if o := d.owed; o != nil && d.hasTimes(o.Times) {
		d.owed = nil
		x.release(o)
	}
}

// drop gives up the record of a device.
func (x *carriedTimes) drop(d *Device) {
	if d.carriedAt != noOffset {
		x.blocks.Remove(d.carriedAt)
		x.held.Remove(d)
		d.carriedAt = noOffset
	}
}

// Forget drops all times of an erased device, whether carried or owed. Those in flight are dropped when they arrive.
func (x *carriedTimes) Forget(d *Device) {
	x.drop(d)
	if o := d.owed; o != nil {
		d.owed = nil
		x.release(o)
	}
}

// Show adds the times that are carried or owed to what was seen of a device.
func (x *carriedTimes) Show(d *Device) {
	if d.carriedAt != noOffset {
		d.Spans(d.carried.From, d.carried.To)
	}
	if o := d.owed; o != nil {
		d.Spans(o.Times.From, o.Times.To)
	}
}

func (x *carriedTimes) release(o *OwedTimes) {
	x.owed.Remove(o)
	x.loose.Remove(o)
	for _, at := range o.blocks {
		x.blocks.Remove(at)
	}
}

// Take returns owed times for an append to carry, as many as there is room for.
func (x *carriedTimes) Take(room int) (out []*OwedTimes) {
	x.owed.UpTo(func(o *OwedTimes) bool { return len(out) < room }, func(o *OwedTimes) {
		if !o.sent && len(out) < room {
			out = append(out, o)
		}
	})
	for _, o := range out {
		o.sent = true
		o.Device.owed = nil // times of rows stored from now on go with the next append
	}
	return out
}

// Carry ends what was owed: a record at an offset of the journal has the times.
func (x *carriedTimes) Carry(o *OwedTimes, at int64) {
	d := o.Device
	x.release(o)
	if !d.hasSeen(o.Times) || d.isListed(o.Times) {
		x.blocks.Remove(at)
		return
	}
	if d.carriedAt != noOffset && !o.Times.contains(d.carried) { // the next record has both
		both := x.owe(d, o.Times.with(d.carried))
		both.blocks = append(both.blocks, at)
		return
	}
	x.adopt(d, o.Times, at)
}

// adopt replaces the device's record by another one.
func (x *carriedTimes) adopt(d *Device, times Span, at int64) {
	x.drop(d)
	d.carried, d.carriedAt = times, at
	x.held.Put(d)
}

// Failed takes the times of a failed append back.
func (x *carriedTimes) Failed(o *OwedTimes) {
	o.sent = false
	d := o.Device
	if !d.hasSeen(o.Times) {
		x.release(o)
		return
	}
	if newer := d.owed; newer != nil {
		o.Times, o.from, o.loose = o.Times.with(newer.Times), min(o.from, newer.from), min(o.loose, newer.loose)
		o.blocks = append(o.blocks, newer.blocks...)
		x.owed.Remove(newer)
		x.loose.Remove(newer)
	}
	d.owed = o
	x.file(o)
}

// Lost owes the times of a device again: the journal has lost its records.
func (x *carriedTimes) Lost(d *Device) {
	if o := d.owed; o != nil { // an append may have no room for all
		o.blocks, o.loose = nil, o.from
		x.file(o)
	}
	if d.carriedAt != noOffset {
		x.held.Remove(d)
		d.carriedAt = noOffset
		x.owe(d, d.carried)
	}
}

// TimesRecord is times of a device and the offset in the journal at which they stand.
type TimesRecord struct {
	Times Span
	At    int64
}

// Load adopts a record of the journal, of a device that may have another one. A record below old is written again.
func (x *carriedTimes) Load(d *Device, r TimesRecord, old int64) {
	times, at := r.Times, r.At
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

// Renew owes the times of a record once more when the record is so old that it alone makes a takeover read far back.
func (x *carriedTimes) Renew(now time.Time) {
	if n := len(x.marks); n == 0 || now.Sub(x.marks[n-1].At) >= x.every/8 {
		x.marks = append(x.marks, Marked{now, x.End})
	}
	for len(x.marks) > 1 && now.Sub(x.marks[1].At) >= x.every {
		x.marks = x.marks[1:]
	}
	if now.Sub(x.marks[0].At) < x.every {
		return
	}
	for n := 0; n < MaxAppendBlocks && x.held.Len() > 0 && x.held.First().carriedAt < x.marks[0].Position; n++ {
		d := x.held.First()
		o := x.owe(d, d.carried)
		o.blocks = append(o.blocks, d.carriedAt)
		x.held.Remove(d)
		d.carriedAt = noOffset
	}
}

// Each visits the devices with times that wait to be carried.
func (x *carriedTimes) Each(visit func(*Device)) {
	x.owed.UpTo(func(*OwedTimes) bool { return true }, func(o *OwedTimes) { visit(o.Device) })
}

// with returns the least span that has both.
func (s Span) with(t Span) Span { return Span{min(s.From, t.From), max(s.To, t.To)} }

func (s Span) contains(t Span) bool { return s.From <= t.From && s.To >= t.To }

// hasSeen reports whether times lie within what was seen of the device. An erasure takes back what was seen.
func (d *Device) hasSeen(times Span) bool {
	first, last, ok := d.Times()
	return ok && Span{first, last}.contains(times)
}

// isListed reports whether the catalog has times of the device that span others.
func (d *Device) isListed(times Span) bool {
	first, last, ok := d.Listed()
	return ok && Span{first, last}.contains(times)
}

// hasTimes reports whether times lie within what the catalog and the journal's record have of the device.
func (d *Device) hasTimes(times Span) bool {
	if d.carriedAt == noOffset {
		return d.isListed(times)
	}
	known := d.carried
	if first, last, ok := d.Listed(); ok {
		known = known.with(Span{first, last})
	}
	return known.contains(times)
}

// TimesOfRows returns the times of a bin's rows.
func TimesOfRows(rows *binning.Bin) Span {
	from, to := rows.Span()
	return Span{from, to}
}

// Marked is the position at some time.
type Marked struct {
	At       time.Time
	Position int64
}

// MaxAppendBlocks bounds the blocks of an append.
const MaxAppendBlocks = 4096
