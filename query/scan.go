package query

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// scan reads the chunks of one visit that may have rows in r. It is safe for any number of callers. An error of yield
// ends it and is returned as it is.
func (a *answer) scan(ctx context.Context, v sharding.Visit, r telemetry.Range, yield func(c *chunk.Chunk, doc []byte) error) error {
	var own error // of the yield below, which Scan hands back
	a.tally.visit(v.Key)
	usage, err := a.q.cfg.Reader.Scan(ctx, store.Scan{Key: v.Key, Range: r, Descending: a.r.Descending}, func(doc []byte) error {
		c, err := chunk.Parse(doc)
		if err == nil {
			err = belongs(c.Header, v.Key)
		}
		if err != nil {
			own = fmt.Errorf("read chunks of %q, %q in %s: %w", v.TenantShard, v.Device, v.Container, err)
			return own
		}
		own = yield(c, doc)
		return own
	})
	a.tally.charge(usage)
	switch {
	case own != nil:
		return own
	case errors.Is(err, store.ErrNoContainer) && usage.Documents == 0:
		return nil // asked for, and not made yet
	case err != nil:
		return unavailable(ctx, fmt.Sprintf("read chunks of %q, %q in %s", v.TenantShard, v.Device, v.Container), err)
	}
	return nil
}

// belongs holds a chunk against the key that was asked for: a reader that answers more must not show one tenant, or
// device, the rows of another.
func belongs(h chunk.Header, key sharding.Key) error {
	if h.TenantShard != key.TenantShard || (key.Device != "" && h.Device != key.Device) {
		return fmt.Errorf("%w: chunk %s is of %q, %q", chunk.ErrCorrupt, h.ID, h.TenantShard, h.Device)
	}
	return nil
}

// newWaiting is a chunk as the merger takes it, but for what is kept of it.
func (a *answer) newWaiting(h chunk.Header) waiting {
	w := waiting{
		pos: a.dir.at(h.From), device: h.Device, id: h.ID,
		source: store.Source{Stream: h.ID.Stream, Partition: h.ID.Partition, Through: h.Through},
	}
	if a.dir == descending {
		w.pos = a.dir.at(h.To)
	}
	return w
}

// tally counts what scans cost. It is safe for any number of callers; headRows is set before the first scan.
type tally struct {
	headRows int

	mu         sync.Mutex // guards below
	rus        float64
	documents  int
	keys       map[sharding.Key]bool
	containers map[string]bool
}

func (t *tally) visit(key sharding.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys, t.containers = make(map[sharding.Key]bool), make(map[string]bool)
	}
	t.keys[key], t.containers[key.Container] = true, true
}

func (t *tally) charge(u store.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rus += u.RUs
	t.documents += u.Documents
}

func (t *tally) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{
		RequestUnits: t.rus, Documents: t.documents, Keys: len(t.keys), Containers: len(t.containers), HeadRows: t.headRows,
	}
}
