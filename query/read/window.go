package read

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"binnacle/internal/telemetry"

	"golang.org/x/sync/errgroup"
)

// daysOfMonth is enough days for a window that takes what is left of a month.
const daysOfMonth = 31

// windows reads a part window by window: all chunks of a window are collected, then handed on. It is for scans without
// order, and for more keys than may be read at a time. A window is a month; where that takes too much memory, a day.
// For a sink that may stop early the first window is a day, and each next one twice as long.
func (q *Query) windows(ctx context.Context, p part) error {
	for rest := p.Range; !rest.Empty(); {
		w, later := q.req.Order.cut(rest, q.days)
		held, err := q.window(ctx, p, w)
		tooMuch := errors.Is(err, ErrMemory) || errors.Is(err, ErrBusy)
		if tooMuch && telemetry.DayOf(w.From) < telemetry.DayOf(w.To-1) {
			q.days, q.oneDay = 1, true
			continue
		}
		if err != nil {
			return err
		}
		for _, piece := range held {
			if err := q.deliver(piece); err != nil {
				return err
			}
		}
		if err := q.sink.Passed(q.req.Order.end(w)); err != nil {
			return err
		}
		rest = later
		if !q.oneDay {
			q.days = min(2*q.days, daysOfMonth)
		}
	}
	return nil
}

// cut returns the first days of r in the order, and the rest. It cuts at midnights: no chunk is in two windows.
func (o Order) cut(r telemetry.Range, days int) (first, rest telemetry.Range) {
	if o == Descending {
		at := max(r.From, (telemetry.DayOf(r.To-1) + 1 - telemetry.Day(days)).Start())
		return telemetry.Range{From: at, To: r.To}, telemetry.Range{From: r.From, To: at}
	}
	at := min(r.To, (telemetry.DayOf(r.From) + telemetry.Day(days)).Start())
	return telemetry.Range{From: r.From, To: at}, telemetry.Range{From: at, To: r.To}
}

// window returns the pieces of a window. With an error it returns none, and holds no memory of them.
func (q *Query) window(ctx context.Context, p part, w telemetry.Range) ([]*Piece, error) {
	seen := newChainCheck(q.tails)
	before := len(q.missing)
	var held []*Piece
	take := func(piece *Piece) error {
		held = append(held, piece)
		return nil
	}
	err := q.collect(ctx, slices.Values([]part{{Range: w, targets: p.targets}}), seen, take)
	if err == nil {
		err = q.checkChains(ctx, seen, w, take)
	}
	if err != nil {
		q.missing = q.missing[:before]
		for _, piece := range held {
			piece.Release()
		}
		return nil, err
	}
	return held, nil
}

// gather hands on the pieces of all parts, as they come.
func (q *Query) gather(ctx context.Context) error {
	seen := newChainCheck(q.tails)
	q.addMovedTo(seen)
	err := q.collect(ctx, q.plan.parts, seen, q.deliver)
	if err == nil && q.plan.tenant.Placement != nil && (!q.countsStored || len(q.loaded.keys) > 0) {
		err = q.checkChains(ctx, seen, q.req.Range, q.deliver)
	}
	return ended(err)
}

// collect scans all parts, several keys at a time. take is called by one goroutine at a time.
func (q *Query) collect(ctx context.Context, parts iter.Seq[part], seen *chainCheck, take func(*Piece) error) error {
	var mu sync.Mutex // held while take runs
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(q.r.cfg.Fanout)
	for p := range parts {
		for _, t := range p.targets {
			if ctx.Err() != nil {
				break
			}
			r := within(t.Range, p.Range)
			if r.Empty() {
				continue
			}
			g.Go(func() error {
				return q.readCached(ctx, t, r, func(piece *Piece) error {
					mu.Lock()
					defer mu.Unlock()
					seen.add(piece.Device, piece.Chunk.Header.ID)
					return take(piece)
				})
			})
		}
	}
	return g.Wait()
}
