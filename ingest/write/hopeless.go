package write

import (
	"binnacle/binning"
	"binnacle/ingest/bins"
	"cmp"
	"fmt"
	"slices"
	"time"
)

// hopeless is for how long a container is missing before what is to go there gives way when memory is full, if the
// store takes other things: else it is an outage, which will end, and for which everything waits.
const hopeless = 10 * time.Minute

// Abandon turns rows that can't be written into dead letters, first those of the largest chains, until there is room.
func (w *Writer) Abandon(over int64, now time.Time) {
	if now.Sub(w.Queue.searched) < time.Second {
		return // it looks through all stalled chains
	}
	w.Queue.searched = now
	var hold []*bins.Chain
	w.bins.Index.Acting.UpTo(func(*bins.Chain) bool { return true }, func(c *bins.Chain) {
		if c.Phase == bins.Stalled && c.Doomed() {
			over -= int64(bins.Size(&c.Flight.Rows))
		} else if c.Phase == bins.Stalled && w.Queue.isHopeless(c, now) {
			hold = append(hold, c)
		}
	})
	slices.SortFunc(hold, func(a, b *bins.Chain) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(a.First, b.First))
	})
	for _, c := range hold {
		if over <= 0 {
			return
		}
		why := fmt.Sprintf("%s since %s, and memory is full", c.Stall.Fault, c.Stall.Since.Time().UTC().Format(time.RFC3339))
		if c.Flight == nil {
			rows, rest := c.Bin, binning.Bin{}
			if rows.Readings() > maxPublish {
				var err error
				if rows, rest, err = c.Bin.SplitAt(maxPublish, w.bins.Names.Schemas); err != nil {
					w.bins.Lose(err)
					return
				}
			}
			w.bins.Lock()
			c.Abandon(rows, rest)
			w.bins.Unlock()
		}
		over -= int64(bins.Size(&c.Flight.Rows))
		w.RejectFlight(c, why, now)
	}
}

// isHopeless reports whether a chain that has stalled had better give way.
func (q *writeQueue) isHopeless(c *bins.Chain, now time.Time) bool {
	switch c.Stall.Fault {
	case bins.KeyFull:
		return true
	case bins.NoContainer:
		l := q.queueOf(c)
		return now.Sub(l.since) >= hopeless && q.success.After(l.since) && !q.troubled()
	}
	return false
}
