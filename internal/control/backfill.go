package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// KindBackfill is the kind of the documents of grants.
const KindBackfill = "backfill"

// BackfillHeader is the header of a record that belongs to a backfill: the id of the grant.
const BackfillHeader = "binnacle-backfill"

// Backfill is an operator's permission for old readings of one tenant: those in Range, in records that name the grant,
// until it ends. The limits on the age of readings and on the months that a tenant's readings may ask for do not apply
// to them.
//
// The id is a secret with too many bits to guess, and making one takes write access to the control documents. So a
// producer can't lift the limits, and a grant lets in the records of the backfill but not records of a device with a
// wrong clock.
type Backfill struct {
	ID     string
	Tenant string
	// Range bounds event times.
	Range telemetry.Range
	Until time.Time
}

// Covers reports whether the grant lets in a reading of a tenant and event time at now.
func (b Backfill) Covers(tenant string, eventTime int64, now time.Time) bool {
	return b.Tenant == tenant && b.Range.Contains(eventTime) && now.Before(b.Until)
}

// BackfillWork is what of a file belongs to one tenant, and about what writing it takes, as if all readings of a device
// and day came within the hold.
type BackfillWork struct {
	Tenant string
	// Range bounds event times.
	Range    telemetry.Range
	Readings int
	Days     map[telemetry.Day]int64 // readings by day
	Chunks   int
	// Bytes and RUs are those of the chunks, RUs as modelled.
	Bytes int
	RUs   float64
}

// backfillBody is a backfill document: docs/internals/format/control.md.
type backfillBody struct {
	Tenant  string `json:"tenant"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Created int64  `json:"created"`
	Until   int64  `json:"until"`
}

// GrantBackfill stores a grant for a tenant, known or not yet, and a range of event times, for so long.
func (d *Directory) GrantBackfill(ctx context.Context, tenant string, r telemetry.Range,
	lasts time.Duration) (Backfill, error) {
	if err := telemetry.CheckTenant(tenant); err != nil {
		return Backfill{}, err
	}
	if r.From >= r.To || lasts <= 0 {
		return Backfill{}, fmt.Errorf("backfill of tenant %s: from %d to %d for %s is empty", tenant, r.From, r.To, lasts)
	}
	now := d.cfg.Now()
	b := Backfill{ID: rand.Text(), Tenant: tenant, Range: r, Until: now.Add(lasts)}
	_, err := d.cfg.Documents.Create(ctx, store.NewDocument(KindBackfill, b.ID, backfillBody{
		Tenant: tenant, From: r.From, To: r.To, Created: now.UnixMilli(), Until: b.Until.UnixMilli(),
	}))
	if err != nil && !errors.Is(err, store.ErrExists) {
		return Backfill{}, fmt.Errorf("grant backfill of tenant %s: %w", tenant, err)
	}
	d.cfg.Logger.Info("backfill granted", "tenant", tenant, "from", time.UnixMilli(r.From).UTC(), "to",
		time.UnixMilli(r.To).UTC(), "until", b.Until)
	return b, nil
}

// Backfill returns a grant by its id.
func (v *Snapshot) Backfill(id string) (Backfill, bool) {
	b, ok := v.backfills[id]
	return b, ok
}

// backfillsOf leaves out damaged grants: what they would let in is refused.
func backfillsOf(docs []store.Document, broken *store.Damage) map[string]Backfill {
	out := make(map[string]Backfill, len(docs))
	for _, d := range docs {
		var b backfillBody
		if err := d.Decode(&b); err != nil {
			broken.Add(d, err)
			continue
		}
		out[d.ID] = Backfill{ID: d.ID, Tenant: b.Tenant, Range: telemetry.Range{From: b.From, To: b.To},
			Until: time.UnixMilli(b.Until).UTC()}
	}
	return out
}
