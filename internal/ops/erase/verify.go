package erase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// VerifyConfig is what Verify reads. Chunks, Rollups, Catalog and Annotations have no default.
type VerifyConfig struct {
	Chunks      store.Reader
	Rollups     store.RollupReader
	Catalog     store.Catalog
	Annotations *tenant.Annotations
	RUs         float64          `default:"400"` // budget a second
	Pause       time.Duration    `default:"20s"` // before rollups are read again that a round may be storing
	Now         func() time.Time // time.Now
	Logger      *slog.Logger     // none
}

// Finding is something that an order should have erased, or that does not agree with its certificate.
type Finding struct {
	Container   string `json:"container,omitempty"`
	TenantShard string `json:"tenantShard,omitempty"`
	ID          string `json:"id,omitempty"`
	Problem     string `json:"problem"`
}

// Verification is what Verify has read and found.
type Verification struct {
	Places int `json:"places"` // first-level keys of containers
	// Chunks counts the chunks of the order's devices and days.
	Chunks  int `json:"chunks"`
	Rollups int `json:"rollups"` // documents, of its days
	// Pages counts the pages of the catalog.
	Pages    int       `json:"pages"`
	Newer    int       `json:"newer"` // chunks that were published after the order
	RUs      float64   `json:"rus"`
	Expired  int       `json:"expired"` // chunks without rows that the certificate counts: their time to live is over
	Findings []Finding `json:"findings"`
}

type verifier struct {
	VerifyConfig
	certificate *Certificate
	order       *erasure.Order
	orders      erasure.List // of the tenant
	tenant      tenant.Tenant
	pacer       retry.RUPacer
	out         Verification
	places      places // of chunks without rows

	// Of the place that is being read:
	live      map[deviceDay]bool // have rows of after the order, or had until another order that is not cleared
	committed map[batch]bool     // are named by manifests
}

// Verify reads every place of the account where something may be that the order of a certificate erases, and returns
// what it finds. The places follow from the epochs of the tenant, and the months of the account, and never from the
// certificate.
func Verify(ctx context.Context, cfg VerifyConfig, v *control.Snapshot, c *Certificate) (*Verification, error) {
	settings.Defaults(&cfg)
	if err := v.Damaged(c.Tenant); err != nil {
		return nil, err
	}
	t, known := v.Tenant(c.Tenant)
	if !known {
		return nil, fmt.Errorf("tenant %s: %w", c.Tenant, tenant.ErrNoTenant)
	}
	w := &verifier{VerifyConfig: cfg, certificate: c, order: c.order(), tenant: t,
		orders: v.Erasures(c.Tenant), pacer: retry.RUPacer{Rate: cfg.RUs, Now: cfg.Now, Sleep: retry.Pause},
		places: make(places), out: Verification{Findings: []Finding{}}}
	w.checkOrder()
	days := telemetry.Range{From: w.order.From.Start(), To: w.order.To.Start()}
	for _, container := range v.Containers() {
		owner, span, ok := sharding.ParseContainer(container.Container)
		part := telemetry.Range{From: max(days.From, span.Range().From), To: min(days.To, span.Range().To)}
		if !ok || owner != "" && owner != c.Tenant || part.Empty() || container.State == control.MonthDropped {
			continue
		}
		if err := w.container(ctx, container.Container, part); err != nil {
			return nil, fmt.Errorf("verify %s: %w", container.Container, err)
		}
		cfg.Logger.Info("container verified", "container", container.Container, "findings", len(w.out.Findings))
	}
	w.compare()
	if w.order.IsWhole() {
		if err := w.catalog(ctx); err != nil {
			return nil, err
		}
	}
	left, err := cfg.Annotations.Left(ctx, w.order)
	if left > 0 {
		w.find(document{sharding.Key{Container: store.HeatContainer}, c.Tenant},
			"has %d annotations of before the order", left)
	}
	return &w.out, err
}

type document struct {
	at sharding.Key
	id string
}

func (w *verifier) find(d document, problem string, args ...any) {
	w.out.Findings = append(w.out.Findings,
		Finding{d.at.Container, d.at.TenantShard, d.id, fmt.Sprintf(problem, args...)})
}

func (w *verifier) pay(ctx context.Context) func(rus float64) error {
	return func(rus float64) error {
		w.out.RUs += rus
		return w.pacer.Wait(ctx, rus)
	}
}

// checkOrder finds what the account's order and the certificate do not agree on.
func (w *verifier) checkOrder() {
	stored, c := w.orders.Find(w.order.ID), w.certificate
	if stored == nil {
		w.find(document{sharding.Key{}, w.order.ID}, "the account does not have the order: give it again")
		return
	}
	w.order.Account = stored.Account
	switch {
	case stored.ClearedAt.IsZero():
		w.find(document{sharding.Key{}, stored.ID}, "the order is not cleared in this account")
	case stored.Device != c.Device || stored.From != c.From || stored.To != c.To ||
		!slices.Equal(stored.Positions(), c.Positions):
		w.find(document{sharding.Key{}, stored.ID}, "the order that is stored is about other devices, days or positions")
	case !stored.SweptAt.Equal(c.Swept) || !stored.ClearedAt.Equal(c.Cleared):
		w.find(document{sharding.Key{}, stored.ID}, "the order was swept and cleared at other times")
	}
}

// container verifies a part of a container: day by day for a whole tenant, which may have many devices.
func (w *verifier) container(ctx context.Context, container string, part telemetry.Range) error {
	step := part
	for from := part.From; from < part.To; from = step.To {
		step = telemetry.Range{From: from, To: part.To}
		if w.order.Device == "" {
			step.To = min(part.To, telemetry.DayOf(from).End())
		}
		done := map[string]bool{}
		for _, visit := range w.tenant.Placement.Visits(nil, part) { // all keys of the month, also on days without them
			if visit.Container != container || done[visit.TenantShard] {
				continue
			}
			done[visit.TenantShard] = true
			if err := w.place(ctx, visit.Key, step); err != nil {
				return err
			}
		}
	}
	return nil
}

type deviceDay struct {
	device string
	day    telemetry.Day
}

// place verifies a first-level key of a container. Rollups that look wrong are read again: a round may be storing them.
func (w *verifier) place(ctx context.Context, key sharding.Key, r telemetry.Range) error {
	const reads = 3
	w.out.Places++
	if err := w.chunks(ctx, key, r); err != nil {
		return err
	}
	before, documents := len(w.out.Findings), w.out.Rollups
	for n := 1; ; n++ {
		w.out.Findings, w.out.Rollups = w.out.Findings[:before], documents
		if err := w.rollups(ctx, key, r); err != nil || len(w.out.Findings) == before || n == reads {
			return err
		}
		if err := retry.Pause(ctx, w.Pause); err != nil {
			return err
		}
	}
}

// chunks verifies chunks, and notes the devices and days that have rows of after the order.
func (w *verifier) chunks(ctx context.Context, key sharding.Key, r telemetry.Range) error {
	w.live = map[deviceDay]bool{}
	key.Device = w.order.Device
	_, err := w.Chunks.Scan(ctx, store.Scan{Key: key, Range: r, Charge: w.pay(ctx)}, func(doc []byte) error {
		f, err := parse(doc)
		if err != nil {
			w.find(document{key, idOf(doc)}, "can't be read: %v", err)
			return nil
		}
		if f.Key.Container = key.Container; !w.order.Matches(f.Device, f.ID.Day) {
			return nil
		}
		w.out.Chunks++
		through := w.order.Through(f.ID.Stream, f.ID.Partition)
		switch {
		case f.Rows == 0:
			w.places.of(f).note(f, w.order)
			if slices.ContainsFunc(f.Erased, w.isUncleared) {
				w.live[deviceDay{f.Device, f.ID.Day}] = true
			}
		case f.Through <= through:
			w.find(document{f.Key, f.ID.String()}, "has %d rows of %s that are erased", f.Rows, f.Device)
		case f.First <= through:
			w.find(document{f.Key, f.ID.String()}, "has rows of %s from before and after the order", f.Device)
		default:
			w.out.Newer++
			w.live[deviceDay{f.Device, f.ID.Day}] = true
		}
		return nil
	})
	if errors.Is(err, store.ErrNoContainer) {
		return nil
	}
	return err
}

// isUncleared reports whether rows are of another order, and rollups that show them may still be there.
func (w *verifier) isUncleared(rows chunk.Erased) bool {
	o := w.orders.Find(rows.Order)
	return rows.Order != w.order.ID && (o == nil || o.ClearedAt.IsZero())
}

// mayShow reports whether rollups may show a device on a day: it has rows of after the order, or its rows have expired,
// which rollups outlive.
func (w *verifier) mayShow(device string, day telemetry.Day) bool {
	return w.live[deviceDay{device, day}] || w.tenant.ExpiredOf(device, day, w.Now().UnixMilli())
}

// idOf returns the id of a document, for a finding.
func idOf(doc []byte) string {
	var d struct{ ID string }
	_ = json.Unmarshal(doc, &d) // what can't be read has none
	return d.ID
}

// batch is a part of a batch of rollups.
type batch struct {
	day  telemetry.Day
	name string
	part int
}

func (w *verifier) rollups(ctx context.Context, chunks sharding.Key, r telemetry.Range) error {
	at := sharding.Key{Container: sharding.RollupsContainer(chunks.Container), TenantShard: chunks.TenantShard}
	err := w.manifests(ctx, at, r)
	if errors.Is(err, store.ErrNoContainer) {
		return nil
	}
	if err != nil {
		return err
	}
	indexed, others := map[batch]bool{}, map[batch]string{}
	scan := store.RollupScan{Key: store.RollupKey{Container: at.Container, TenantShard: at.TenantShard}, Range: r,
		Charge: w.pay(ctx)}
	_, err = w.Rollups.ScanRollups(ctx, scan, func(doc []byte) error {
		d, err := rollup.Parse(slices.Clone(doc))
		if err != nil {
			w.find(document{at, idOf(doc)}, "can't be read: %v", err)
			return nil
		}
		if start := d.Day.Start(); start < r.From || start >= r.To {
			return nil // the day before has it
		}
		w.out.Rollups++
		b := batch{d.Day, d.Batch, d.Part}
		if d.SeriesIndex == nil {
			others[b] = d.ID
			return nil
		}
		indexed[b] = true
		for _, s := range d.SeriesIndex {
			if reason := w.stale(s.Device, d); reason != "" {
				w.find(document{at, d.ID}, "shows %s on %s and %s", s.Device, d.Day, reason)
				break
			}
		}
		return nil
	})
	for b, id := range others {
		if !indexed[b] {
			w.find(document{at, id}, "is of batch %s without a series index: its devices are not known", b.name)
		}
	}
	return err
}

// manifests verifies the manifests of a first-level key, and notes the batches that they name.
func (w *verifier) manifests(ctx context.Context, at sharding.Key, r telemetry.Range) error {
	w.committed = map[batch]bool{}
	scan := store.RollupScan{Range: r, Charge: w.pay(ctx),
		Key: store.RollupKey{Container: at.Container, TenantShard: at.TenantShard, Name: rollup.ManifestKey}}
	_, err := w.Rollups.ScanRollups(ctx, scan, func(doc []byte) error {
		m, err := rollup.ParseManifest(doc)
		if err != nil {
			w.find(document{at, idOf(doc)}, "can't be read: %v", err)
			return nil
		}
		if start := m.Day.Start(); start < r.From || start >= r.To {
			return nil
		}
		w.out.Rollups++
		for _, b := range m.Batches {
			w.committed[batch{day: m.Day, name: b.Name}] = true
		}
		for _, device := range manifestNames(m, w.order) {
			if !w.mayShow(device, m.Day) {
				w.find(document{at, rollup.ManifestID(m.Day)}, "names %s on %s, and it has no chunk there", device, m.Day)
				break
			}
		}
		return nil
	})
	return err
}

// stale returns why a document that shows a device may be of erased chunks; empty if it is not.
func (w *verifier) stale(device string, d *rollup.Document) string {
	switch {
	case !w.order.Matches(device, d.Day):
		return ""
	case d.Stored < w.certificate.Swept.Add(ClearAfter).Unix():
		return "is older than the sweep"
	case !w.mayShow(device, d.Day):
		return "it has no chunk there"
	case !w.committed[batch{day: d.Day, name: d.Batch}] && !w.isClearing(d.Day):
		return "no manifest names its batch"
	}
	return ""
}

// isClearing reports whether rollups of a day may be on their way out for another order: their manifest goes first.
func (w *verifier) isClearing(day telemetry.Day) bool {
	return slices.ContainsFunc(w.orders, func(o *erasure.Order) bool {
		return !o.SweptAt.IsZero() && o.ClearedAt.IsZero() && o.Matches(o.Device, day)
	})
}

// compare finds where chunks without rows and the certificate do not agree.
func (w *verifier) compare() {
	certified := map[sharding.Key]erasure.Swept{}
	for _, p := range w.certificate.Chunks {
		key := sharding.Key{Container: p.Container, TenantShard: p.TenantShard}
		certified[key] = p
		if w.places[key] == nil {
			w.out.Expired += p.Chunks
		}
	}
	for _, key := range w.places.keys() {
		p, c := w.places[key], certified[key]
		switch {
		case p.Chunks < c.Chunks:
			w.out.Expired += c.Chunks - p.Chunks
		case p.Chunks > c.Chunks:
			w.find(document{key, ""}, "has %d chunks that the order has erased, the certificate %d", p.Chunks, c.Chunks)
		case p.Rows != c.Rows || p.Chunks > 0 && p.digest() != c.Digest:
			w.find(document{key, ""}, "the chunks that were erased there are others than those of the certificate")
		}
	}
}

func (w *verifier) catalog(ctx context.Context) error {
	infos, err := w.Catalog.Pages(ctx, w.order.Tenant, 0)
	if err != nil {
		return err
	}
	at, until := sharding.Key{Container: "catalog"}, w.order.ForgottenUntil().UnixMilli()
	var ids []string
	for _, i := range infos {
		if w.out.Pages++; i.Devices > 0 && i.Updated <= until && w.order.IsAbout(i.Account) {
			ids = append(ids, i.ID)
		}
	}
	for some := range slices.Chunk(ids, 100) {
		err := w.Catalog.Read(ctx, w.order.Tenant, some, func(id string, doc []byte) error {
			page, err := catalog.Decode(id, doc)
			if err != nil {
				w.find(document{at, id}, "can't be read: %v", err)
				return nil
			}
			for _, e := range page.Entries {
				if w.order.Device == "" || w.order.Device == e.Device {
					w.find(document{at, id}, "has an entry of %s that is older than the order", e.Device)
					break
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
