package write

import (
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/journal"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
	"maps"
	"slices"
	"time"
)

// Appends appends the rows of open bins to the journal (rules J1 to J6), so that a takeover loads them where it would
// read hours of the source again. A block goes there once it is made. Loose rows that have not become one in time go as
// they are.
//
// One goroutine owns it.
type Appends struct {
	w        *Writer
	limits   *admit.Limits
	index    *bins.JournalIndex
	InFlight *Append // on its way
	lost     *Append // the journal was made anew while this one was on its way
	retry    retry.Backoff
	Flushing bool          // everything is to go there now
	maxBytes int           // bytes of an append
	marks    []bins.Marked // where the position was, the oldest first
	// deferredNext is until when rows of chains with deferrals don't go to the journal before they are a block.
	deferredNext time.Time
}

// NewAppends returns the Appends of a Writer's bins.
func NewAppends(w *Writer, limits *admit.Limits) *Appends {
	return &Appends{w: w, limits: limits, index: &w.bins.Journaled, maxBytes: maxAppend}
}

// Sizes of an append. The broker takes no more than a megabyte as it is set up by default.
const (
	maxAppend  = 850_000
	enough     = 128 << 10 // bytes from which on an append goes out at once
	blockGuess = 640       // bytes of a block, about
)

// Next returns the next append to the journal, nil when nothing is to go there now; ticked says that some time
// has passed since it was asked for the last time.
func (j *Appends) Next(now time.Time, ticked bool) *Append {
	if !j.index.On || j.InFlight != nil || !j.retry.Open(now) {
		return nil
	}
	if ticked {
		j.mark(now)
		j.index.Times.Renew(now)
	}
	due := int64(0) // below it rows have been loose for too long
	if m := j.marks; len(m) > 0 && now.Sub(m[0].At) >= j.w.Cfg.JournalEvery {
		due = m[0].Position
	}
	if !ticked && !j.Flushing && j.index.Ready.Len()*blockGuess < enough {
		return nil
	}
	a := &Append{Topic: j.w.Cfg.Topic, Partition: j.w.Cfg.Partition}
	limit := j.w.Publisher.FirstRefused()
	if j.Flushing {
		due = limit
	}
	due = min(due, limit)
	var chains []*bins.Chain
	slow := j.Flushing || !now.Before(j.deferredNext)
	wanted := func(c *bins.Chain) bool { return c.Journaled.Loose < due && len(chains) < bins.MaxAppendBlocks }
	j.index.Loose.UpTo(wanted, func(c *bins.Chain) {
		if slow || !j.limits.Defers(c.Device.Tenant.Name, c.Device.ID) {
			chains = append(chains, c)
		}
	})
	if slow {
		j.deferredNext = now.Add(j.w.Cfg.JournalEvery / 32)
	}
	// Times go first: a process that loads a block with a tail leaves out rows up to it, and must have their times.
	j.addTimes(a)
	for _, c := range chains {
		if b := (blocksOf{j: j, now: now, a: a, c: c, limit: limit}); len(a.sent) >= bins.MaxAppendBlocks || !b.add(true) {
			break
		}
	}
	var later []*bins.Chain
	for j.index.Ready.Len() > 0 && a.bytes < j.maxBytes && len(a.sent) < bins.MaxAppendBlocks {
		c := j.index.Take()
		if b := (blocksOf{j: j, now: now, a: a, c: c, limit: limit}); !b.add(false) {
			later = append(later, c)
		} else if x := c.Bin.Blocks(); len(x) > 0 && x[len(x)-1].Through > c.Journaled.Under {
			later = append(later, c) // they wait for dead letters, or for room
		}
		if len(later) >= bins.MaxAppendBlocks {
			break
		}
	}
	for _, c := range later {
		j.index.Offer(c)
	}
	if len(a.Values) == 0 || j.w.bins.Lost() != nil {
		return nil
	}
	j.InFlight = a
	return a
}

// mark records where the position is, now and then, and drops marks that are too old to matter.
func (j *Appends) mark(now time.Time) {
	every := j.w.Cfg.JournalEvery
	if n := len(j.marks); n == 0 || now.Sub(j.marks[n-1].At) >= every/32 {
		j.marks = append(j.marks, bins.Marked{At: now, Position: j.w.bins.Log.Position})
	}
	for len(j.marks) > 1 && now.Sub(j.marks[1].At) >= every {
		j.marks = j.marks[1:]
	}
}

// addTimes adds records with times of devices to an append.
func (j *Appends) addTimes(a *Append) {
	for _, o := range j.index.Times.Take(bins.MaxAppendBlocks - len(a.sent)) {
		r := journal.Record{
			Stream: j.w.Cfg.Stream, Tenant: o.Device.Tenant.Name, Device: o.Device.ID, Day: telemetry.DayOf(o.Times.To),
			From: o.Times.From, To: o.Times.To,
		}
		// A loader compares the latest tail with orders of erasure. One of an earlier generation may miss the newest chunks.
		for c := o.Device.Chains; c != nil; c = c.Next {
			if t := c.JournalTail(c.Generation); t.Chunks > 0 && (!r.Tail.Known || t.Through > r.Tail.Through) {
				r.Day, r.Tail = c.Day, t
			}
		}
		switch j.add(a, &r, sentBlock{times: o}) {
		case tooLarge: // the catalog takes them
			j.w.bins.Updates.Urge(&o.Device.Device)
			fallthrough
		case noRoom:
			j.index.Times.Failed(o)
		}
	}
}

// room is whether a record finds room in an append.
type room uint8

const (
	added    room = iota
	noRoom        // the append is full
	tooLarge      // for any
)

// add adds a record to an append, if there is room.
func (j *Appends) add(a *Append, r *journal.Record, as sentBlock) room {
	if len(a.sent) == 0 {
		a.nonce = journal.Nonce(j.w.Cfg.Nonce())
		r.Before, r.Linked = j.index.Blocks.Before()
		a.Unsure = j.index.Blocks.Unsure()
	}
	r.Nonce = a.nonce
	value := r.Append(nil)
	switch {
	case len(value) > j.maxBytes:
		return tooLarge
	case a.bytes+len(value) > j.maxBytes:
		return noRoom
	}
	a.Values = append(a.Values, value)
	a.sent = append(a.sent, as)
	a.bytes += len(value) + recordBytes
	return added
}

// recordBytes is how many bytes a record of the log takes in addition to its value.
const recordBytes = 16

// journalOutage is how many appends must fail in a row before times that wait for the journal go to the catalog.
const journalOutage = 8

// Done takes an Append back.
func (j *Appends) Done(a *Append, now time.Time) {
	if j.InFlight = nil; a == j.lost {
		j.appendFailed(a)
		return
	}
	switch r := a.Outcome(); r.Fault {
	case bins.None:
		j.retry = retry.Backoff{}
	case bins.Rejected: // the broker takes less at once
		j.appendFailed(a)
		if c := a.sent[0].chain; len(a.Values) > 1 || c == nil {
			j.maxBytes = max(a.bytes/2, recordBytes)
		} else {
			c.Journaled.Bulky = true
			j.w.Ask(c, bins.CutBulky, now)
		}
		return
	default:
		j.appendFailed(a)
		if j.index.Blocks.Unanswered(); j.retry.Fails >= journalOutage {
			j.index.Times.Each(func(d *bins.Device) { j.w.bins.Updates.Urge(&d.Device) })
		}
		j.retry.Fail(now, j.w.Cfg.Retry(r.After))
		return
	}
	if a.IsGone || j.index.Blocks.Appended(a.Base, len(a.Values), a.nonce) {
		j.w.observer.JournalLost()
		j.appendFailed(a)
		j.LoseBlocks()
		return
	}
	j.index.Times.End = a.Base + int64(len(a.Values))
	for i, s := range a.sent {
		if s.times != nil {
			j.index.Times.Carry(s.times, a.Base+int64(i))
			continue
		}
		j.index.Appended(s.chain, bins.Appended{At: a.Base + int64(i), Through: s.through})
		j.index.Track(s.chain)
		j.w.bins.Index.Count(s.chain)
	}
}

// appendFailed marks the rows and times that an append held, so that they are appended again.
func (j *Appends) appendFailed(a *Append) {
	for _, s := range a.sent {
		if s.times != nil {
			j.index.Times.Failed(s.times)
			continue
		}
		if c := s.chain; !c.Closed() {
			c.Journaled.Under = c.Journaled.Through
			if len(c.Bin.Blocks()) > 0 {
				j.index.Offer(c)
			}
		}
	}
}

// LoseBlocks records that the journal has nothing of what was appended, nor of an append on its way.
func (j *Appends) LoseBlocks() {
	*j.index.Blocks = journal.BlockIndex{}
	j.lost = j.InFlight
	j.again()
}

// again marks all rows, so that they are appended again: the journal has lost its end (rule J6).
func (j *Appends) again() {
	for _, name := range slices.Sorted(maps.Keys(j.w.bins.Tenants)) {
		for _, d := range j.w.bins.Tenants[name].Devices {
			if d == nil {
				continue
			}
			j.index.Times.Lost(d)
			for c := d.Chains; c != nil; c = c.Next {
				if !c.Closed() {
					j.index.Lost(c)
					j.w.bins.Index.Count(c)
					j.index.Offer(c)
				}
			}
		}
	}
}
