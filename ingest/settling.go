package ingest

import (
	"sync/atomic"
	"time"

	"binnacle/internal/store"
)

// takenOver is what takeovers leave in a partition.
type takenOver struct {
	// restored is set once its bins have all rows that the commit counts on, or these can't be had: before, reading
	// must not continue. Owned by takeovers.
	restored bool
	settled  atomic.Pointer[time.Time] // until when replicas may lack what former owners stored; nil: they stored nothing
}

// settle notes a takeover of a partition of which records below a position were committed, at the time when the commit
// was read. A replica may lack a former owner's chunks of these records for a moment, and neither head shows their rows
// (rule R1).
func (p *partition) settle(read time.Time, position int64) {
	if position > 0 {
		until := read.Add(p.in.cfg.Linger)
		p.takeover.settled.Store(&until)
	}
}

// hideTakeover makes a head not caught up until former owners' chunks can be read.
func (p *partition) hideTakeover(head *store.PartitionHead) {
	if until := p.takeover.settled.Load(); until != nil && p.in.cfg.Now().Before(*until) {
		head.CaughtUp = max(head.CaughtUp, head.Position+1)
	}
}
