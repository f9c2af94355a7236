package erase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
)

// Config is what a Sweeper needs. Chunks, Rollups, Orders and Snapshot have no default.
type Config struct {
	Chunks  store.Chunks
	Rollups store.RollupWriter
	Orders  *erasure.Orders
	// Snapshot returns a snapshot that is a few seconds old at most.
	Snapshot func(ctx context.Context) (*control.Snapshot, error)
	By       string // the process, as the end of a sweep names it
	// Catalog has the pages of tenants, and Purge takes what they have forgotten out of those of one, and reports whether
	// no page had any of it; nil: no catalog is looked at.
	Catalog store.Catalog
	Purge   func(ctx context.Context, tenant string) (isClean bool, err error)
	// Annotations of tenants. Those of a tenant that is erased as a whole are deleted; nil: none are.
	Annotations *tenant.Annotations

	RUs    float64          `default:"400"`   // budget a second
	Every  time.Duration    `default:"5s"`    // between two looks at the orders
	Pause  time.Duration    `default:"200ms"` // before what a replica lacks is read again
	Now    func() time.Time // time.Now
	Logger *slog.Logger     // none
}

// Sweeper sweeps what orders erase out of the store. It may die anywhere, and two of them do no harm.
type Sweeper struct {
	cfg Config

	// Owned by Run, or the caller of Round.
	begun  map[string]bool // orders that were swept for the first time
	voided time.Time       // when orders were last looked at that are to be made void
	// clear is keyed by orders that are swept.
	clear map[string]*clearState

	pacer retry.RUPacer
}

// clearState is how far the clearing of an order is.
type clearState struct {
	next time.Time // nothing is done before
	// removed holds the ids of the documents that were deleted, by first-level key.
	removed map[store.RollupKey]map[string]bool
}

// NewSweeper makes a Sweeper.
func NewSweeper(cfg Config) *Sweeper {
	settings.Defaults(&cfg)
	return &Sweeper{cfg: cfg, begun: make(map[string]bool), clear: make(map[string]*clearState),
		pacer: retry.RUPacer{Rate: cfg.RUs, Now: cfg.Now, Sleep: retry.Pause}}
}

// Run sweeps what is ordered, until the context ends; then it returns nil.
func (s *Sweeper) Run(ctx context.Context) error {
	loop := retry.Loop{Spends: true, Every: s.cfg.Every, Log: s.cfg.Logger, Failing: "erasures are not swept",
		Over:   "erasures are swept again",
		Remind: time.Hour}
	return loop.Run(ctx, s.Round)
}

// voidAfter is the age of an order that is not acknowledged from which on its process has died: workers wait for it.
const voidAfter = time.Minute

// SettledAfter is how long after its acknowledgement the sweep of an order may end. Before that a worker or copy that
// does not know the order may store the first chunk of a chain, which no fence closes.
const SettledAfter = 5 * time.Minute

// ClearAfter is how long after the end of its sweep the rollups of an order are cleared: a request of a round that did
// not know the end takes no longer, and no replica lags longer.
const ClearAfter = 8 * time.Minute

// purgeAgain is the pause before a catalog is read again in which a page had what it has forgotten.
const purgeAgain = 15 * time.Second

// Round sweeps each order that is new, and again when it is settled; later it removes rollups.
func (s *Sweeper) Round(ctx context.Context) error {
	v, err := s.void(ctx)
	if v == nil {
		return err
	}
	errs := []error{err}
	for _, o := range v.AllErasures() {
		_, known := v.Tenant(o.Tenant)
		switch {
		case !known && o.IsAcknowledged():
			continue // the account was restored: nothing of the tenant is stored yet
		case o.IsAcknowledged() && o.SweptAt.IsZero() && (!s.begun[o.ID] || s.isSettled(o)):
			err = s.sweep(ctx, v, o)
		case !o.SweptAt.IsZero() && o.ClearedAt.IsZero() &&
			!s.cfg.Now().Before(s.clearing(o).next):
			err = s.clearPlaces(ctx, v, o)
		default:
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("erasure %s of %s: %w", o.ID, o.Tenant, err))
		}
	}
	return errors.Join(errs...)
}

// void ends orders that are not acknowledged in time: workers wait for them (rule E-R5). It returns a snapshot, nil
// where nothing can be decided.
func (s *Sweeper) void(ctx context.Context) (*control.Snapshot, error) {
	s.voided = s.cfg.Now()
	v, err := s.cfg.Snapshot(ctx)
	if err == nil {
		err = s.cfg.Orders.CheckClock()
	}
	if err != nil {
		return nil, err
	}
	for _, o := range v.AllErasures() {
		if !o.IsAcknowledged() && s.cfg.Now().Sub(o.At) > voidAfter {
			_, failed := s.cfg.Orders.Void(ctx, s.cfg.Catalog, o)
			err = errors.Join(err, failed)
		}
	}
	return v, err
}

// pay waits for the time that a charge takes at the budget. A sweep may take hours, in which orders are made void.
func (s *Sweeper) pay(ctx context.Context, rus float64) error {
	if s.cfg.Now().Sub(s.voided) > voidAfter/4 {
		if _, err := s.void(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("erasures that are not acknowledged stay", "error", err)
		}
	}
	return s.pacer.Wait(ctx, rus)
}

// Survey returns what an acknowledged order would erase from chunks, and changes nothing.
func (s *Sweeper) Survey(ctx context.Context, v *control.Snapshot, o *erasure.Order) ([]erasure.Swept, error) {
	tenant, known := v.Tenant(o.Tenant)
	if !known {
		return nil, fmt.Errorf("tenant %q is not known", o.Tenant)
	}
	w := &sweep{Sweeper: s, order: o, facts: v, tenant: tenant, survey: true, places: make(places)}
	return w.run(ctx)
}

func (s *Sweeper) isSettled(o *erasure.Order) bool {
	return s.cfg.Now().Sub(o.AcknowledgedAt) > SettledAfter
}

// sweep sweeps an order. Where it was settled before, that is the end.
func (s *Sweeper) sweep(ctx context.Context, v *control.Snapshot, o *erasure.Order) error {
	tenant, _ := v.Tenant(o.Tenant)
	began, isSettled := s.cfg.Now(), s.isSettled(o)
	w := &sweep{Sweeper: s, order: o, facts: v, tenant: tenant, places: make(places), stored: began}
	places, err := w.run(ctx)
	if err != nil {
		return err
	}
	s.begun[o.ID] = true
	chunks, rows := 0, 0
	for _, p := range places {
		chunks, rows = chunks+p.Chunks, rows+p.Rows
	}
	s.cfg.Logger.Info("erasure swept from chunks", "erasure", o.ID, "tenant", o.Tenant, "chunks", chunks, "rows", rows,
		"ended", isSettled, "took", s.cfg.Now().Sub(began))
	if !isSettled {
		return nil
	}
	return s.cfg.Orders.EndSweep(ctx, o.ID, s.cfg.By, places)
}

func (s *Sweeper) clearing(o *erasure.Order) *clearState {
	if s.clear[o.ID] == nil {
		s.clear[o.ID] = &clearState{removed: make(map[store.RollupKey]map[string]bool)}
	}
	return s.clear[o.ID]
}

// clearPlaces removes entries of the catalog that may show what an order erases, and, ClearAfter after the end of the
// sweep, rollups. Once neither are left then, that is stored.
func (s *Sweeper) clearPlaces(ctx context.Context, v *control.Snapshot, o *erasure.Order) error {
	tenant, _ := v.Tenant(o.Tenant)
	state, last := s.clearing(o), o.SweptAt.Add(ClearAfter)
	isLast, isClear := s.cfg.Now().After(last), true
	var err error
	if isLast {
		c := &clearing{Sweeper: s, order: o, tenant: tenant, clearState: state}
		if isClear, err = c.run(ctx, v); err != nil || !isClear {
			return err
		}
	}
	if o.IsWhole() && s.cfg.Purge != nil {
		if state.next.IsZero() { // an earlier release may have named devices alone
			if err = erasure.Forget(ctx, s.cfg.Catalog, o); err != nil {
				return err
			}
		}
		if isClear, err = s.cfg.Purge(ctx, o.Tenant); err != nil {
			return err
		}
	}
	if s.cfg.Annotations != nil {
		if err := s.cfg.Annotations.Erase(ctx, o); err != nil {
			return err
		}
	}
	switch {
	case !isLast:
		state.next = last.Add(time.Millisecond)
		return nil
	case !isClear:
		state.next = s.cfg.Now().Add(purgeAgain)
		return nil
	}
	s.cfg.Logger.Info("erasure cleared from rollups", "erasure", o.ID, "tenant", o.Tenant)
	var places []erasure.Cleared
	for key, ids := range state.removed {
		places = append(places, erasure.Cleared{Container: key.Container, TenantShard: key.TenantShard,
			Documents: len(ids)})
	}
	slices.SortFunc(places, func(a, b erasure.Cleared) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.TenantShard, b.TenantShard))
	})
	return s.cfg.Orders.EndClearing(ctx, o.ID, s.cfg.By, places)
}
