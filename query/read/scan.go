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

// scan reads the chunks of a target that may have rows in r. It is safe for any number of callers. An error of take
// ends it and is returned as it is; take owns the piece in any case.
func (q *Query) scan(ctx context.Context, t target, r telemetry.Range, take func(*Piece) error) error {
	_, _, err := q.scanSince(ctx, t, store.Window{Range: r}, take)
	return err
}

// scanSince scans without what was stored before a second, by the service's clock. It reports whether a container is
// gone in which chunks were found before.
func (q *Query) scanSince(ctx context.Context, t target, w store.Window,
	take func(*Piece) error) (usage store.Usage, gone bool, err error) {
	covered := int64(0)
	usage, gone, err = q.scanTarget(ctx, t, store.Scan{Range: w.Range, Since: w.Since}, func(p *Piece) error {
		covered += p.To - p.From
		return take(p)
	})
	if over := days(w.Range, q.r.cfg.Now().UnixMilli()); err == nil && w.Since == 0 && over > 0 {
		q.r.history.add(q.req.Tenant, t, yieldOf(t, usage, over, float64(covered)/telemetry.DayMillis))
	}
	return usage, gone, err
}

// scanWindows scans several ranges, each without what was stored before its second.
func (q *Query) scanWindows(ctx context.Context, t target, w []store.Window, take func(*Piece) error) error {
	_, _, err := q.scanTarget(ctx, t, store.Scan{Windows: w}, take)
	return err
}

// scanTarget makes a scan of a target.
func (q *Query) scanTarget(ctx context.Context, t target, s store.Scan,
	take func(*Piece) error) (usage store.Usage, gone bool, err error) {
	var own error // of take or charge, which Scan returns as it is
	q.cost.visit(t.Key)
	s.Key, s.Devices, s.Descending = t.Key, t.devices, q.req.Order == Descending
	s.Charge = func(rus float64) error {
		own = q.charge(rus)
		return own
	}
	usage, err = q.r.cfg.Chunks.Scan(ctx, s, func(doc []byte) error {
		p, err := q.piece(t, doc)
		switch {
		case err != nil:
		case q.plan.tenant.Placement.Holds(t.Key, p.Device, p.Chunk.Header.ID.Day) &&
			!q.visible.hides(p.Device, p.Chunk.Header.ID.Day):
			err = take(p)
		default: // another epoch has the day, or it is hidden: the chunk is no part of the tenant's data
			p.Release()
		}
		own = err
		return err
	})
	q.cost.add(Stats{RequestUnits: usage.RUs, Documents: usage.Documents})
	q.explain(func(e *Explained) { e.Scans = append(e.Scans, explainedScan(s, usage)) })
	switch {
	case own != nil:
		return usage, false, own
	case errors.Is(err, store.ErrNoContainer):
		_, before := q.r.containersSeen.Load(t.Container)
		before = before || usage.Documents > 0
		return usage, before, q.withoutContainer(ctx, t.Container, before)
	case err != nil:
		what := fmt.Sprintf("read chunks of %q, %q in %s", t.TenantShard, t.Device, t.Container)
		return usage, false, Unavailable(ctx, what, err)
	}
	if usage.Documents > 0 {
		q.r.containersSeen.Store(t.Container, true)
	}
	return usage, false, nil
}

// piece parses a chunk, of the metrics that are asked for.
func (q *Query) piece(t target, doc []byte) (*Piece, error) {
	c, err := chunk.ParseColumns(doc, q.req.Metrics)
	if err == nil {
		err = t.answers(c.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("read chunks of %q, %q in %s: %w", t.TenantShard, t.Device, t.Container, err)
	}
	p := q.pieceOf(c)
	return p, q.Memory.Take(p.bytes)
}

// pieceOf returns a chunk as a piece. Its memory is not counted yet.
func (q *Query) pieceOf(c *chunk.Chunk) *Piece {
	h := &c.Header
	return &Piece{
		Device: h.Device, Source: store.Source{Stream: h.ID.Stream, Partition: h.ID.Partition, Through: h.Through},
		From: h.From, To: h.To, Chunk: c,
		query: q, memory: q.Memory, bytes: pieceBytes + int64(c.Bytes()) + columnBytes*int64(c.NumColumns()),
	}
}

// answers fails if a chunk is not what the scan asked for: a store that answers more must not show one tenant, or
// device, the rows of another.
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

// withoutContainer decides what a missing container means. One without chunks so far may not be made yet. One with
// chunks has expired, or this is an error.
func (q *Query) withoutContainer(ctx context.Context, container string, before bool) error {
	if !before {
		return nil
	}
	v, err := q.r.cfg.Directory.Refresh(ctx)
	if err != nil {
		return Unavailable(ctx, "read the snapshot of tenants", err)
	}
	if v.HasContainer(container) {
		return Unavailable(ctx, "read "+container, store.ErrNoContainer)
	}
	return nil
}

// cost counts what a query costs. It is safe for any number of callers but for headRows and reread, which belong to the
// query's goroutine.
type cost struct {
	headRows int
	reread   int

	mu         sync.Mutex // guards below
	spent      float64    // also by scans under way
	sum        Stats      // but for what the others say
	keys       map[sharding.Key]bool
	containers map[string]bool
}

func (t *cost) visit(key sharding.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys, t.containers = make(map[sharding.Key]bool), make(map[string]bool)
	}
	t.keys[key], t.containers[key.Container] = true, true
}

// spend counts the charge of a request, and fails if all together exceed most.
func (t *cost) spend(rus, most float64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spent += rus; t.spent > most {
		return errRUs
	}
	return nil
}

func (t *cost) add(s Stats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum = t.sum.Plus(s)
}

func (t *cost) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.sum
	out.Keys, out.Containers, out.HeadRows, out.Reread = len(t.keys), len(t.containers), t.headRows, t.reread
	return out
}

// charge counts the charge of a request, and fails if the query may not go on.
func (q *Query) charge(rus float64) error {
	err := q.cost.spend(rus, q.r.cfg.MaxRUs)
	if err == nil && q.req.Continue != nil {
		err = q.req.Continue()
	}
	return err
}
