package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// scan reads the chunks of one target that may have rows in r. It is safe for any number of callers. An error of take
// ends it and is returned as it is; take owns the piece in any case.
func (q *Query) scan(ctx context.Context, t target, r telemetry.Range, take func(*Piece) error) error {
	var own error // of what is called below, which Scan hands back
	q.tally.visit(t.Key)
	usage, err := q.r.cfg.Chunks.Scan(ctx, store.Scan{
		Key: t.Key, Devices: t.devices, Range: r, Descending: q.req.Order == Descending,
		Charge: func(rus float64) error {
			own = q.tally.spend(rus, q.r.cfg.MaxRUs)
			return own
		},
	}, func(doc []byte) error {
		p, err := q.piece(t, doc)
		if err == nil {
			err = take(p)
		}
		own = err
		return err
	})
	q.tally.charge(usage)
	switch {
	case own != nil:
		return own
	case errors.Is(err, store.ErrNoContainer):
		return q.withoutContainer(ctx, t.Container, usage.Documents > 0)
	case err != nil:
		return Unavailable(ctx, fmt.Sprintf("read chunks of %q, %q in %s", t.TenantShard, t.Device, t.Container), err)
	}
	if usage.Documents > 0 {
		q.r.found.Store(t.Container, true)
	}
	return nil
}

// piece parses a chunk, once for all who see it.
func (q *Query) piece(t target, doc []byte) (*Piece, error) {
	c, err := chunk.ParseColumns(doc, q.req.Metrics)
	if err == nil {
		err = t.answers(c.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("read chunks of %q, %q in %s: %w", t.TenantShard, t.Device, t.Container, err)
	}
	h := &c.Header
	p := &Piece{
		Device: h.Device, Source: store.Source{Stream: h.ID.Stream, Partition: h.ID.Partition, Through: h.Through},
		From: h.From, To: h.To, Chunk: c,
		memory: q.Memory, bytes: pieceBytes + int64(c.Bytes()) + columnBytes*int64(c.NumColumns()),
	}
	return p, q.Memory.Take(p.bytes)
}

// answers holds a chunk against what was asked for: a store that answers more must not show one tenant, or device, the
// rows of another.
func (t target) answers(h chunk.Header) error {
	ok := h.TenantShard == t.TenantShard
	if t.Device != "" {
		ok = ok && h.Device == t.Device
	} else if t.devices != nil {
		_, named := slices.BinarySearch(t.devices, h.Device)
		ok = ok && named
	}
	if !ok {
		return fmt.Errorf("%w: chunk %s is of %q, %q", chunk.ErrCorrupt, h.ID, h.TenantShard, h.Device)
	}
	return nil
}

// withoutContainer decides what it means that a container is missing. One that was asked for may not be made yet: then
// nothing is in it. One in which there was something is gone: because it has expired, or there is no answer.
func (q *Query) withoutContainer(ctx context.Context, container string, began bool) error {
	if _, before := q.r.found.Load(container); !before && !began {
		return nil
	}
	v, err := q.r.cfg.Directory.Refresh(ctx)
	if err != nil {
		return Unavailable(ctx, "read the map of tenants", err)
	}
	if v.HasContainer(container) {
		return Unavailable(ctx, "read "+container, store.ErrNoContainer)
	}
	return nil
}

// tally counts what a query costs. It is safe for any number of callers but for headRows and reread, which the query's
// own goroutine counts.
type tally struct {
	headRows int
	reread   int

	mu         sync.Mutex // guards below
	spent      float64    // so far, also of scans under way
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

// spend counts what a request has cost and fails when all together are more than the most.
func (t *tally) spend(rus, most float64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spent += rus; t.spent > most {
		return errRUs
	}
	return nil
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
		RequestUnits: t.rus, Documents: t.documents, Keys: len(t.keys), Containers: len(t.containers),
		HeadRows: t.headRows, Reread: t.reread,
	}
}
