package chunks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
)

// scan reads the chunks of a target that may have rows in r. It is safe for any number of callers. An error of take
// ends it and is returned as it is; take owns the piece in any case.
func (q *Query) scan(ctx context.Context, t plan.Target, r telemetry.Range, take func(*piece.Piece) error) error {
	_, _, err := q.scanTarget(ctx, t, store.Scan{Range: r}, take)
	return err
}

// scanTarget makes a scan of a target. It reports whether a container is gone that had chunks before.
func (q *Query) scanTarget(ctx context.Context, t plan.Target, s store.Scan,
	take func(*piece.Piece) error) (usage store.Usage, gone bool, err error) {
	covered := int64(0)
	var own error // take's or charge's error, which Scan returns unchanged
	q.Account.Visit(t.Key)
	s.Key, s.Devices, s.Descending = t.Key, t.Devices, q.Request.Order == piece.Descending
	s.Charge = func(rus float64) error {
		own = q.Account.Charge(rus)
		return own
	}
	usage, err = q.r.cfg.Chunks.Scan(ctx, s, func(doc []byte) error {
		p, err := q.parse(t, doc)
		switch {
		case err != nil:
		case q.View.Tenant.Placement.Holds(t.Key, p.Device, p.Chunk.Header.ID.Day) &&
			!q.View.Hides(p.Device, p.Chunk.Header.ID.Day):
			covered += p.To - p.From
			err = take(p)
		default: // another epoch has the day, or it is hidden: the chunk is no part of the tenant's data
			p.Release()
		}
		own = err
		return err
	})
	q.Account.Add(piece.Stats{RequestUnits: usage.RUs, Documents: usage.Documents})
	q.Account.Explain(func(e *piece.Explained) { e.Scans = append(e.Scans, explainedScan(s, usage)) })
	switch {
	case own != nil:
		return usage, false, own
	case errors.Is(err, store.ErrNoContainer):
		_, before := q.r.seen.Load(t.Container)
		before = before || usage.Documents > 0
		return usage, before, q.withoutContainer(ctx, t.Container, before)
	case err != nil:
		what := fmt.Sprintf("read chunks of %q, %q in %s", t.TenantShard, t.Device, t.Container)
		return usage, false, piece.Unavailable(ctx, what, err)
	}
	if usage.Documents > 0 {
		q.r.seen.Store(t.Container, true)
	}
	if over := daysOf(s.Range, q.r.cfg.Now().UnixMilli()); s.Since == 0 && over > 0 {
		q.r.history.add(q.Request.Tenant, t, yieldOf(t, usage, over, float64(covered)/telemetry.DayMillis))
	}
	return usage, false, nil
}

// parse parses a chunk, of the metrics that are asked for.
func (q *Query) parse(t plan.Target, doc []byte) (*piece.Piece, error) {
	c, err := chunk.ParseColumns(doc, q.Request.Metrics)
	if err == nil {
		err = answers(t, c.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("read chunks of %q, %q in %s: %w", t.TenantShard, t.Device, t.Container, err)
	}
	return q.Account.OfChunk(c, nil)
}

// answers fails if a chunk is not what the scan asked for: a store that answers more must not show one tenant, or
// device, the rows of another.
func answers(t plan.Target, h chunk.Header) error {
	ok := h.TenantShard == t.TenantShard
	if t.Device != "" {
		ok = ok && h.Device == t.Device
	} else if t.Devices != nil {
		_, named := slices.BinarySearch(t.Devices, h.Device)
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
	has, err := q.View.HasContainer(ctx, container)
	if err == nil && has {
		err = piece.Unavailable(ctx, "read "+container, store.ErrNoContainer)
	}
	return err
}

// explainedScan describes a scan. Several windows count as the range that they lie in.
func explainedScan(s store.Scan, u store.Usage) piece.ScanExplained {
	out := piece.ScanExplained{Key: s.Key, Named: len(s.Devices), Documents: u.Documents, RequestUnits: u.RUs}
	for i, w := range s.AllWindows() {
		if i == 0 {
			out.Range, out.Since = w.Range, w.Since
		}
		out.Range.From, out.Range.To = min(out.Range.From, w.From), max(out.Range.To, w.To)
		out.Since = min(out.Since, w.Since)
	}
	return out
}
