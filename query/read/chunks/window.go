package chunks

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"

	"golang.org/x/sync/errgroup"
)

// windows reads a part window by window: all chunks of a window are collected, then handed on. It is for scans without
// order, and for more keys than may be read at a time. A window is a month; where that takes too much memory, a day.
// For a sink that may stop early the first window is a day, and each next one twice as long.
func (q *Query) windows(ctx context.Context, p plan.Part) error {
	for rest := p.Range; !rest.Empty(); {
		w, later := q.Request.Order.Cut(rest, q.days)
		held, err := q.window(ctx, p, w)
		tooMuch := errors.Is(err, piece.ErrMemory) || errors.Is(err, piece.ErrBusy)
		if tooMuch && telemetry.DayOf(w.From) < telemetry.DayOf(w.To-1) {
			q.days, q.oneDay = 1, true
			continue
		}
		if err != nil {
			return err
		}
		for _, p := range held {
			if err := q.Deliver(p); err != nil {
				return err
			}
		}
		if err := q.Sink.Passed(q.Request.Order.End(w)); err != nil {
			return err
		}
		rest = later
		if !q.oneDay {
			q.days = min(2*q.days, daysOfMonth)
		}
	}
	return nil
}

// window returns the pieces of a window. With an error it returns none, and holds no memory of them.
func (q *Query) window(ctx context.Context, p plan.Part, w telemetry.Range) ([]*piece.Piece, error) {
	seen := NewChainCheck(q.Tails())
	before := len(q.Missing)
	var held []*piece.Piece
	take := func(p *piece.Piece) error {
		held = append(held, p)
		return nil
	}
	err := q.collect(ctx, slices.Values([]plan.Part{{Range: w, Targets: p.Targets}}), seen, take)
	if err == nil {
		err = q.Check(ctx, seen, w, take)
	}
	if err != nil {
		q.Missing = q.Missing[:before]
		piece.ReleaseAll(held)
		return nil, err
	}
	return held, nil
}

// collect scans all parts, several keys at a time. take is called by one goroutine at a time.
func (q *Query) collect(ctx context.Context, parts iter.Seq[plan.Part], seen *ChainCheck,
	take func(*piece.Piece) error) error {
	var mu sync.Mutex // held while take runs
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(q.r.cfg.Fanout)
	for p := range parts {
		for _, t := range p.Targets {
			if ctx.Err() != nil {
				break
			}
			r := piece.Within(t.Range, p.Range)
			if r.Empty() {
				continue
			}
			g.Go(func() error {
				return q.Read(ctx, t, r, func(p *piece.Piece) error {
					mu.Lock()
					defer mu.Unlock()
					seen.Add(p.Device, p.Chunk.Header.ID)
					return take(p)
				})
			})
		}
	}
	return g.Wait()
}

// Gather hands on the pieces of all parts, as they come.
func (q *Query) Gather(ctx context.Context) error {
	seen := NewChainCheck(nil)
	err := q.collect(ctx, q.View.Parts, seen, q.Deliver)
	if err == nil && q.View.Tenant.Placement != nil && (!q.Heads.Stored.Counts() || q.isAsking.Load()) {
		seen.tails = q.Tails()
		q.Heads.EachKnownChunk(func(device string, id chunk.ID) { seen.Add(device, id) })
		err = q.Check(ctx, seen, q.Request.Range, q.Deliver)
	}
	return piece.Ended(err)
}

// InOrder hands on the pieces of all parts in the order of the request.
func (q *Query) InOrder(ctx context.Context) error {
	for p := range q.View.Parts {
		if err := q.Sink.Passed(q.Request.Order.Begin(p.Range)); err != nil {
			return piece.Ended(err)
		}
		read := q.windows
		if p.Ordered {
			read = q.stream
		}
		if err := read(ctx, p); err != nil {
			return piece.Ended(err)
		}
	}
	return piece.Ended(q.Sink.Passed(piece.EndPosition))
}
