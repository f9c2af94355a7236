package worker

import (
	"fmt"
	"math"
	"time"

	"binnacle/binning"
	"binnacle/ingest/admit"
	"binnacle/ingest/journal"
)

// Loading is what a Worker has loaded of the journal so far. Nothing of it counts before all is there (rule J4).
type Loading struct {
	w      *Worker
	commit journal.Commit
	floor  int64
	chains map[admit.Chain]*loadedChain
	order  []admit.Chain
	times  []loadedTimes
	bytes  int64 // of memory
	blocks int
}

// loadedChain is the blocks of a chain, and the most that one of their writers knew of its tail.
type loadedChain struct {
	blocks   []binning.Block
	appended []appended
	tail     journal.Tail

	inMemory int // bytes of the blocks that are not on a shelf
}

// loadedTimes is a record with times of a device.
type loadedTimes struct {
	at     int64
	record journal.Record
}

const loadedTimesBytes = 240

// loadedBytes is the memory of a chain while it is loaded, beside its blocks.
const loadedBytes = 300

// Load begins to load what a commit counts on; floor is the offset that was committed with it. The Worker is a new one
// with the floor as its position: until Done it is asked for nothing but heads.
func (w *Worker) Load(c journal.Commit, floor int64) *Loading {
	w.journal.loading = &Loading{w: w, commit: c, floor: floor, chains: map[admit.Chain]*loadedChain{}}
	return w.journal.loading
}

// Take takes a record of the journal; counts is set if its rows are to be loaded. It fails with
// journal.ErrNotWhole when the rows can't be read.
func (l *Loading) Take(at int64, r *journal.Record, counts bool) error {
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
	if r.Tail.Known && (!c.tail.Known || r.Tail.Chunks > c.tail.Chunks) {
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
	b, err := l.w.names.schemas.Block(binning.Block{
		Rows: r.Rows, Values: r.Values, First: r.First, Through: r.Through, From: r.From, To: r.To,
	}, r.Data)
	if err != nil {
		return fmt.Errorf("%w: the block at %d: %w", journal.ErrNotWhole, at, err)
	}
	c.blocks = append(c.blocks, b)
	c.appended = append(c.appended, appended{at, r.Through})
	c.inMemory += b.Bytes()
	l.bytes += int64(b.Bytes()) + appendedBytes
	if l.blocks++; l.blocks%countEvery == 0 {
		l.w.countMemory()
	}
	if shelf := l.w.cfg.Shelf; shelf != nil && c.inMemory >= 2*leastShelved && l.w.memory.short() {
		// What the shelf does not take stays in memory.
		freed, _ := binning.Shelve(c.blocks, shelf)
		l.bytes -= int64(freed)
		c.inMemory = 0
	}
	return nil
}

// countEvery is after how many blocks memory is counted anew.
const countEvery = 32

// Done has the Worker go on with what was loaded: each record once, of those from the floor on and below F. last is the
// append that was loaded last. It fails when a shelf has lost rows, or a block can't be read: then the Worker is of no
// use.
func (l *Loading) Done(last journal.Link, now time.Time) error {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range l.order {
		if err := l.restore(key, l.chains[key], now); err != nil {
			return err
		}
		delete(l.chains, key)
	}
	w.journal.blocks.Resume(last)
	w.journal.times.end = l.commit.To
	for i := range l.times {
		x := &l.times[i]
		w.loadTimes(x.at, &x.record, l.commit.From+(l.commit.To-l.commit.From)/2)
	}
	w.journal.loading, w.erasing.unapplied = nil, true
	w.log.Position = max(w.log.Position, l.commit.F)
	return nil
}

// restore returns the open bin of a chain as it was. The caller holds the lock.
func (l *Loading) restore(key admit.Chain, x *loadedChain, now time.Time) error {
	w, from := l.w, l.floor
	if x.tail.Known && x.tail.Chunks > 0 {
		from = max(from, x.tail.Through+1)
	}
	blocks, err := w.names.schemas.Merge(x.blocks, from, l.commit.F)
	if err != nil {
		return err
	}
	if len(blocks) == 0 && (!x.tail.Known || x.tail.Chunks == 0 || x.tail.Chunks > math.MaxUint32) {
		return nil
	}
	d := w.registry.device(key.Tenant, key.Device)
	c := w.open(d, key.Day, now)
	if x.tail.Known {
		c.hint(&x.tail)
		c.generation = w.generation
		w.log.suspect = max(w.log.suspect, c.tail)
	}
	for i := range blocks {
		w.updates.ObserveBlock(&d.Device, &blocks[i], i > 0 && blocks[i].SameSchema(&blocks[i-1]))
	}
	w.registry.countDevice(d)
	if len(blocks) > 0 {
		due, budget := w.cfg.due(c, now), w.cfg.budget(c)
		c.restore(binning.BinOf(w.names.metrics, blocks), due)
		c.budget = budget
		c.journaled.through, c.journaled.under = c.bin.Through(), c.bin.Through()
		for _, b := range x.appended {
			if b.through >= from {
				c.journaled.blocks = append(c.journaled.blocks, appended{b.at, min(b.through, c.bin.Through())})
				w.journal.blocks.Loaded(b.at)
			}
		}
	}
	w.file(c)
	return nil
}
