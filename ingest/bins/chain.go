package bins

import (
	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest/admit"
	"binnacle/ingest/journal"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"math"
	"slices"
	"time"
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

// nanos is a time of the wall clock in ns since 1970: a third of a time.Time, and each chain has several. Times in
// the index are all nanos: time.Time compares by the monotonic clock where both times have it, and the two clocks are
// some milliseconds apart where a thread was preempted between its looks at them.
type nanos int64

// NanosOf returns a time in ns.
func NanosOf(t time.Time) nanos { return nanos(t.UnixNano()) }

// Time returns the time.
func (n nanos) Time() time.Time { return time.Unix(0, int64(n)) }

// Chain is the open bin of a device and day, with the tail of the chunks before it. Only the methods below change its
// phase. The Worker decides which method is called when, and files the chain again afterwards.
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
//	                     └▶ asked: rows that must be cut
//
// A chunk that the store will never take goes from stalled to publishing: its rows become dead letters, and the number
// stays free. Readings are taken in every phase. A reason to cut that comes while something is under way counts when
// that has settled.
type Chain struct {
	Device *Device
	Day    telemetry.Day
	// Generation is the Worker's generation in which number and tail were learnt: they are known only in it.
	Generation uint32
	Next       *Chain // the device's next chain
	// Due is the latest time at which the bin is cut, or the last one had to be.
	Due  nanos
	Used int64 // ms since 1970

	// What the head shows changes under the Worker's lock: tail and open.

	tail
	*open

	Phase phase
	begun bool  // a bin has been opened since the chain is known here
	ready bool  // the chain is in JournalIndex.Ready
	rest  int32 // place in idle
}

// open is what a chain has while rows of it are in memory. Most chains are idle, and have closed instead.
type open struct {
	Bin binning.Bin
	// Flight is set while creating or publishing, and when stalled if a create or publication must be made again.
	Flight *Flight
	Linger lingers
	Stall  *stall // after an attempt to look up, to create or to publish has failed

	Budget int64 // records that the bin may hold back the committed offset (rule W7)
	First  int64 // lowest offset that the chain holds back from being committed, while it has rows that are not stored
	cutting

	// Rows up to here were loaded from the journal, and they or later ones may be stored since: heads show each block
	// of these rows as a piece, or the rows would look newer than rows that were stored after them (rule R5).
	loaded int64

	Journaled journaled
	filing

	Period telemetry.Day // the first one of the period of the queue that the chain waits in, once Queued
	Queued bool
}

// cutting is why and how far the bin must be cut.
type cutting struct {
	trial int32  // values from which on the next trial encoding is worth while
	Want  Reason // why the bin must be cut, 0 if it is not
	Full  bool   // its partition key was found full, which has been said

	// A cut that must wait for dead letters takes rows up to here, unsealed for all: else later rows delay it.
	Seal int64

	// A cut that waits for a newer snapshot takes the rows below this offset.
	Fresh int64

	// The time of the wall clock, in ms, when the first of Seal and Fresh was set for these rows: rows that such a cut
	// leaves in the bin came later.
	ChosenAt int64
}

// closed is the open part of all idle chains. It is never changed.
var closed = newOpen()

func newOpen() *open {
	return &open{cutting: cutting{Seal: Unsealed}, loaded: -1,
		Journaled: journaled{Through: -1, Under: -1, Loose: noOffset}}
}

// Closed reports whether the chain is idle and has no open part.
func (o *open) Closed() bool { return o == closed }

// phase is how far a chain is on the way from readings to a chunk.
type phase uint8

const (
	idle    phase = iota // no rows that are not stored; the tail may be known
	filling              // rows, and no reason yet to cut them
	Asked                // rows that must be cut, as soon as they can be
	// Sealed is like Asked, and dead letters below the last row are not acknowledged yet (rule W5).
	Sealed
	// looking is like Asked, and the tail is being looked up (rule W3).
	looking
	creating   // a chunk is being created (rule W6)
	Stalled    // an attempt has failed, or would: it will be made again later
	publishing // rows of a chunk that the store will never take are on their way to the dead letters
)

// Flight is a chunk that is being created.
type Flight struct {
	Rows     binning.Bin
	Id       chunk.ID
	Key      sharding.Key
	Doc      []byte
	Reason   Reason
	Rejected string // why it goes to the dead letters, empty while it may be created
}

const Unsealed = -1

// Key names the chain.
func (c *Chain) Key() admit.Chain {
	return admit.Chain{Tenant: c.Device.Tenant.Name, Device: c.Device.ID, Day: c.Day}
}

// take puts a reading into the bin, which is due then if it was empty. The caller holds the lock.
// It reports whether the bin has a reading with the same columns and labels already.
func (c *Chain) take(offset int64, r *telemetry.Reading, due time.Time) (repeats bool) {
	if c.Bin.Readings() == 0 {
		c.Due, c.trial, c.begun = NanosOf(due), 0, true
	}
	repeats = c.Bin.Append(offset, *r)
	if c.Phase == idle {
		c.Phase, c.First = filling, offset
	}
	return repeats
}

// Ask returns a reason to cut the bin, if it has rows; the first reason counts. It reports whether the chain waits to
// be cut from now on.
func (c *Chain) Ask(why Reason) bool {
	if c.Want == 0 && c.Bin.Readings() > 0 {
		c.Want = why
	}
	if c.Phase != filling || c.Want == 0 {
		return false
	}
	c.Phase = Asked
	return true
}

// Reopen leaves the rows in the bin, which was thought full and is not, until it has trial values.
func (c *Chain) Reopen(trial int) {
	c.Phase, c.Want, c.trial, c.Seal = filling, 0, int32(trial), Unsealed
}

// SealUpto lets the cut wait for dead letters, with no rows above an offset.
func (c *Chain) SealUpto(offset int64, now time.Time) {
	if c.Seal == Unsealed {
		if c.Fresh <= c.Bin.First() { // else the cut has waited for a snapshot
			c.ChosenAt = now.UnixMilli()
		}
		c.Seal = offset
	}
	c.Phase = Sealed
}

// Release ends the wait for dead letters.
func (c *Chain) Release() { c.Phase = Asked }

// Look begins the lookup of the tail.
func (c *Chain) Look() { c.Phase = looking }

// Cut takes rows out of the bin to be created as a chunk; rest is what the bin has then. The caller holds the lock.
func (c *Chain) Cut(f *Flight, rest binning.Bin) {
	c.Phase, c.Flight, c.Bin = creating, f, rest
	c.Want, c.trial = 0, 0
	if c.Bin.Readings() == 0 {
		c.Seal = Unsealed
	}
}

// Fail records that the attempt in flight has failed, or that one would fail. The caller holds the lock.
func (c *Chain) Fail(f Fault, now time.Time) {
	if c.Stall == nil {
		c.Stall = &stall{Since: NanosOf(now)}
	}
	c.Phase, c.Stall.Fault, c.Stall.Ready = Stalled, f, false
}

// RejectFlight records why the rows in flight will never be stored. The caller holds the lock.
func (c *Chain) RejectFlight(why string, now time.Time) {
	c.Flight.Rejected = why
	c.Fail(Rejected, now)
	c.Stall.Ready = true
}

// Doomed reports whether the rows in flight wait for their dead letters.
func (c *Chain) Doomed() bool { return c.Flight != nil && c.Flight.Rejected != "" }

// Resumes reports whether the chain has stalled and its time has come.
func (c *Chain) Resumes() bool { return c.Phase == Stalled && c.Stall.Ready && !c.Doomed() }

// Abandon takes rows out of the bin that are to become dead letters; rest is what stays. The caller holds the lock.
func (c *Chain) Abandon(rows, rest binning.Bin) {
	c.Flight, c.Bin = &Flight{Rows: rows}, rest
	if c.Bin.Readings() == 0 {
		c.Want, c.Seal = 0, Unsealed
	}
}

// Resume continues from the phase in which the chain has stalled.
func (c *Chain) Resume() {
	c.Stall.Ready = false
	switch {
	case c.Flight == nil && c.Bin.Readings() == 0: // an order has erased what was to be cut
		c.finish()
	case c.Flight == nil:
		c.Phase = Asked
	case c.Doomed():
		c.Phase = publishing
	default:
		c.Phase = creating
	}
}

// Published ends the flight: its dead letters are acknowledged. The caller holds the lock.
func (c *Chain) Published(now time.Time) {
	c.Flight, c.Used = nil, now.UnixMilli()
	c.unseal()
	c.finish()
}

// Created ends the flight: its chunk is in the store, and its rows linger. The caller holds the lock.
func (c *Chain) Created(now, until time.Time) {
	rows := c.Flight.Rows
	c.Linger = append(c.Linger, lingering{rows: rows, Until: NanosOf(until)})
	c.Number, c.Tail, c.Used = c.Number+1, rows.Through(), now.UnixMilli()
	c.span.From, c.span.To = rows.Span()
	c.every = int32((c.span.To - c.span.From) / int64(max(1, rows.Readings()-1)))
	c.Flight = nil
	c.finish()
}

// Conflict ends the flight: another process has stored a chunk with its number. Rows of that chunk linger, and so do
// others below settled, where all are stored. The rest go back to the bin, which must be cut. It fails when a shelf
// has lost rows. The caller holds the lock.
func (c *Chain) Conflict(tail store.Tail, settled int64, l Lingers) error {
	f := c.Flight
	c.adopt(tail)
	rest, err := c.lingerUpTo(&f.Rows, max(c.Tail, settled-1), l)
	if err != nil {
		return err
	}
	if c.Bin, err = c.lingerUpTo(&c.Bin, c.Tail, l); err != nil {
		return err
	}
	if rest.Readings() > 0 {
		if rest.First() <= c.loaded {
			rest.Seal(l.Schemas) // rows that were loaded are known by their blocks
		}
		all, err := rest.Concat(&c.Bin, l.Schemas)
		if err != nil {
			return err
		}
		c.Bin = all
		c.Due = NanosOf(l.Now)
		c.Want = f.Reason
	}
	c.Flight = nil
	c.unseal()
	c.finish()
	return nil
}

// Found adopts the tail that a lookup has read, nil for none (rules W3, W4). It fails when a shelf has lost rows. The
// caller holds the lock.
func (c *Chain) Found(tail *store.Tail, until time.Time, s *binning.Schemas) (err error) {
	if tail != nil {
		c.adopt(*tail)
	}
	if c.Bin, err = c.lingerUpTo(&c.Bin, c.Tail, Lingers{Until: until, Schemas: s}); err != nil {
		return err
	}
	c.unseal()
	c.finish()
	return nil
}

// Hint takes what the writer of a block knew of the tail: as a lookup does, it may miss the newest chunks.
func (c *Chain) Hint(t *journal.Tail) {
	if t.Chunks > 0 && t.Chunks <= math.MaxUint32 {
		c.adopt(store.Tail{Number: uint32(t.Chunks - 1), Through: t.Through, From: t.From, To: t.To})
	}
}

// Restore begins with a bin that another process had open. The caller holds the lock.
func (c *Chain) Restore(bin binning.Bin, due time.Time) {
	c.open = newOpen()
	c.Bin, c.Due, c.begun = bin, NanosOf(due), true
	c.Phase, c.First, c.loaded = filling, bin.First(), bin.Through()
}

// KnownIn reports whether number and tail are known in a generation. They may be out of date: a create finds out.
func (c *Chain) KnownIn(generation uint32) bool { return c.Generation == generation }

// touches reports whether a range has instants of the chain's day. An empty one has none.
func (c *Chain) touches(r telemetry.Range) bool {
	return !r.Empty() && c.Day.End() > r.From && c.Day.Start() < r.To
}

// unseal forgets a seal that has no rows below it.
func (c *Chain) unseal() {
	if c.Bin.Readings() == 0 || c.Bin.First() > c.Seal {
		c.Seal = Unsealed
	}
}

// finish ends what was in flight.
func (c *Chain) finish() {
	c.Stall = nil
	switch {
	case c.Bin.Readings() == 0:
		c.Phase, c.Want = idle, 0
		return
	case c.Want != 0:
		c.Phase = Asked
	default:
		c.Phase = filling
	}
	c.First = c.Bin.First()
}

// lingerUpTo moves the rows up to an offset, which are stored, to the lingering ones, and returns the others. It
// fails when a shelf has lost rows, and returns all of them: a read of the head must fail, too.
func (c *Chain) lingerUpTo(rows *binning.Bin, through int64, l Lingers) (rest binning.Bin, err error) {
	if rows.Readings() == 0 || rows.First() > through {
		return *rows, nil
	}
	head := *rows
	if rows.Through() > through {
		if head, rest, err = rows.UpTo(through, l.Schemas); err != nil {
			return *rows, err
		}
	}
	c.Linger = append(c.Linger, lingering{head, NanosOf(l.Until), true})
	return rest, nil
}

// DropBelow moves the rows below a position to the lingering ones: another process has stored them. It fails when a
// shelf has lost rows. The caller holds the lock.
func (c *Chain) DropBelow(position int64, until time.Time, s *binning.Schemas) (err error) {
	if c.Bin.Readings() == 0 || c.Bin.First() >= position {
		return nil
	}
	if c.Bin, err = c.lingerUpTo(&c.Bin, position-1, Lingers{Until: until, Schemas: s}); err != nil {
		return err
	}
	c.shortened()
	return nil
}

// shortened takes note that the first rows of the bin are gone.
func (c *Chain) shortened() {
	c.unseal()
	switch {
	case c.Bin.Readings() == 0:
		c.Want = 0
		if c.Flight == nil && c.Phase != looking {
			c.Phase, c.Stall = idle, nil
		}
	case c.Flight == nil:
		c.First = c.Bin.First()
	}
}

// acting reports whether the chain is on its way to be cut, or a chunk of it is being created.
func (c *Chain) acting() bool { return c.Phase >= Asked }

// Bytes returns how much memory the chain's open bin takes, with its rows.
func (c *Chain) Bytes() int {
	if c.Closed() {
		return 0
	}
	return openBytes + Size(&c.Bin) + c.leaving() + cap(c.Journaled.Blocks)*AppendedBytes
}

// leaving returns the memory of rows on their way out: being created, or stored already.
func (c *Chain) leaving() (n int) {
	if c.Flight != nil {
		n = Size(&c.Flight.Rows) + len(c.Flight.Doc)
	}
	return n + c.Linger.bytes()
}

// Size returns the memory of rows.
func Size(rows *binning.Bin) int {
	if rows.Readings() == 0 {
		return 0
	}
	return rows.Bytes()
}

// held returns the lowest and highest offsets of the chain's rows that are not stored; ok is false without such rows.
func (c *Chain) held() (first, through int64, ok bool) {
	if c.Flight != nil {
		first, through, ok = c.Flight.Rows.First(), c.Flight.Rows.Through(), true
	}
	if c.Bin.Readings() > 0 {
		if !ok {
			first = c.Bin.First()
		}
		through, ok = c.Bin.Through(), true
	}
	return first, through, ok
}

// eraseUpTo drops the rows up to an offset that are not in flight, without a trace. It fails when a shelf has lost
// rows. The caller holds the lock.
func (c *Chain) eraseUpTo(through int64, s *binning.Schemas) (err error) {
	if len(c.Linger) > 0 {
		c.Linger = slices.DeleteFunc(slices.Clone(c.Linger), func(l lingering) bool { return l.rows.First() <= through })
	}
	if c.Bin.Readings() == 0 || c.Bin.First() > through {
		return nil
	}
	var rest binning.Bin
	if c.Bin.Through() > through {
		if _, rest, err = c.Bin.UpTo(through, s); err != nil {
			return err
		}
	}
	c.Bin = rest
	c.shortened()
	return nil
}
