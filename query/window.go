package query

import (
	"context"
	"errors"
	"sync"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"golang.org/x/sync/errgroup"
)

// daysOfMonth is enough days for a window that takes what is left of a month.
const daysOfMonth = 31

// heldBytes is about what a collected chunk takes beside its document.
const heldBytes = 256

// runWindows reads a part window by window: all chunks of the window are collected, still encoded, then merged. It is for
// scans that have no order, and for more keys than may be read at a time. A window is a month; when that is too much
// for the memory, a day. Under a limit the first window is a day and each next one twice as long.
func (a *answer) runWindows(ctx context.Context, p part) error {
	for rest := p.Range; !rest.Empty(); {
		w, later := a.dir.cut(rest, a.days)
		held, err := a.collectWhole(ctx, p, w)
		if errors.Is(err, errOverBudget) && telemetry.DayOf(w.From) < telemetry.DayOf(w.To-1) {
			a.days, a.tight = 1, true
			continue
		}
		if err != nil {
			return err
		}
		for _, c := range held {
			a.merger.addChunk(c)
		}
		if err := a.merger.drain(a.dir.end(w)); err != nil {
			return err
		}
		rest = later
		if !a.tight {
			a.days = min(2*a.days, daysOfMonth)
		}
	}
	return nil
}

// cut takes the first days of r, in the direction of the answer, at midnights: no chunk is in two windows.
func (d direction) cut(r telemetry.Range, days int) (first, rest telemetry.Range) {
	if d == descending {
		at := max(r.From, (telemetry.DayOf(r.To-1) + 1 - telemetry.Day(days)).Start())
		return telemetry.Range{From: at, To: r.To}, telemetry.Range{From: r.From, To: at}
	}
	at := min(r.To, (telemetry.DayOf(r.From) + telemetry.Day(days)).Start())
	return telemetry.Range{From: r.From, To: at}, telemetry.Range{From: at, To: r.To}
}

// collectWhole collects a window, and once again when chains have gaps (rule R4).
func (a *answer) collectWhole(ctx context.Context, p part, w telemetry.Range) ([]waiting, error) {
	held, err := a.collect(ctx, p, w)
	if err != nil || a.gaps(held, w) == nil {
		return held, err
	}
	again, err := a.collect(ctx, p, w)
	if err != nil && !errors.Is(err, errOverBudget) {
		return nil, err
	}
	type name struct {
		device string
		id     chunk.ID
	}
	have := make(map[name]bool, len(held))
	for _, c := range held {
		have[name{c.device, c.id}] = true
	}
	for _, c := range again {
		if have[name{c.device, c.id}] {
			a.budget.give(c.bytes)
			continue
		}
		held = append(held, c)
	}
	a.missing = append(a.missing, a.gaps(held, w)...)
	return held, nil
}

func (a *answer) gaps(held []waiting, w telemetry.Range) []string {
	seen := newChains(w, a.expired)
	for _, c := range held {
		seen.add(c.device, c.id)
	}
	return seen.gaps()
}

// collect reads all chunks of a window. The budget counts what it answers; with an error it answers nothing.
func (a *answer) collect(ctx context.Context, p part, w telemetry.Range) ([]waiting, error) {
	var (
		mu   sync.Mutex // guards held
		held []waiting
	)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(a.q.cfg.Fanout)
	for _, v := range p.visits {
		g.Go(func() error {
			return a.scan(ctx, v, w, func(c *chunk.Chunk, doc []byte) error {
				h := a.newWaiting(c.Header)
				h.doc, h.bytes = doc, int64(len(doc))+heldBytes
				if err := a.budget.take(h.bytes); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				held = append(held, h)
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		for _, h := range held {
			a.budget.give(h.bytes)
		}
		return nil, err
	}
	return held, nil
}
