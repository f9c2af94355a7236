package tenantcopy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// followPause is how long a round waits after the one before.
const followPause = 10 * time.Second

// Run copies what the target lacks, and compares both. It ends Settle after it began at the earliest. Where an order of
// erasure comes during the copy, or a replica of the source has lagged, it begins again, and has little to do then.
func (c *Copier) Run(ctx context.Context) (Result, error) { return c.run(ctx, true) }

// run does what Run promises. It waits for replicas of the source if it settles.
func (c *Copier) run(ctx context.Context, settles bool) (Result, error) {
	began := c.cfg.From.Now()
	c.since = began.Add(-c.cfg.Settle).Unix()
	if err := c.persist(ctx, c.begin); err != nil {
		return c.result, err
	}
	for {
		before, err := c.look(ctx, true)
		if err != nil {
			return c.result, err
		}
		if err := c.pass(ctx, before); err != nil || c.cfg.DryRun {
			return c.result, err
		}
		isLate := false
		if settles {
			if isLate, err = c.isLate(ctx, before, began); err != nil {
				return c.result, err
			}
		}
		err = c.persist(ctx, func(ctx context.Context) error { // a catalog learns of devices after their first chunk
			return errors.Join(c.copyCatalog(ctx, before), c.copyAnnotations(ctx))
		})
		if err != nil {
			return c.result, err
		}
		after, err := c.settled(ctx)
		if err != nil || !isLate && c.orders(before) == c.orders(after) {
			return c.result, err
		}
		c.cfg.Logger.Info("orders or older chunks have come: the copy is compared once more", "tenant", c.cfg.Tenant)
		if err := retry.Pause(ctx, time.Second); err != nil {
			return c.result, err
		}
	}
}

// Follow copies as Run does, then what the source stores, until end is closed; then it compares all once more. A round
// reads what is new at the source, by the time at which the service stored it, and costs nothing at the target where
// nothing is new. What it misses, the comparison at the end finds.
func (c *Copier) Follow(ctx context.Context, end <-chan struct{}) (Result, error) {
	if r, err := c.run(ctx, false); err != nil || c.cfg.DryRun || !r.IsEqual() {
		return r, err
	}
	before := c.orders(c.facts)
	for {
		select {
		case <-end:
			return c.Run(ctx)
		case <-ctx.Done():
			return c.snapshot(), ctx.Err()
		case <-time.After(followPause):
		}
		v, err := c.look(ctx, true)
		if err != nil {
			return c.snapshot(), err
		}
		if now := c.orders(v); now != before { // an order is about chunks of any age
			before = now
			if r, err := c.run(ctx, false); err != nil || !r.IsEqual() {
				return r, err
			}
		}
		if err := c.persist(ctx, func(ctx context.Context) error { return c.round(ctx, v) }); err != nil {
			return c.snapshot(), err
		}
		c.cfg.Progress(c.snapshot())
	}
}

// round copies what the source has stored since the last one. Each asks again for what was stored in it.
func (c *Copier) round(ctx context.Context, v facts) error {
	found, parts := make(map[chunkOf]string), make(map[part]bool)
	clock, err := c.scan(ctx, true, places{c.visits(v), c.since}, func(e *entry, _ []byte) error {
		name := nameOf(e, e.ID.Stream)
		if found[name] = e.ETag; c.seen[name] != e.ETag {
			parts[part{telemetry.Range{From: name.day.Start(), To: name.day.End()}, name.device}] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range slices.SortedFunc(maps.Keys(parts), comparePart) {
		// all that a chunk of a day has is of that day
		if err := c.part(ctx, p, new([2][]string)); err != nil {
			return err
		}
	}
	c.seen = found
	if !clock.IsZero() {
		c.since = max(c.since, clock.Add(-c.cfg.Settle).Unix())
	}
	if r := c.snapshot(); len(r.Different) > 0 {
		return fmt.Errorf("%w: %s", errFinal, r.Different[0])
	}
	return nil
}

// isLate waits until every replica of the source has what was stored before the copy began, and reports whether some of
// it was not looked at.
func (c *Copier) isLate(ctx context.Context, v facts, began time.Time) (isLate bool, err error) {
	if wait := began.Add(c.cfg.Settle).Sub(c.cfg.From.Now()); wait > 0 {
		c.cfg.Logger.Info("the copy waits for what replicas of the source may lack", "tenant", c.cfg.Tenant, "wait", wait)
		if err := retry.Pause(ctx, wait); err != nil {
			return false, err
		}
	}
	err = c.persist(ctx, func(ctx context.Context) error {
		_, err := c.scan(ctx, true, places{c.visits(v), c.since}, func(e *entry, _ []byte) error {
			isLate = isLate || e.Stored <= began.Unix() && c.seen[nameOf(e, e.ID.Stream)] != e.ETag
			return nil
		})
		return err
	})
	return isLate, err
}

// visits returns all places of the source's chunks.
func (c *Copier) visits(v facts) (out []sharding.Visit) {
	for _, span := range c.spans(v) {
		out = append(out, v.source.Placement.VisitsOf(c.cfg.Device, span)...)
	}
	return out
}
