package bins

import (
	"binnacle/ingest/admit"
	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
	"sync"
	"time"
)

// Bins is the open bins of one partition, by tenant, device and day, with the tails of the chunks before them. It
// decides nothing: a bin grows, is cut, and is forgotten when its owner says so. What the journal and the catalog
// have of the rows is counted here, since both hold back offsets for them.
//
// One goroutine owns it. Other goroutines may only call methods with a comment that says so.
type Bins struct {
	Cfg Config

	// mu guards what heads show: log.Position and log.CaughtUp, each chain's bin, flight and linger, the counts of what is
	// stored, and the tenants with their devices.
	mu       sync.Mutex
	Log      Log
	Tenants  map[string]*tenant
	versions uint64 // the version from which the next tenant counts
	Stored   storedCounts

	recent  *tenant // the last reading's
	Bytes   int64   // memory of devices and chains, without open bins
	Visited int     // devices that heads have visited

	Index     index
	Names     names
	Journaled JournalIndex
	Updates   catalogupdates.Updates
	// Generation counts assignments: tails that were read in an earlier one may be out of date.
	Generation uint32
	forgotten  telemetry.Day // the last day with a forgotten chain: chains up to it may have chunks
	gone       []Gone
	full       []*Chain
	lost       error // why the worker must stop
}

// New returns Bins without readings. The log is known and read so far.
func New(cfg Config, log admit.Log) *Bins {
	b := &Bins{
		Cfg: cfg, Log: Log{Suspect: -1, Log: log}, Tenants: map[string]*tenant{}, Generation: 1, forgotten: noDay,
		Stored: storedCounts{Count: 1, exact: 1}, Index: newIndex(), Names: NewNames(), Journaled: newJournalIndex(&cfg),
	}
	b.Updates = catalogupdates.New(catalogupdates.Config{
		Every: cfg.CatalogEvery, Wait: cfg.CatalogWait, Linger: cfg.Linger, Retry: cfg.Retry,
	})
	b.Updates.Assign(0, time.UnixMilli(log.Assigned))
	return b
}

// Lock keeps other goroutines from seeing what heads show while the owner changes it.
func (b *Bins) Lock() { b.mu.Lock() }

// Unlock ends Lock.
func (b *Bins) Unlock() { b.mu.Unlock() }

// NextUpdates returns the updates of the catalog that are due; with hurry they wait for no other devices.
func (b *Bins) NextUpdates(now time.Time, hurry bool) []*catalogupdates.Update {
	due := b.Updates.Next(now, hurry)
	if b.Updates.Changed() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.Updates.Show(func(tenant, device string) { b.ForgetUnused(b.Tenants[tenant].ByID[device]) })
	}
	return due
}

// File puts a chain where it belongs after a transition, and gives up blocks of the journal that it no longer needs.
func (b *Bins) File(c *Chain) {
	if b.Journaled.On {
		b.Journaled.Track(c)
	}
	b.Index.file(c)
}

// LetGo drops rows of a chain that have lingered, and frees the memory of the open bin of an idle chain.
func (b *Bins) LetGo(c *Chain, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Linger.LetGo(now) {
		b.Stored.Unexplained()
	}
	if b.File(c); c.isIdle() {
		b.Index.close(c)
	}
}

// EraseRows drops the rows of a chain up to an offset, but for those in flight: their document lies below the order's
// position, and the sweep finds it. The caller holds the lock.
func (b *Bins) EraseRows(c *Chain, through int64) {
	b.Lose(c.eraseUpTo(through, b.Names.Schemas))
	b.File(c)
}

// Lose records the first non-nil err as the reason why the worker must stop: rows that it held are lost here, though
// neither in the log nor in the journal.
func (b *Bins) Lose(err error) {
	if err != nil && b.lost == nil {
		b.lost = err
	}
}

// TakeGone returns the devices that were forgotten since it was called last.
func (b *Bins) TakeGone() []Gone {
	gone := b.gone
	b.gone = b.gone[:0]
	return gone
}

// Lost returns why the worker must stop, nil as a rule. Then the partition must be taken over again.
func (b *Bins) Lost() error { return b.lost }

// SetUnits records units that a record gives. One of the tenant's devices with such a metric has the catalog updated.
func (b *Bins) SetUnits(offset int64, units []decode.Unit) {
	if len(units) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range units {
		t := b.Tenants[u.Tenant]
		if t == nil || !t.SetUnit(u.Metric, u.Unit) {
			continue
		}
		for _, d := range t.Devices {
			if d != nil && d.Reports(u.Metric) {
				b.Updates.Require(&d.Device, offset)
				break
			}
		}
	}
}

// Skip moves the position past offsets that hold no record, such as a transaction's markers.
func (b *Bins) Skip(next int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Log.Position = max(b.Log.Position, next)
}

// Suspect returns the highest tail read from the store that lies at or above both the position and every end of the log
// seen: it proves another incarnation of the log when the log ends at or below it (rule W9). ok is false when there is
// none.
func (b *Bins) Suspect() (tail int64, ok bool) {
	if b.Log.Suspect < max(b.Log.Position, b.Log.End) {
		return 0, false
	}
	return b.Log.Suspect, true
}

// SetLogEnd records an end of the log: the offset after its last record.
func (b *Bins) SetLogEnd(end int64) { b.Log.End = max(b.Log.End, end) }
