package worker

import (
	"time"

	"binnacle/binning"
	"binnacle/ingest/journal"
	"binnacle/ingest/queue"
	"binnacle/internal/retry"
)

// journaling is what a Worker does with the journal (rules J1 to J6): blocks of the rows of open bins go there, so that
// a takeover loads them where it would read hours of the source again. With on false nothing of it happens.
//
// Of each chain a prefix is in the journal: rows up to an offset. What lies above is loose. A block goes there once it
// is made, and loose rows that have not become one in time go as they are.
type journaling struct {
	cfg          *Config
	log          *logState
	on           bool
	blocks       *journal.BlockIndex // those that count
	times        carriedTimes
	loose        queue.Heap[*chain] // those with loose rows, by the lowest offset of them
	ready        queue.FIFO[*chain] // those with blocks that are not in the journal
	inFlight     *Append            // on its way
	retry        retry.Backoff
	flush        bool      // everything is to go there now
	maxBytes     int       // bytes of an append
	marks        []marked  // where the position was, the oldest first
	deferredNext time.Time // until then rows of those that wait for a limit don't go there before they are a block
	loading      *Loading  // while the journal is being loaded
}

// marked is the position at some time.
type marked struct {
	at       time.Time
	position int64
}

func newJournaling(cfg *Config, log *logState) journaling {
	blocks := new(journal.BlockIndex)
	return journaling{
		cfg: cfg, log: log, on: cfg.Journal, maxBytes: maxAppend, blocks: blocks, times: newCarriedTimes(cfg, blocks),
		loose: queue.NewHeap(func(c *chain) *int32 { return &c.journaled.place },
			func(a, b *chain) bool { return a.journaled.loose < b.journaled.loose }),
	}
}

// journaled is what is known of a chain's rows in the journal.
type journaled struct {
	through int64      // rows up to here are there, as far as they are not stored; -1 none
	loose   int64      // offset that is not above any row that is not there; noOffset when all are
	under   int64      // rows up to here are there or on their way
	blocks  []appended // its blocks that are still needed
	place   int32      // among those with loose rows
	ready   bool       // stands among those with blocks that are not there
	bulky   bool       // a row is too large for the journal: it must be stored first
}

// appended is a block in the journal.
type appended struct{ at, through int64 }

const appendedBytes = 16

// held returns the lowest and the highest offset of the chain's rows that are not stored; ok is false when there are
// none.
func (c *chain) held() (first, through int64, ok bool) {
	if c.flight != nil {
		first, through, ok = c.flight.rows.First(), c.flight.rows.Through(), true
	}
	if c.bin.Readings() > 0 {
		if !ok {
			first = c.bin.First()
		}
		through, ok = c.bin.Through(), true
	}
	return first, through, ok
}

// file puts a chain where it belongs after a transition, and gives up blocks of the journal that it does not need any
// more.
func (w *Worker) file(c *chain) {
	if w.journal.on {
		w.journal.track(c)
	}
	w.index.file(c)
}

// track brings up to date what the journal is to have of a chain.
func (j *journaling) track(c *chain) {
	x := &c.journaled
	first, through, ok := c.held()
	kept := x.blocks[:0]
	for _, l := range x.blocks {
		if ok && l.through >= first {
			kept = append(kept, l)
		} else {
			j.release(c.device, l.at)
		}
	}
	if x.blocks = kept; len(kept) == 0 {
		x.blocks = nil
	}
	switch {
	case !ok || through <= x.through:
		x.loose, x.bulky = noOffset, false
		j.loose.Remove(c)
		return
	case x.loose == noOffset || x.loose < first || x.loose <= x.through:
		x.loose = max(first, x.through+1)
	}
	j.loose.Put(c)
}

// release lets a block go that is not needed for its rows any more, unless it is kept for their times.
func (j *journaling) release(d *device, block int64) {
	if !j.times.keep(d, block) {
		j.blocks.Remove(block)
	}
}

// offer has the blocks of a chain go to the journal.
func (j *journaling) offer(c *chain) {
	if x := &c.journaled; j.on && !x.ready {
		x.ready = true
		j.ready.Push(c)
	}
}

// JournalFloor returns the offset below which everything is stored, in an acknowledged block, or refused, and in the
// catalog (rule J1).
func (w *Worker) JournalFloor() int64 {
	if !w.journal.on {
		return w.Floor()
	}
	return lowest(w.log.Position, w.journal.floor, w.journal.times.journalFloor, w.admission.Limits.Floor,
		w.publisher.floor, w.updates.Floor)
}

// floor returns the lowest offset of a row that is not in the journal; ok is false for none.
func (j *journaling) floor() (offset int64, ok bool) {
	if j.loose.Len() == 0 {
		return 0, false
	}
	return j.loose.First().journaled.loose, true
}

// JournalCommit returns what a commit of Floor carries beside it.
func (w *Worker) JournalCommit() journal.Commit {
	if !w.journal.on {
		return journal.Commit{}
	}
	return w.journal.blocks.Commit(w.stream, w.JournalFloor())
}

// Flush has everything that is loose go to the journal, until Resume. JournalFloor shows how far that is.
func (w *Worker) Flush() { w.journal.flush = w.journal.on }

// Sizes of an append. The broker takes no more than a megabyte as it is set up by default.
const (
	maxAppend  = 850_000
	enough     = 128 << 10 // from here on it goes out at once
	blockGuess = 640       // what a block takes, about
)

// nextAppend returns the next append to the journal, nil when nothing is to go there now; ticked says that some time
// has passed since it was asked for the last time.
func (w *Worker) nextAppend(now time.Time, ticked bool) *Append {
	j := &w.journal
	if !j.on || j.inFlight != nil || j.loading != nil || !j.retry.Open(now) {
		return nil
	}
	if ticked {
		j.mark(now)
		j.times.renew(now)
	}
	due := w.journal.overdue(now)
	if !ticked && !j.flush && j.ready.Len()*blockGuess < enough {
		return nil
	}
	a := &Append{Topic: w.cfg.Topic, Partition: w.partition, nonce: journal.Nonce(w.cfg.Nonce())}
	limit := w.publisher.firstRefused()
	if j.flush {
		due = limit
	}
	due = min(due, limit)
	var chains []*chain
	slow := j.flush || !now.Before(j.deferredNext)
	j.loose.UpTo(func(c *chain) bool { return c.journaled.loose < due && len(chains) < maxAppendBlocks }, func(c *chain) {
		if slow || !w.admission.Limits.Defers(c.device.tenant.Name, c.device.ID) {
			chains = append(chains, c)
		}
	})
	if slow {
		j.deferredNext = now.Add(w.cfg.JournalEvery / 32)
	}
	// Times go first: a process that loads a block with a tail leaves out rows up to it, and must have their times.
	w.addTimes(a)
	for _, c := range chains {
		if b := (blocksOf{w: w, a: a, c: c, limit: limit}); len(a.sent) >= maxAppendBlocks || !b.add(true) {
			break
		}
	}
	var later []*chain
	for j.ready.Len() > 0 && a.bytes < j.maxBytes && len(a.sent) < maxAppendBlocks {
		c := j.ready.Pop()
		c.journaled.ready = false
		if b := (blocksOf{w: w, a: a, c: c, limit: limit}); !b.add(false) {
			later = append(later, c)
		} else if c.blocksBeyond(c.journaled.under) {
			later = append(later, c) // they wait for dead letters, or for room
		}
		if len(later) >= maxAppendBlocks {
			break
		}
	}
	for _, c := range later {
		w.journal.offer(c)
	}
	if len(a.Values) == 0 || w.lost != nil {
		return nil
	}
	j.inFlight = a
	return a
}

// maxAppendBlocks bounds the blocks of an append.
const maxAppendBlocks = 4096

// blocksBeyond reports whether the bin has a block with rows above an offset.
func (c *chain) blocksBeyond(offset int64) bool {
	blocks := c.bin.Blocks()
	return len(blocks) > 0 && blocks[len(blocks)-1].Through > offset
}

// mark records where the position is, now and then, and drops marks that are too old to matter.
func (j *journaling) mark(now time.Time) {
	every := j.cfg.JournalEvery
	if n := len(j.marks); n == 0 || now.Sub(j.marks[n-1].at) >= every/32 {
		j.marks = append(j.marks, marked{now, j.log.Position})
	}
	for len(j.marks) > 1 && now.Sub(j.marks[1].at) >= every {
		j.marks = j.marks[1:]
	}
}

// overdue returns the offset below which rows have been loose for too long.
func (j *journaling) overdue(now time.Time) int64 {
	if m := j.marks; len(m) > 0 && now.Sub(m[0].at) >= j.cfg.JournalEvery {
		return m[0].position
	}
	return 0
}

// add adds rows of the chain to the append: of a chunk on its way all that are loose, of the bin its blocks, and with
// open also the rows that are no block yet. It reports whether there was room.
func (b *blocksOf) add(open bool) bool {
	w, c := b.w, b.c
	x := &c.journaled
	if x.bulky || x.under > x.through || w.publisher.awaitsDeferred(c) {
		return true // what it has is in this append already, or waits for dead letters
	}
	b.after = x.through
	if c.flight != nil {
		b.take(&c.flight.rows, true)
	}
	b.take(&c.bin, open)
	if b.err != nil {
		w.lose(b.err)
		return true
	}
	if b.taken > 0 {
		x.under = b.after
	}
	if b.bulky && b.taken == 0 {
		x.bulky = true // it holds back F until it is stored, so that is done soon
		w.ask(c, CutBulky, w.ticked)
	}
	return !b.full
}

// blocksOf puts rows of a chain into an append, in their order, as long as nothing stands in the way.
type blocksOf struct {
	w     *Worker
	a     *Append
	c     *chain
	after int64 // rows up to here are in the journal, or in the append
	limit int64 // rows from here on must wait

	taken int
	full  bool // the append
	bulky bool // a block that no append has room for
	err   error
}

func (b *blocksOf) stopped() bool { return b.full || b.bulky || b.err != nil }

// take puts the rows of a bin in.
func (b *blocksOf) take(bin *binning.Bin, open bool) {
	blocks := bin.Blocks()
	for i := range blocks {
		if x := &blocks[i]; x.Through > b.after {
			if b.stopped() || x.First >= b.limit {
				return
			}
			b.block(x)
		}
	}
	if rows := bin.Open(); open && !b.stopped() && rows.Readings() > 0 {
		from, to := rows.RowsThrough(b.after), rows.RowsThrough(b.limit-1)
		if from < to {
			x, ok := bin.BlockOf(from, to, b.w.names.schemas)
			if b.bulky = !ok; ok {
				b.put(&x)
			}
		}
	}
}

// block puts a block in, or what of it is not in the journal and need not wait.
func (b *blocksOf) block(x *binning.Block) {
	if x.First > b.after && x.Through < b.limit {
		b.put(x)
		return
	}
	part, ok, err := x.Between(b.after+1, b.limit, b.w.names.schemas)
	if b.err = err; ok && err == nil {
		b.put(&part)
	}
	b.limit = min(b.limit, x.Through+1) // what follows waits with the rest of it
}

func (b *blocksOf) put(x *binning.Block) {
	data, err := x.Append(nil)
	if err != nil {
		b.err = err
		return
	}
	c := b.c
	r := journal.Record{
		Stream: b.w.stream, Tenant: c.device.tenant.Name, Device: c.device.ID, Day: c.day,
		Tail:  c.journalTail(b.w.generation),
		First: x.First, Through: x.Through, Rows: x.Rows, Values: x.Values, From: x.From, To: x.To, Data: data,
	}
	switch b.w.journal.add(b.a, &r, sentBlock{chain: c, through: x.Through}) {
	case tooLarge:
		b.bulky = true
	case noRoom:
		b.full = true
	case added:
		b.after = x.Through
		b.taken++
	}
}

// journalTail returns what is known of the chain's tail in a generation.
func (c *chain) journalTail(generation uint32) (t journal.Tail) {
	if c.knownIn(generation) {
		t = journal.Tail{Known: true, Chunks: int64(c.number)}
		if c.number > 0 {
			t.Through, t.From, t.To = c.tail, c.span.from, c.span.to
		}
	}
	return t
}

// room is whether a record finds room in an append.
type room uint8

const (
	added    room = iota
	noRoom        // in this one
	tooLarge      // for any
)

// add adds a record to an append, if there is room.
func (j *journaling) add(a *Append, r *journal.Record, as sentBlock) room {
	if r.Nonce = a.nonce; len(a.sent) == 0 {
		r.Before, r.Linked = j.blocks.Before()
	}
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

// recordBytes is what a record of the log takes beside its value.
const recordBytes = 16

// journalOutage is how many appends must fail in a row before times that wait for the journal go to the catalog.
const journalOutage = 8

// appended takes an Append back.
func (w *Worker) appended(a *Append, now time.Time) {
	j := &w.journal
	j.inFlight = nil
	switch r := a.Outcome(); r.Fault {
	case None:
		j.retry = retry.Backoff{}
	case Rejected: // the broker takes less at once
		w.journal.appendFailed(a)
		if c := a.sent[0].chain; len(a.Values) > 1 {
			j.maxBytes = max(a.bytes/2, recordBytes)
		} else if c != nil {
			c.journaled.bulky = true
			w.ask(c, CutBulky, now)
		}
		return
	default:
		w.journal.appendFailed(a)
		if j.retry.Fails >= journalOutage {
			j.times.each(func(d *device) { w.updates.Urge(&d.Device) })
		}
		j.retry.Fail(now, w.cfg.retry(r.After, w.spreads))
		return
	}
	if j.blocks.Appended(a.Base, len(a.Values), a.nonce) {
		w.observer.JournalLost()
		j.appendFailed(a)
		w.journalAll()
		return
	}
	j.times.end = a.Base + int64(len(a.Values))
	for i, s := range a.sent {
		if s.times != nil {
			j.times.carry(s.times, a.Base+int64(i))
			continue
		}
		x := &s.chain.journaled
		x.blocks = append(x.blocks, appended{a.Base + int64(i), s.through})
		x.through = max(x.through, s.through)
	}
	for _, s := range a.sent {
		if s.chain == nil {
			continue
		}
		w.journal.track(s.chain)
		if s.chain.filing.counted { // else it was stored and forgotten meanwhile
			w.index.count(s.chain)
		}
	}
}

// appendFailed has what an append held go out again.
func (j *journaling) appendFailed(a *Append) {
	for _, s := range a.sent {
		if s.times != nil {
			j.times.failed(s.times)
			continue
		}
		s.chain.journaled.under = s.chain.journaled.through
		if len(s.chain.bin.Blocks()) > 0 {
			j.offer(s.chain)
		}
	}
}

// journalAll has all rows go out again: the journal has lost its end (rule J6).
func (w *Worker) journalAll() {
	for _, t := range w.registry.tenants {
		for _, d := range t.devices {
			if d == nil {
				continue
			}
			w.journal.times.lost(d)
			for _, c := range d.chains {
				c.journaled.through, c.journaled.under, c.journaled.blocks = -1, -1, nil
				w.journal.track(c)
				w.index.count(c)
				w.journal.offer(c)
			}
		}
	}
}
