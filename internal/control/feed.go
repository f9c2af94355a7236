package control

import (
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/tenant"
	"context"
	"maps"
	"slices"
	"time"

	"binnacle/internal/retry"
)

var snapshotKinds = []string{tenant.Kind, tenant.KindEpoch, KindMonth, KindBackfill, erasure.Kind, stream.Kind}

// documentsOf is a copy of the documents that a snapshot is made of, by kind and id, and where their changes go on.
type documentsOf struct {
	byKind map[string]map[string]store.Document
	// from is when all documents were read.
	from time.Time
	// mark is the position in the feed, "" before the first request.
	mark string
}

// take makes a document part of the copy, and reports whether that changes it. The copy never goes back: a version that
// is older than the known one comes from a replica that lags.
func (c *documentsOf) take(d store.Document) bool {
	known, ok := c.byKind[d.Kind]
	if !ok || known[d.ID].ETag == d.ETag || d.Modified.Before(known[d.ID].Modified) {
		return false
	}
	known[d.ID] = d
	return true
}

// recent returns the documents of a kind that a replica may still lack, or have in an older version.
func (c *documentsOf) recent(kind string, now time.Time) map[string]store.Document {
	out := map[string]store.Document{}
	for id, d := range c.byKind[kind] {
		if d.Modified.After(now.Add(-skew)) {
			out[id] = d
		}
	}
	return out
}

func (c *documentsOf) list(kind string) []store.Document {
	known := c.byKind[kind]
	out := make([]store.Document, 0, len(known))
	for _, id := range slices.Sorted(maps.Keys(known)) {
		out = append(out, known[id])
	}
	return out
}

const (
	// wholeEvery is how often everything is read although the feed works: nothing else would show that it has left
	// something out.
	wholeEvery = 10 * time.Minute
	// skew is how far the store's clock may lie behind this one.
	skew = 5 * time.Minute
)

// readSnapshot makes a new snapshot: from the changes where the feed lists them, else from everything. Its caller holds
// reading.
func (d *Directory) readSnapshot(ctx context.Context) (*Snapshot, error) {
	began, watch := d.cfg.Now(), time.Now()
	follows := d.cfg.Feed != nil && !began.Before(d.feedAt)
	if follows && began.Sub(d.docs.from) < retry.Paced(ctx, wholeEvery) {
		v, err := d.follow(ctx, began, watch)
		if err == nil || ctx.Err() != nil {
			return v, err
		}
		follows, d.feedAt = false, began.Add(d.cfg.Every)
		d.docs.from = time.Time{} // some of what has changed may be in the copy and not in the snapshot
		d.feedTrouble.Report(err)
	}
	d.following.Store(false)
	whole := &documentsOf{byKind: map[string]map[string]store.Document{}, from: began}
	for _, kind := range snapshotKinds {
		docs, err := d.cfg.Documents.List(ctx, kind)
		if err != nil {
			return nil, err
		}
		whole.byKind[kind] = d.docs.recent(kind, began)
		for _, doc := range docs {
			whole.take(doc)
		}
	}
	v, err := d.snapshotOf(whole, d.readAt(began, watch))
	if err != nil {
		return nil, err
	}
	d.docs = whole
	d.following.Store(follows)
	d.reportDamage(v)
	d.current.Store(v)
	return v, nil
}

// readAt returns when a read began that has ended. Its answers may have shown that the clock was ahead before.
func (d *Directory) readAt(began, watch time.Time) time.Time {
	if now := d.cfg.Now(); now.Before(began) {
		return now.Add(-time.Since(watch))
	}
	return began
}

// follow makes a snapshot of the copy and what has changed since.
func (d *Directory) follow(ctx context.Context, began, watch time.Time) (*Snapshot, error) {
	changed, next, err := d.cfg.Feed.Changes(ctx, d.docs.mark, d.docs.from.Add(-skew))
	if err != nil {
		return nil, err
	}
	differs := false
	for _, doc := range changed {
		differs = d.docs.take(doc) || differs
	}
	d.docs.mark = next
	began = d.readAt(began, watch)
	v := *d.Snapshot()
	v.ReadAt = began
	if differs {
		made, err := d.snapshotOf(d.docs, began)
		if err != nil {
			return nil, err
		}
		v = *made
	}
	d.following.Store(true)
	d.feedTrouble.Report(nil)
	d.reportDamage(&v)
	d.current.Store(&v)
	return &v, nil
}

func (d *Directory) snapshotOf(docs *documentsOf, began time.Time) (*Snapshot, error) {
	v := &Snapshot{ReadAt: began, placeable: d.cfg.Lead - d.cfg.Margin, maxMonths: d.cfg.MaxMonths,
		Streams: make(map[uint32]stream.Stream)}
	var broken store.Damage
	var err error
	v.tenants, broken, err = tenant.Of(docs.list(tenant.Kind), docs.list(tenant.KindEpoch), d.Snapshot().tenants)
	if err != nil {
		return nil, err
	}
	if v.periods, err = tenant.PeriodsOf(docs.list(tenant.KindEpoch)); err != nil {
		return nil, err
	}
	v.months = monthsOf(docs.list(KindMonth), &broken)
	v.backfills = backfillsOf(docs.list(KindBackfill), &broken)
	if v.erasures, err = erasure.Of(docs.list(erasure.Kind), &broken); err != nil {
		return nil, err
	}
	for _, doc := range docs.list(stream.Kind) {
		s, err := stream.Of(doc)
		if err != nil {
			broken.Add(doc, err)
		}
		v.Streams[s.Number], v.hasCopies = s, v.hasCopies || err != nil || s.IsCopied()
	}
	v.takeDamage(broken)
	for _, t := range v.tenants {
		v.limited = v.limited || t.Ingest != nil
	}
	return v, nil
}
