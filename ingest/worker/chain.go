package worker

import (
	"math"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest/admit"
	"binnacle/ingest/journal"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Reason says why a bin was cut. The zero Reason is none.
type Reason uint8

// The reasons for a cut.
const (
	CutSize   Reason = iota + 1 // the document has reached its target
	CutHold                     // the oldest reading has waited long enough
	CutMemory                   // memory is short, and this was among the fullest bins
	CutBehind                   // the bin held back the committed offset for too long
	CutDrain                    // shutdown
	CutBulky                    // the journal has no room for one of the readings
)

// String returns the word for a reason.
func (r Reason) String() string {
	return [...]string{"", "size", "hold", "memory", "behind", "drain", "bulky"}[r]
}

// nanos is a time of the wall clock in ns since 1970: a third of a time.Time, of which each chain would have several.
// Times that stand in the index are all nanos: time.Time compares by the monotonic clock where both times have it, and
// the two clocks are some milliseconds apart where a thread was preempted between its looks at them.
type nanos int64

func nanosOf(t time.Time) nanos { return nanos(t.UnixNano()) }

func (n nanos) time() time.Time { return time.Unix(0, int64(n)) }

// chain is the open bin of a device and day, and what is known of the chunks before it. It goes from phase to phase by
// the methods below and by nothing else. The Worker decides which is called when, and files the chain anew afterwards.
//
//	       take             ask              look
//	idle ────────▶ filling ──────▶ asked ─────────────▶ looking
//	 ▲              ▲  ▲           │ │ ▲ │                │
//	 │              │  └── spare ──┘ │ │ │ seal           │
//	 │              │                │ │ ▼                │
//	 │              │            cut │ │ sealed           │
//	 │              │                │ │ │ release        │
//	 │              │                ▼ └─┘                │
//	 │              │             creating                │
//	 │              │                │ ▲                  │
//	 │              │           fail │ │ resume           │
//	 │              │                ▼ │                  │
//	 │              │     publishing ◀▶ stalled ◀─────────┘ fail; resume: asked
//	 │              │           │  published
//	 │              │                │                    │
//	 │ no rows      │ rows           │ stored, conflict   │ found
//	 └──────────────┴── (settle) ────┴────────────────────┘
//	                     └▶ asked: rows that are to be cut
//
// A chunk that the store will never take goes from stalled to publishing: its rows become dead letters, and the number
// stays free. Readings are taken in every phase. A reason to cut that comes while something is under way counts when
// that has settled.
type chain struct {
	device     *device
	day        telemetry.Day
	generation uint32 // of the Worker's, in which number and tail were learnt: only there they are known
	period     telemetry.Day
	trial      int32 // values from which on the next trial encoding is worth while
	phase      phase
	want       Reason // why the bin is to be cut, 0 if it is not
	full       bool   // its partition key was found full, which has been said
	begun      bool   // a bin has been opened since the chain is known here
	queued     bool   // period is set: it stays the same for as long as the chain is known here

	// What the head shows: these change under the Worker's lock.
	number uint32 // of the next chunk
	every  int32  // ms between two readings of the last chunk that was stored; 0 where that is not known
	bin    binning.Bin
	flight *flight // while creating or publishing, and what is to be created or published again when stalled
	linger []lingering
	tail   int64  // through of the last one, -1 none
	span   span   // of the last one
	stored uint64 // the worker's count when the last one became known

	due    nanos  // when the bin is cut at the latest, or the last one was to be
	budget int64  // records that the bin may hold back the committed offset (rule W7)
	first  int64  // lowest offset that the chain holds back from being committed, while it has rows that are not stored
	stall  *stall // after an attempt to look up, to create or to publish has failed
	used   int64  // ms since 1970

	// Rows up to here were loaded from the journal, and they or later ones may be stored since: heads show each
	// block of them by itself, or they would look newer than what was stored after them (rule R5).
	loaded int64

	// A cut that must wait for dead letters takes rows up to here, unsealed for all: else later ones would put it off
	// for ever.
	seal int64

	// A cut that waits for a newer snapshot takes the rows below this offset.
	fresh int64

	// The time of the wall clock, in ms, when the first of seal and fresh was set for these rows: rows that such a cut
	// leaves in the bin came later.
	chosenAt int64

	filing    filing
	journaled journaled
}

// span is the first and last instant of a chunk, both inclusive.
type span struct{ from, to int64 }

// phase is where a chain stands on the way from readings to a chunk.
type phase uint8

const (
	idle       phase = iota // no rows that are not stored; what is known of the tail
	filling                 // rows, and no reason yet to cut them
	asked                   // rows that are to be cut, as soon as nothing stands in the way
	sealed                  // as asked, and dead letters below the last row are not acknowledged yet (rule W5)
	looking                 // as asked, and the tail is being looked up (rule W3)
	creating                // a chunk is being created (rule W6)
	stalled                 // an attempt has failed, or would: it is to be made again later
	publishing              // rows of a chunk that the store will never take are on their way to the dead letters
)

// flight is a chunk that is being created.
type flight struct {
	rows     binning.Bin
	id       chunk.ID
	key      sharding.Key
	doc      []byte
	reason   Reason
	rejected string // why it goes to the dead letters, empty while it may be created
}

// lingering is rows that are known to be stored since a moment ago: a replica that lags may not have them yet.
type lingering struct {
	rows   binning.Bin
	until  nanos
	others bool // another process has stored them, as far as is known
}

// lingers is how rows linger: from now until later, with the schemas of their blocks.
type lingers struct {
	now, until time.Time
	schemas    *binning.Schemas
}

const unsealed = -1

func newChain(d *device, day telemetry.Day) *chain {
	unknown := journaled{through: -1, under: -1, loose: noOffset}
	return &chain{device: d, day: day, tail: -1, seal: unsealed, loaded: -1, journaled: unknown}
}

// key names the chain.
func (c *chain) key() admit.Chain {
	return admit.Chain{Tenant: c.device.tenant.Name, Device: c.device.ID, Day: c.day}
}

// take puts a reading into the bin, which is due then if it was empty. The caller holds the lock.
// It reports whether the bin has a reading with the same columns and labels already.
func (c *chain) take(offset int64, r *telemetry.Reading, due time.Time) (repeats bool) {
	if c.bin.Readings() == 0 {
		c.due, c.trial, c.begun = nanosOf(due), 0, true
	}
	repeats = c.bin.Append(offset, *r)
	if c.phase == idle {
		c.phase, c.first = filling, offset
	}
	return repeats
}

// ripe returns how many open rows of the bin become a block.
func (c *chain) ripe() int {
	if len(c.bin.Blocks()) == 0 {
		return binning.FirstBlock(c.device.ID)
	}
	return binning.BlockRows
}

// ask returns a reason to cut the bin, if it has rows; the first reason counts. It reports whether the chain waits to
// be cut from now on.
func (c *chain) ask(why Reason) bool {
	if c.want == 0 && c.bin.Readings() > 0 {
		c.want = why
	}
	if c.phase != filling || c.want == 0 {
		return false
	}
	c.phase = asked
	return true
}

// reopen leaves the rows in the bin, which was thought full and is not, until it has trial values.
func (c *chain) reopen(trial int) {
	c.phase, c.want, c.trial, c.seal = filling, 0, int32(trial), unsealed
}

// sealUpto lets the cut wait for dead letters, with no rows above an offset.
func (c *chain) sealUpto(offset int64, now time.Time) {
	if c.seal == unsealed {
		if c.fresh <= c.bin.First() { // else the cut has waited for a snapshot
			c.chosenAt = now.UnixMilli()
		}
		c.seal = offset
	}
	c.phase = sealed
}

// release ends the wait for dead letters.
func (c *chain) release() { c.phase = asked }

// look has the tail looked up.
func (c *chain) look() { c.phase = looking }

// cut takes rows out of the bin to be created as a chunk; rest is what the bin has then. The caller holds the lock.
func (c *chain) cut(f *flight, rest binning.Bin) {
	c.phase, c.flight, c.bin = creating, f, rest
	c.want, c.trial = 0, 0
	if c.bin.Readings() == 0 {
		c.seal = unsealed
	}
}

// fail records that the attempt in flight has failed, or that one would fail. The caller holds the lock.
func (c *chain) fail(f Fault, now time.Time) {
	if c.stall == nil {
		c.stall = &stall{since: nanosOf(now)}
	}
	c.phase, c.stall.fault, c.stall.ready = stalled, f, false
}

// rejectFlight records why the rows in flight will never be stored. The caller holds the lock.
func (c *chain) rejectFlight(why string, now time.Time) {
	c.flight.rejected = why
	c.fail(Rejected, now)
	c.stall.ready = true
}

// doomed reports whether the rows in flight wait for their dead letters.
func (c *chain) doomed() bool { return c.flight != nil && c.flight.rejected != "" }

// resumes reports whether the chain has stalled and its time has come.
func (c *chain) resumes() bool { return c.phase == stalled && c.stall.ready && !c.doomed() }

// abandon takes rows out of the bin that are to become dead letters; rest is what stays. The caller holds the lock.
func (c *chain) abandon(rows, rest binning.Bin) {
	c.flight, c.bin = &flight{rows: rows}, rest
	if c.bin.Readings() == 0 {
		c.want, c.seal = 0, unsealed
	}
}

// resume goes on where the chain has stalled.
func (c *chain) resume() {
	c.stall.ready = false
	switch {
	case c.flight == nil:
		c.phase = asked
	case c.doomed():
		c.phase = publishing
	default:
		c.phase = creating
	}
}

// published ends the flight: its dead letters are acknowledged. The caller holds the lock.
func (c *chain) published(now time.Time) {
	c.flight, c.used = nil, now.UnixMilli()
	c.unseal()
	c.finish()
}

// created ends the flight: its chunk is in the store, and its rows linger. The caller holds the lock.
func (c *chain) created(now, until time.Time) {
	rows := c.flight.rows
	c.linger = append(c.linger, lingering{rows: rows, until: nanosOf(until)})
	c.number, c.tail, c.used = c.number+1, rows.Through(), now.UnixMilli()
	c.span.from, c.span.to = rows.Span()
	c.every = int32((c.span.to - c.span.from) / int64(max(1, rows.Readings()-1)))
	c.flight = nil
	c.finish()
}

// conflict ends the flight: another process has stored a chunk with its number. Rows of that chunk linger, and so do
// others below settled, where all are stored. The rest go back to the bin, which is to be cut. It fails when a shelf
// has lost rows. The caller holds the lock.
func (c *chain) conflict(tail store.Tail, settled int64, l lingers) error {
	f := c.flight
	c.flight = nil
	c.adoptTail(tail)
	rest, err := c.lingerUpTo(&f.rows, max(c.tail, settled-1), l)
	if err != nil {
		return err
	}
	if c.bin, err = c.lingerUpTo(&c.bin, c.tail, l); err != nil {
		return err
	}
	if rest.Readings() > 0 {
		if rest.First() <= c.loaded {
			rest.Seal(l.schemas) // what was loaded is known by its blocks
		}
		if c.bin, err = rest.Concat(&c.bin, l.schemas); err != nil {
			return err
		}
		c.due = nanosOf(l.now)
		c.want = f.reason
	}
	c.unseal()
	c.finish()
	return nil
}

// found adopts the tail that a lookup has read, nil for none (rules W3, W4). It fails when a shelf has lost rows. The
// caller holds the lock.
func (c *chain) found(tail *store.Tail, until time.Time, s *binning.Schemas) (err error) {
	if tail != nil {
		c.adoptTail(*tail)
	}
	if c.bin, err = c.lingerUpTo(&c.bin, c.tail, lingers{until: until, schemas: s}); err != nil {
		return err
	}
	c.unseal()
	c.finish()
	return nil
}

// hint takes what the writer of a block knew of the tail: as a lookup does, it may miss the newest chunks.
func (c *chain) hint(t *journal.Tail) {
	if t.Chunks > 0 && t.Chunks <= math.MaxUint32 {
		c.adoptTail(store.Tail{Number: uint32(t.Chunks - 1), Through: t.Through, From: t.From, To: t.To})
	}
}

// restore begins with a bin that another process had open. The caller holds the lock.
func (c *chain) restore(bin binning.Bin, due time.Time) {
	c.bin, c.due, c.trial, c.begun = bin, nanosOf(due), 0, true
	c.phase, c.first, c.loaded = filling, bin.First(), bin.Through()
}

// adoptTail adopts a tail that was read from the store, unless a later one is known: a lookup may miss the newest
// chunks.
func (c *chain) adoptTail(tail store.Tail) {
	if tail.Number >= c.number {
		c.number, c.tail, c.span = tail.Number+1, tail.Through, span{tail.From, tail.To}
	}
}

// last returns the chain's last chunk; there must be one.
func (c *chain) last() store.Tail {
	return store.Tail{Number: c.number - 1, Through: c.tail, From: c.span.from, To: c.span.to}
}

// knownIn reports whether number and tail are known in a generation. They may be out of date: a create finds out.
func (c *chain) knownIn(generation uint32) bool { return c.generation == generation }

// touches reports whether a range has instants of the chain's day. An empty one has none.
func (c *chain) touches(r telemetry.Range) bool {
	return !r.Empty() && c.day.End() > r.From && c.day.Start() < r.To
}

// unseal forgets a seal that has no rows below it.
func (c *chain) unseal() {
	if c.bin.Readings() == 0 || c.bin.First() > c.seal {
		c.seal = unsealed
	}
}

// finish ends what was in flight.
func (c *chain) finish() {
	c.stall = nil
	switch {
	case c.bin.Readings() == 0:
		c.phase, c.want = idle, 0
		return
	case c.want != 0:
		c.phase = asked
	default:
		c.phase = filling
	}
	c.first = c.bin.First()
}

// lingerUpTo has the rows up to an offset linger, which are stored, and returns the others. It fails when a shelf has
// lost rows.
func (c *chain) lingerUpTo(rows *binning.Bin, through int64, l lingers) (rest binning.Bin, err error) {
	if rows.Readings() == 0 || rows.First() > through {
		return *rows, nil
	}
	head := *rows
	if rows.Through() > through {
		if head, rest, err = rows.UpTo(through, l.schemas); err != nil {
			return rest, err
		}
	}
	c.linger = append(c.linger, lingering{head, nanosOf(l.until), true})
	return rest, nil
}

// dropBelow has the rows below a position linger: another process has stored them. It fails when a shelf has lost rows.
// The caller holds the lock.
func (c *chain) dropBelow(position int64, until time.Time, s *binning.Schemas) (err error) {
	if c.bin.Readings() == 0 || c.bin.First() >= position {
		return nil
	}
	if c.bin, err = c.lingerUpTo(&c.bin, position-1, lingers{until: until, schemas: s}); err != nil {
		return err
	}
	c.shortened()
	return nil
}

// shortened takes note that the first rows of the bin are gone.
func (c *chain) shortened() {
	c.unseal()
	switch {
	case c.bin.Readings() == 0:
		c.want = 0
		if c.flight == nil && c.phase != looking {
			c.phase, c.stall = idle, nil
		}
	case c.flight == nil:
		c.first = c.bin.First()
	}
}

// letGo drops the rows that have lingered, and reports whether others have stored some of them. The caller holds the
// lock.
func (c *chain) letGo(now time.Time) (others bool) {
	n := 0
	for n < len(c.linger) && c.linger[n].until <= nanosOf(now) {
		others = others || c.linger[n].others
		n++
	}
	if n == len(c.linger) {
		c.linger = nil
		return others
	}
	c.linger = append([]lingering(nil), c.linger[n:]...)
	return others
}

// acting reports whether the chain is on its way to be cut, or a chunk of it is being created.
func (c *chain) acting() bool { return c.phase >= asked }

// bytes returns how much memory the chain takes.
func (c *chain) bytes() int {
	return size(&c.bin) + c.leaving() + cap(c.journaled.blocks)*appendedBytes
}

// leaving returns the memory of rows on their way out: being created, or stored already.
func (c *chain) leaving() (n int) {
	if c.flight != nil {
		n = size(&c.flight.rows) + len(c.flight.doc)
	}
	return n + c.lingering()
}

// lingering returns the memory of rows that are stored.
func (c *chain) lingering() (n int) {
	for i := range c.linger {
		n += size(&c.linger[i].rows)
	}
	return n
}

// size returns the memory of rows.
func size(rows *binning.Bin) int {
	if rows.Readings() == 0 {
		return 0
	}
	return rows.Bytes()
}
