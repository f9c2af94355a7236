package write

import (
	"binnacle/ingest/bins"
	"binnacle/internal/erasure"
	"binnacle/internal/telemetry"
	"time"
)

// horizon keeps rules E-R3 and E-R5: which rows may be cut under the snapshot at hand.
type horizon struct {
	at erasure.Partition
	// Rows below offset were fetched before the read of the snapshot began. It counts where bounded is set.
	Bounded bool
	Offset  int64
}

// isNew reports whether the chain has rows that were fetched after the read of the snapshot began.
func (h *horizon) isNew(c *bins.Chain) bool { return h.Bounded && c.Bin.Through() >= h.Offset }

// Through returns the last offset that orders erase of a chain, -1 for none (rule E-R2).
func (h *horizon) Through(orders erasure.List, device string, day telemetry.Day) int64 {
	if len(orders) == 0 {
		return -1
	}
	return orders.Through(device, day, h.at)
}

// isFresh reports whether the snapshot is newer than the rows to cut (rule E-R3). If not, the rows that there are now
// wait for a newer snapshot: later rows must not put the cut off without end.
func (w *Writer) isFresh(c *bins.Chain, now time.Time) bool {
	if !w.Horizon.isNew(c) {
		return true
	}
	if c.Fresh <= c.Bin.First() {
		c.Fresh = w.bins.Log.Position
		if c.Seal == bins.Unsealed {
			c.ChosenAt = now.UnixMilli()
		}
	}
	return c.Fresh <= w.Horizon.Offset
}
