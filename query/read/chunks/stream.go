package chunks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
)

// feed is a scan of one key, read chunk by chunk in the order of their first instants.
type feed struct {
	start  func()            // begins the scan; nil once it has begun
	from   int64             // position before which the key has no chunks
	pieces chan *piece.Piece // unbuffered: a scan is one chunk ahead of the sink
	err    error             // set before pieces is closed
	next   *piece.Piece      // taken from pieces and not handed on yet
}

// stream hands on the chunks of a part while they are being read: that takes little memory, and a sink that has enough
// ends the scans early.
func (q *Query) stream(ctx context.Context, p plan.Part) error {
	seen := NewChainCheck(q.Tails())
	err := q.streamAll(ctx, p, seen)
	reached := p.Range
	var stop *piece.Stop
	switch {
	case errors.As(err, &stop):
		reached = q.Request.Order.Until(p.Range, stop.At)
	case err != nil:
		return err
	}
	// Rows behind a gap are sent: it is too late for those in it.
	return cmp.Or(q.Check(ctx, seen, reached, nil), err)
}

func (q *Query) streamAll(ctx context.Context, p plan.Part, seen *ChainCheck) error {
	ctx, stop := context.WithCancel(ctx)
	var scans sync.WaitGroup
	feeds := make([]*feed, len(p.Targets))
	for i, t := range p.Targets {
		f := &feed{from: q.Request.Order.Begin(t.Range), pieces: make(chan *piece.Piece)}
		feeds[i] = f
		scan := func() {
			defer close(f.pieces)
			f.err = q.scan(ctx, t, t.Range, func(p *piece.Piece) error {
				select {
				case f.pieces <- p:
					return nil
				case <-ctx.Done():
					p.Release()
					return ctx.Err()
				}
			})
		}
		f.start = func() { scans.Go(scan) }
	}
	err := q.inOrder(p, feeds, seen)
	stop()
	scans.Wait()
	return err
}

// inOrder hands on the pieces of feeds, and the position that no unread chunk can come before.
func (q *Query) inOrder(p plan.Part, feeds []*feed, seen *ChainCheck) error {
	for {
		var err error
		if feeds, err = fill(feeds, seen); err != nil {
			return err
		}
		if len(feeds) == 0 {
			return q.Sink.Passed(q.Request.Order.End(p.Range))
		}
		first := slices.MinFunc(feeds, func(f, g *feed) int { return cmp.Compare(q.lead(f), q.lead(g)) })
		if err := q.Sink.Passed(q.lead(first)); err != nil {
			return err
		}
		if first.start != nil {
			begin(feeds, first.from)
			continue
		}
		next := first.next
		first.next = nil
		if err := q.Deliver(next); err != nil {
			return err
		}
	}
}

// begin starts the scans of keys that may have chunks at a position.
func begin(feeds []*feed, at int64) {
	for _, f := range feeds {
		if f.start != nil && f.from <= at {
			f.start()
			f.start = nil
		}
	}
}

// fill takes the next piece from each feed that has begun and has none at hand, and drops feeds that have ended.
func fill(feeds []*feed, seen *ChainCheck) ([]*feed, error) {
	for _, f := range feeds {
		if f.start == nil && f.next == nil {
			f.next = <-f.pieces
			if f.next == nil && f.err != nil {
				return nil, f.err
			}
			if f.next != nil {
				seen.Add(f.next.Device, f.next.Chunk.Header.ID)
			}
		}
	}
	return slices.DeleteFunc(feeds, func(f *feed) bool { return f.start == nil && f.next == nil }), nil
}

// lead returns the position before which no piece of a feed has a row that is not handed on. Scans are in the order of
// first instants; descending, a chunk that begins earlier may still end later, but not after its day.
func (q *Query) lead(f *feed) int64 {
	if f.next == nil {
		return f.from
	}
	h := &f.next.Chunk.Header
	if q.Request.Order == piece.Descending {
		return q.Request.Order.At(h.ID.Day.End() - 1)
	}
	return q.Request.Order.At(h.From)
}
