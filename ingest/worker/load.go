package worker

import (
	"binnacle/binning"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/journal"
	"binnacle/internal/control"
	"fmt"
	"math"
	"time"
)

// Loading is what a Worker has loaded of the journal so far. Nothing of it counts before all is there (rule J4).
type Loading struct {
	w      *Worker
	commit journal.Commit
	floor  int64
	chains map[admit.Chain]*loadedChain
	order  []admit.Chain
	times  []loadedTimes
	bytes  int64 // memory
	blocks int
}

// loadedChain is the blocks of a chain, and what the last of their writers knew of its tail.
type loadedChain struct {
	blocks   []binning.Block
	appended []bins.Appended
	tail     journal.Tail

	inMemory int // bytes of the blocks that are not on a shelf
}

// loadedTimes is a record with times of a device.
type loadedTimes struct {
	at     int64
	record journal.Record
}

const loadedTimesBytes = 240

// loadedBytes is the memory of a chain while it is loaded, without its blocks.
const loadedBytes = 300

// BeginLoad begins to load what a commit counts on; floor is the offset that was committed with it. The Worker is a new
// one with the floor as its position: until Done it is asked for nothing but heads.
func (w *Worker) BeginLoad(c journal.Commit, floor int64) *Loading {
	w.loading = &Loading{w: w, commit: c, floor: floor, chains: map[admit.Chain]*loadedChain{}}
	return w.loading
}

// TakeRecord takes a record of the journal; counts is set to load its rows. Unreadable rows are a journal.ErrNotWhole.
func (l *Loading) TakeRecord(at int64, r *journal.Record, counts bool) error {
	if r.Stream != l.commit.Stream {
		return nil
	}
	key := admit.Chain{Tenant: r.Tenant, Device: r.Device, Day: r.Day}
	c := l.chains[key]
	if c == nil {
		c = &loadedChain{}
		l.chains[key] = c
		l.order = append(l.order, key)
		l.bytes += loadedBytes
	}
	if r.Tail.Known {
		c.tail = r.Tail
	}
	if r.Rows == 0 {
		l.times = append(l.times, loadedTimes{at, *r})
		l.bytes += loadedTimesBytes
		return nil
	}
	if !counts {
		return nil
	}
	b, err := l.w.bins.Names.Schemas.Block(binning.Block{
		Rows: r.Rows, Values: r.Values, First: r.First, Through: r.Through, From: r.From, To: r.To,
	}, r.Data)
	if err != nil {
		return fmt.Errorf("%w: the block at %d: %w", journal.ErrNotWhole, at, err)
	}
	c.blocks = append(c.blocks, b)
	c.appended = append(c.appended, bins.Appended{At: at, Through: r.Through})
	c.inMemory += b.Bytes()
	l.bytes += int64(b.Bytes()) + bins.AppendedBytes
	if l.blocks++; l.blocks%countEvery == 0 {
		l.w.settle()
	}
	if shelf := l.w.cfg.Shelf; shelf != nil && c.inMemory >= 2*leastShelved && l.w.pressure.memory.short() {
		// What the shelf does not take stays in memory.
		freed, _ := binning.Shelve(c.blocks, shelf)
		l.bytes -= int64(freed)
		c.inMemory = 0
	}
	return nil
}

// countEvery is after how many blocks memory is counted again.
const countEvery = 32

// Done gives the Worker what was loaded: each record from the floor on and below F, once. last is the append that was
// loaded last. It fails when a shelf has lost rows, or a block can't be read: then the Worker is of no use.
func (l *Loading) Done(last journal.Link, now time.Time) error {
	w := l.w
	w.bins.Lock()
	defer w.bins.Unlock()
	for _, key := range l.order {
		if err := l.restore(key, l.chains[key], now); err != nil {
			return err
		}
		delete(l.chains, key)
	}
	w.bins.Journaled.Blocks.Resume(last)
	w.bins.Journaled.Times.End = l.commit.To
	for i := range l.times {
		x := &l.times[i]
		w.loadTimes(x.at, &x.record, l.commit.From+(l.commit.To-l.commit.From)/2)
	}
	w.loading, w.erasing.unapplied = nil, true
	w.bins.Log.Position = max(w.bins.Log.Position, l.commit.F)
	return nil
}

// restore returns the open bin of a chain as it was. The caller holds the lock.
func (l *Loading) restore(key admit.Chain, x *loadedChain, now time.Time) error {
	w, from := l.w, l.floor
	if x.tail.Known && x.tail.Chunks > 0 {
		from = max(from, x.tail.Through+1)
	}
	blocks, err := w.bins.Names.Schemas.Merge(x.blocks, from, l.commit.F)
	if err != nil {
		return err
	}
	if len(blocks) == 0 && (!x.tail.Known || x.tail.Chunks == 0 || x.tail.Chunks > math.MaxUint32) {
		return nil
	}
	d := w.bins.AddDevice(key.Tenant, key.Device)
	c := w.bins.Open(d, key.Day, now)
	if x.tail.Known {
		c.Hint(&x.tail)
		c.Generation = w.bins.Generation
		w.bins.Log.Suspect = max(w.bins.Log.Suspect, c.Tail)
	}
	for i := range blocks {
		w.bins.Updates.ObserveBlock(&d.Device, &blocks[i], i > 0 && blocks[i].SameSchema(&blocks[i-1]))
	}
	w.bins.CountDevice(d)
	if len(blocks) > 0 {
		due, budget := w.bins.Cfg.Due(c, now), w.bins.Cfg.Budget(c)
		c.Restore(binning.BinOf(w.bins.Names.Metrics, blocks), due)
		c.Budget = budget
		c.Journaled.Through, c.Journaled.Under = c.Bin.Through(), c.Bin.Through()
		for _, b := range x.appended {
			if b.Through >= from {
				c.Journaled.Blocks = append(c.Journaled.Blocks, bins.Appended{At: b.At, Through: min(b.Through, c.Bin.Through())})
				w.bins.Journaled.Blocks.Loaded(b.At)
			}
		}
	}
	w.bins.File(c)
	return nil
}

// LoadingTimes takes the times of devices from the records of the journal that another process has appended while the
// partition was away.
type LoadingTimes struct {
	w    *Worker
	last journal.Link // the last record
	own  journal.Link // the last append that this worker knew when the partition left, zero for none
	has  bool         // it is still there
}

// BeginTimes applies the orders of erasure of a snapshot, and begins to load times. An order that was applied after the
// load would take away times of rows that were stored behind the order.
func (w *Worker) BeginTimes(snapshot *control.Snapshot) *LoadingTimes {
	w.erasing.apply(snapshot)
	own, _ := w.bins.Journaled.Blocks.Before()
	return &LoadingTimes{w: w, own: own}
}

// Take takes a record.
func (l *LoadingTimes) Take(at int64, r *journal.Record) {
	w := l.w
	l.last = journal.Link{Offset: at, Nonce: r.Nonce}
	if l.has = l.has || l.last == l.own; r.Rows > 0 || r.Stream != w.writer.Cfg.Stream {
		return
	}
	w.bins.Lock()
	defer w.bins.Unlock()
	if !w.erasing.hasErased(r) {
		w.loadTimes(at, r, 0)
	}
}

// Done ends it. If all was taken that a commit counts on, the next owner is to load that too. Where the journal was
// made anew, and lacks what this worker has appended, all rows are appended again: others may have appended so much
// since that no link shows it.
func (l *LoadingTimes) Done(c journal.Commit) {
	if !l.has && l.own != (journal.Link{}) && l.own.Offset < c.To {
		l.w.appends.LoseBlocks()
	}
	if l.last == (journal.Link{Offset: c.To - 1, Nonce: c.Mark}) {
		j := &l.w.bins.Journaled
		j.Blocks.Follow(l.last)
		j.Times.End = max(j.Times.End, c.To)
	}
}

func (w *Worker) loadTimes(at int64, r *journal.Record, old int64) {
	d := w.bins.AddDevice(r.Tenant, r.Device)
	d.Spans(r.From, r.To)
	w.bins.Journaled.Times.Load(d, bins.TimesRecord{Times: bins.Span{From: r.From, To: r.To}, At: at}, old)
	w.bins.ForgetUnused(d)
}
