package bins

import (
	"binnacle/binning"
	"binnacle/ingest/catalogupdates"
	"binnacle/internal/telemetry"
	"time"
)

// Take puts readings of the record at an offset into their bins, except readings that the store has (rule W4), and the
// position behind it. It returns the chains with a full bin, until the next call, and how many readings the store has.
func (b *Bins) Take(offset int64, readings []telemetry.Reading, now time.Time) (full []*Chain, replayed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = b.full[:0]
	for i := range readings {
		if !b.take(offset, &readings[i], now) {
			replayed++
		}
	}
	b.Log.Position = max(b.Log.Position, offset+1)
	return b.full, replayed
}

// take puts a reading into its bin, unless the store has it (rule W4), and reports whether it does. The caller holds
// the lock.
func (b *Bins) take(offset int64, r *telemetry.Reading, now time.Time) (taken bool) {
	d := b.deviceOf(r)
	day := telemetry.DayOf(r.Time)
	c := d.chain(day)
	if c == nil {
		c = b.Open(d, day, now)
	}
	if c.KnownIn(b.Generation) && offset <= c.Tail {
		b.observe(d, catalogupdates.Shown{Reading: r, Offset: offset})
		b.Updates.ObserveStored(&d.Device, offset)
		b.Journaled.Times.Stored(c, StoredRows{offset, offset, Span{r.Time, r.Time}})
		return false
	}
	before, ripe := c.Phase, binning.BlockRows
	if len(c.Bin.Blocks()) == 0 {
		ripe = binning.FirstBlock(d.ID)
	}
	if c.Bin.Readings() == 0 {
		if c.Closed() {
			c.open = newOpen()
		}
		c.Bin, c.Budget = binning.NewBin(b.Names.Metrics), b.Cfg.Budget(c)
	} else if c.Bin.Ripe(offset, ripe) {
		through := c.Journaled.Under // the journal gets each row once, unless an append fails
		if !b.Journaled.On {
			through = offset
		}
		c.Bin.Join(c.loaded, through, binning.JoinedRows)
		if c.Bin.Seal(b.Names.Schemas) {
			b.Journaled.Offer(c)
		}
	}
	repeats := c.take(offset, r, b.Cfg.Due(c, now))
	b.observe(d, catalogupdates.Shown{Reading: r, Offset: offset, Repeats: repeats})
	c.Used = now.UnixMilli()
	if c.Phase != before || c.Bin.Readings() == 1 || b.Journaled.On && c.Journaled.Loose == noOffset {
		b.File(c)
	} else {
		b.Index.Count(c)
	}
	if b.Cfg.isFull(c, now) {
		b.full = append(b.full, c)
	}
	return true
}

// Seal makes a block of the open rows of a bin that gets few more, unless they are as few as a block's price.
func (b *Bins) Seal(c *Chain) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Bin.Open().Readings() >= binning.BlockRows/8 && c.Bin.Seal(b.Names.Schemas) {
		b.Index.Count(c)
	}
}

// Shelve puts the blocks of a bin on a shelf, and returns how much memory that has freed.
func (b *Bins) Shelve(c *Chain, shelf binning.Shelf) (freed int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.Index.Count(c)
	return c.Bin.Shelve(shelf, c.loaded)
}

// observe records for the catalog what a reading shows of its device. The caller holds the lock.
func (b *Bins) observe(d *Device, x catalogupdates.Shown) {
	if b.Updates.Observe(&d.Device, x) {
		b.CountDevice(d)
	}
}
