package erase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// Config is what a Sweeper needs. Chunks, Rollups, Orders and Snapshot have no default.
type Config struct {
	Chunks   Chunks
	Rollups  store.RollupWriter
	Orders   *control.ErasureOrders
	Snapshot func(ctx context.Context) (*control.Snapshot, error) // of a few seconds ago at most
	By       string                                               // the process, as the end of a sweep names it
	RUs      float64                                              // budget a second, 400
	Every    time.Duration                                        // between two looks at the orders, 5 s
	Pause    time.Duration                                        // before what a replica lacks is read again, 200 ms
	Now      func() time.Time                                     // time.Now
	Logger   *slog.Logger                                         // none
}

// Sweeper sweeps what orders erase out of the store. It may die anywhere, and two of them do no harm.
type Sweeper struct {
	cfg Config

	// Owned by Run, or the caller of Round.
	paid  time.Time       // until when the budget is spent
	begun map[string]bool // orders that were swept for the first time
	clear map[string]bool // orders of which rollups were taken away for the first time
}

// NewSweeper makes a Sweeper.
func NewSweeper(cfg Config) *Sweeper {
	if cfg.RUs <= 0 {
		cfg.RUs = 400
	}
	if cfg.Every <= 0 {
		cfg.Every = 5 * time.Second
	}
	if cfg.Pause <= 0 {
		cfg.Pause = 200 * time.Millisecond
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sweeper{cfg: cfg, begun: make(map[string]bool), clear: make(map[string]bool)}
}

// Run sweeps what is ordered, until the context ends; then it returns nil.
func (s *Sweeper) Run(ctx context.Context) error {
	trouble := retry.Trouble{Log: s.cfg.Logger, Failing: "erasures are not swept", Over: "erasures are swept again",
		Remind: time.Hour}
	for {
		err := s.Round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		trouble.Report(err)
		if retry.Pause(ctx, s.cfg.Every) != nil {
			return nil
		}
	}
}

// voidAfter is the age of an order that is not acknowledged from which on its process has died: workers wait for it.
const voidAfter = time.Minute

// SettledAfter is the age of an order from which on its sweep may end. Before that a worker that does not know the
// order may store the first chunk of a chain, which no fence closes.
const SettledAfter = 5 * time.Minute

// ClearAfter is how long after the end of its sweep the rollups of an order count as clear: a round that makes rollups
// and has read chunks before takes no longer.
const ClearAfter = 8 * time.Minute

// Round sweeps each order that is new, and again when it is settled; then it takes away rollups, at once and again
// later.
func (s *Sweeper) Round(ctx context.Context) error {
	v, err := s.cfg.Snapshot(ctx)
	if err != nil {
		return err
	}
	orders := slices.SortedFunc(v.AllErasures(), func(a, b *control.Erasure) int { return strings.Compare(a.ID, b.ID) })
	var errs []error
	for _, o := range orders {
		switch {
		case o.IsAcknowledged() && o.SweptAt().IsZero() && (!s.begun[o.ID] || s.isSettled(o)):
			err = s.sweep(ctx, v, o)
		case !o.SweptAt().IsZero() && o.ClearedAt().IsZero() &&
			(!s.clear[o.ID] || s.cfg.Now().Sub(o.SweptAt()) > ClearAfter):
			err = s.clearRollups(ctx, v, o)
		case !o.IsAcknowledged() && s.cfg.Now().Sub(o.At) > voidAfter:
			_, err = s.cfg.Orders.Void(ctx, o.ID)
		default:
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("erasure %s of %s: %w", o.ID, o.Tenant, err))
		}
	}
	return errors.Join(errs...)
}

// Survey returns what an acknowledged order would erase from chunks, and changes nothing.
func (s *Sweeper) Survey(ctx context.Context, v *control.Snapshot, o *control.Erasure) ([]control.SweptPlace, error) {
	tenant, known := v.Tenant(o.Tenant)
	if !known {
		return nil, fmt.Errorf("tenant %q is not known", o.Tenant)
	}
	w := &sweep{Sweeper: s, order: o, tenant: tenant, survey: true, places: make(map[sharding.Key]*place)}
	return w.run(ctx, v)
}

func (s *Sweeper) isSettled(o *control.Erasure) bool { return s.cfg.Now().Sub(o.At) > SettledAfter }

// sweep sweeps an order. Where it was settled before, that is the end.
func (s *Sweeper) sweep(ctx context.Context, v *control.Snapshot, o *control.Erasure) error {
	tenant, known := v.Tenant(o.Tenant)
	if !known {
		return fmt.Errorf("tenant %q is not known", o.Tenant)
	}
	began, isSettled := s.cfg.Now(), s.isSettled(o)
	w := &sweep{Sweeper: s, order: o, tenant: tenant, places: make(map[sharding.Key]*place)}
	places, err := w.run(ctx, v)
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

// clearRollups takes away rollups that may show what an order erases. Where none were left a while after the end of the
// sweep, that is stored.
func (s *Sweeper) clearRollups(ctx context.Context, v *control.Snapshot, o *control.Erasure) error {
	tenant, known := v.Tenant(o.Tenant)
	if !known {
		return fmt.Errorf("tenant %q is not known", o.Tenant)
	}
	last, before := o.SweptAt().Add(ClearAfter), o.SweptAt()
	if s.cfg.Now().After(last) {
		before = last
	}
	c := &clearing{Sweeper: s, order: o, tenant: tenant, before: before.Unix()}
	isClear, err := c.run(ctx, v)
	if err != nil {
		return err
	}
	if s.clear[o.ID] = isClear; !isClear || !s.cfg.Now().After(last) {
		return nil
	}
	s.cfg.Logger.Info("erasure cleared from rollups", "erasure", o.ID, "tenant", o.Tenant)
	return s.cfg.Orders.EndClearing(ctx, o.ID, s.cfg.By)
}
