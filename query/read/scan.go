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
	_, _, err := q.scanSince(ctx, t, r, 0, take)
	return err
}

// scanSince is scan without what was stored before a second, by the store's clock. It reports whether there is no
// container any more where chunks were found before.
func (q *Query) scanSince(ctx context.Context, t target, r telemetry.Range, since int64,
	take func(*Piece) error) (usage store.Usage, gone bool, err error) {
	usage, gone, err = q.scanTarget(ctx, t, store.Scan{Range: r, Since: since}, take)
	if err == nil && since == 0 {
		q.r.history.add(q.req.Tenant, t, days(r, q.r.cfg.Now().UnixMilli()), usage.Documents, usage.RUs)
	}
	return usage, gone, err
}

// scanWindows is scan for several ranges, each with what was stored since then alone.
func (q *Query) scanWindows(ctx context.Context, t target, w []store.Window, take func(*Piece) error) error {
	_, _, err := q.scanTarget(ctx, t, store.Scan{Windows: w}, take)
	return err
}

// scanTarget makes a scan of a target.
func (q *Query) scanTarget(ctx context.Context, t target, s store.Scan, take func(*Piece) error) (usage store.Usage, gone bool,
	err error) {
	var own error // of what is called below, which Scan hands back
	q.cost.visit(t.Key)
	s.Key, s.Devices, s.Descending = t.Key, t.devices, q.req.Order == Descending
	s.Charge = func(rus float64) error {
		own = q.charge(rus)
		return own
	}
	usage, err = q.r.cfg.Chunks.Scan(ctx, s, func(doc []byte) error {
		p, err := q.piece(t, doc)
		if err == nil {
			err = take(p)
		}
		own = err
		return err
	})
	q.cost.addUsage(usage)
	q.explainScan(explainedScan(s, usage))
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

// piece parses a chunk, once for all who see it.
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

// pieceOf is a chunk as a piece, whose memory is not taken yet.
func (q *Query) pieceOf(c *chunk.Chunk) *Piece {
	h := &c.Header
	return &Piece{
		Device: h.Device, Source: store.Source{Stream: h.ID.Stream, Partition: h.ID.Partition, Through: h.Through},
		From: h.From, To: h.To, Chunk: c,
		query: q, memory: q.Memory, bytes: pieceBytes + int64(c.Bytes()) + columnBytes*int64(c.NumColumns()),
	}
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
func (q *Query) withoutContainer(ctx context.Context, container string, before bool) error {
	if !before {
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

// cost counts what a query costs. It is safe for any number of callers but for headRows and reread, which the query's
// own goroutine counts.
type cost struct {
	headRows int
	reread   int

	mu            sync.Mutex // guards below
	spent         float64    // so far, also of scans under way
	rus           float64
	documents     int
	cached        int
	rollups       int
	rollupsCached int // documents of lanes that were read before
	saved         float64
	keys          map[sharding.Key]bool
	containers    map[string]bool
}

func (t *cost) visit(key sharding.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys, t.containers = make(map[sharding.Key]bool), make(map[string]bool)
	}
	t.keys[key], t.containers[key.Container] = true, true
}

// spend counts what a request has cost and fails when all together are more than the most.
func (t *cost) spend(rus, most float64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spent += rus; t.spent > most {
		return errRUs
	}
	return nil
}

func (t *cost) addUsage(u store.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rus += u.RUs
	t.documents += u.Documents
}

func (t *cost) addCached(documents int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cached += documents
}

// addRollups counts documents of lanes: read now for so much, and read before.
func (t *cost) addRollups(u store.Usage, kept int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rus += u.RUs
	t.rollups += u.Documents
	t.rollupsCached += kept
}

// addSaved counts request units that lanes have saved.
func (t *cost) addSaved(rus float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved += rus
}

func (t *cost) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{
		RequestUnits: t.rus, Documents: t.documents, Cached: t.cached, Keys: len(t.keys), Containers: len(t.containers),
		HeadRows: t.headRows, Reread: t.reread, Rollups: t.rollups, RollupsCached: t.rollupsCached,
		RollupsSaved: t.saved,
	}
}

// charge counts what a request has cost, and fails when the query may not go on.
func (q *Query) charge(rus float64) error {
	err := q.cost.spend(rus, q.r.cfg.MaxRUs)
	if err == nil && q.req.Continue != nil {
		err = q.req.Continue()
	}
	return err
}
