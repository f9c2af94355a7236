package bins

import (
	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/retry"
	"time"
)

// BinsConfig is how Bins works.
type Config struct {
	Topic     string
	Partition int32
	Stream    uint32
	// Owner names this stay of the partition in this process among all of them. 0: heads do not number bins.
	Owner uint64
	// Hold is the longest time that a reading waits in a bin, and MaxBehind how many records a bin may hold back.
	Hold      time.Duration
	MaxBehind int64
	// Linger is how long a chunk stays in the head after it was acknowledged.
	Linger time.Duration
	// Journal says that rows of open bins go to a journal.
	Journal bool
	// CatalogEvery is how often times are written to the catalog, negative: with every chunk. CatalogWait is the time
	// between two updates.
	CatalogEvery, CatalogWait time.Duration
	// Retry returns the pauses between attempts at an update of the catalog.
	Retry func(least time.Duration) retry.Schedule
}

// Due returns the latest time at which a bin that gets its first reading now is cut.
//
// Where a bin may wait for half a day, its day decides: the fewer chunks a day is cut into, the cheaper they are, and
// a device that reports seldom fills not even one. The bin of a day that is not over waits until it is, and then the
// part of the hold that is the device's own: at midnight nothing is cut, and in the hold that follows each moment as
// much as any other. docs/internals/adr has the reckoning.
func (cfg *Config) Due(c *Chain, now time.Time) time.Time {
	if c.Bin.Readings() > 0 {
		return c.Due.Time()
	}
	first := binning.FirstHold(c.Device.ID, cfg.Hold)
	if end := time.UnixMilli(c.Day.End()); cfg.waitsForDay() && now.Before(end) {
		return end.Add(first)
	}
	late := now.Sub(c.Due.Time())
	switch {
	case !c.begun:
		return now.Add(first)
	case c.every > 0 && late > 2*time.Duration(c.every)*time.Millisecond:
		// The device was away, and a fleet that returns together must not come due together: each keeps its phase.
		return now.Add(cfg.Hold - late%cfg.Hold)
	}
	return now.Add(cfg.Hold)
}

// LongHold is the hold from which on bins wait for the end of their day.
const LongHold = 12 * time.Hour

func (cfg *Config) waitsForDay() bool { return cfg.Hold >= LongHold }

// isFull reports whether the bin, which has grown, must be cut for its size, and nothing has asked for a cut yet.
func (cfg *Config) isFull(c *Chain, now time.Time) bool {
	values := c.Bin.Values()
	switch {
	case c.Want != 0 && c.Phase != filling:
		return false
	case Crowded(c):
		return true
	case values < int(c.trial) || !c.Device.Sizer.Full(values, c.Bin.Width()):
		return false
	case cfg.lastsTheDay(c, now):
		c.trial = int32(values + values/16)
		return false
	}
	return true
}

// lastsTheDay reports whether the rest of the day fits the document too, at the pace of the bin so far: one larger
// document is cheaper than one at the target and a small one.
func (cfg *Config) lastsTheDay(c *Chain, now time.Time) bool {
	if !cfg.waitsForDay() || now.UnixMilli() >= c.Day.End() {
		return false
	}
	from, to := c.Bin.Span()
	if to <= from {
		return false
	}
	grown := float64(c.Day.End()-from) / float64(to-from)
	return c.Device.Sizer.FitsOne(int(grown*float64(c.Bin.Values())), c.Bin.Width())
}

// Budget returns how many records such a bin may hold back the committed offset: as with the hold, the first one of a
// chain a part of them, or a fleet that begins a day together would be cut together.
func (cfg *Config) Budget(c *Chain) int64 {
	if c.begun {
		return cfg.MaxBehind
	}
	return int64(binning.FirstHold(c.Device.ID, time.Duration(cfg.MaxBehind)))
}

// Crowded reports whether a bin has readings or values enough, however small they are when encoded, that it must be
// cut: half of what a chunk takes.
func Crowded(c *Chain) bool {
	return c.Bin.Readings() >= chunk.MaxRows/2 || c.Bin.Values() >= chunk.MaxValues/2
}
