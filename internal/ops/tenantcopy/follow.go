package tenantcopy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

const (
	// followPause is how long a round waits after the one before.
	followPause = 10 * time.Second
	// followMargin exceeds what clocks of the service differ, and what replicas lag: each round asks again for what was
	// stored in it.
	followMargin = 5 * time.Minute
)

// follower copies what the source stores after a copy.
type follower struct {
	*Copier
	since int64 // s since 1970 UTC by the source's clock: older chunks have been looked at
	// done are the chunks followed so far that were stored since then.
	done map[chunkOf]followed
}

// followed is the version of a chunk that was looked at.
type followed struct {
	etag   string
	stored int64
}

// Follow copies as Run does, then what the source stores, until end is closed; then it compares all once more. A round
// reads what is new at the source, by the time at which the service stored it, and costs nothing at the target where
// nothing is new. What it misses, the comparison at the end finds.
func (c *Copier) Follow(ctx context.Context, end <-chan struct{}) (Result, error) {
	// a second look covers what is stored while the first copy runs
	f := follower{Copier: c, since: c.cfg.From.Now().Add(-followMargin).Unix(), done: make(map[chunkOf]followed)}
	if r, err := c.Run(ctx); err != nil || c.cfg.DryRun || !r.IsEqual() {
		return r, err
	}
	before := c.orders(c.known())
	for {
		timer := time.NewTimer(followPause)
		select {
		case <-end:
			timer.Stop()
			return c.Run(ctx)
		case <-ctx.Done():
			timer.Stop()
			return c.snapshot(), ctx.Err()
		case <-timer.C:
		}
		v, err := c.look(ctx, true)
		if err != nil {
			return c.snapshot(), err
		}
		if now := c.orders(v); now != before { // an order is about chunks of any age
			before = now
			if r, err := c.Run(ctx); err != nil || !r.IsEqual() {
				return r, err
			}
		}
		if err := c.persist(ctx, func(ctx context.Context) error { return f.round(ctx, v) }); err != nil {
			return c.snapshot(), err
		}
		c.cfg.Progress(c.snapshot())
	}
}

// known returns the control documents that were read last.
func (c *Copier) known() facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts
}

// round copies what the source has stored since the last one.
func (f *follower) round(ctx context.Context, v facts) error {
	var device []string
	if f.cfg.Device != "" {
		device = []string{f.cfg.Device}
	}
	found, clock := make(map[chunkOf]followed), time.Time{}
	for _, visit := range f.visits(v, device) {
		scan := store.Scan{Key: visit.Key, Range: visit.Range, Since: f.since,
			Charge: func(rus float64) error { return f.pay(ctx, f.fromPace, rus) }}
		usage, err := f.cfg.From.Chunks.Scan(ctx, scan, func(doc []byte) error {
			e, err := parse(doc)
			if err != nil {
				return fmt.Errorf("%w: %w", errFinal, err)
			}
			found[nameOf(e, e.ID.Stream)] = followed{e.ETag, e.Stored}
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrNoContainer) {
			return err
		}
		if at := usage.Date; !at.IsZero() && (clock.IsZero() || at.Before(clock)) {
			clock = at
		}
	}
	parts := make(map[part]bool)
	for name, at := range found {
		if f.done[name] != at {
			parts[part{telemetry.Range{From: name.day.Start(), To: name.day.End()}, name.device}] = true
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(parts), comparePart) {
		// all that a chunk of a day has is of that day
		if err := f.part(ctx, p, new([2][]string)); err != nil {
			return err
		}
	}
	f.done = found
	if !clock.IsZero() {
		f.since = max(f.since, clock.Add(-followMargin).Unix())
	}
	return f.unequal()
}

func (f *follower) visits(v facts, device []string) (out []sharding.Visit) {
	spans := make(map[telemetry.Range]bool) // two containers may be of one time
	for _, container := range v.from.ContainersOf(f.cfg.Tenant, f.cfg.Days) {
		_, span, _ := sharding.ParseContainer(container)
		all := span.Range()
		spans[telemetry.Range{From: max(f.cfg.Days.From, all.From), To: min(f.cfg.Days.To, all.To)}] = true
	}
	for _, span := range slices.SortedFunc(maps.Keys(spans), compareRange) {
		out = append(out, v.source.Placement.Visits(device, span)...)
	}
	return out
}

// unequal reports what a round could not make equal.
func (f *follower) unequal() error {
	if r := f.snapshot(); len(r.Different) > 0 {
		return fmt.Errorf("%w: %s", errFinal, r.Different[0])
	}
	return nil
}
