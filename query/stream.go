package query

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"binnacle/binning/chunk"
)

// parsedBytes is about what a parsed chunk takes beside its document: the values of its statistics and columns.
const parsedBytes = 24 << 10

// feed is a scan of one key, read chunk by chunk in the order of their first instants.
type feed struct {
	chunks chan *fed // unbuffered: a scan is one chunk ahead of the merge
	err    error     // set before chunks is closed
	next   *fed      // taken from chunks and not merged yet
}

type fed struct {
	*chunk.Chunk
	doc []byte
}

// stream merges the keys of a part while they are being read: little memory, and a limit ends the scans early.
func (a *answer) stream(ctx context.Context, p part) error {
	ctx, stop := context.WithCancel(ctx)
	var scans sync.WaitGroup
	feeds := make([]*feed, len(p.visits))
	for i, v := range p.visits {
		f := &feed{chunks: make(chan *fed)}
		feeds[i] = f
		scans.Go(func() {
			defer close(f.chunks)
			f.err = a.scan(ctx, v, p.Range, func(c *chunk.Chunk, doc []byte) error {
				select {
				case f.chunks <- &fed{c, doc}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}
	err := a.mergeFeeds(p, feeds)
	stop()
	scans.Wait()
	return err
}

// mergeFeeds emits the part's rows. A row may go out when no unread chunk can hold its instant any more.
func (a *answer) mergeFeeds(p part, feeds []*feed) error {
	seen := newChains(p.Range, a.expired)
	for {
		var err error
		if feeds, err = fill(feeds); err != nil {
			return err
		}
		if len(feeds) == 0 {
			break
		}
		first := slices.MinFunc(feeds, func(f, g *feed) int { return cmp.Compare(a.lead(f.next.Header), a.lead(g.next.Header)) })
		if err := a.merger.drain(a.lead(first.next.Header)); err != nil {
			return err
		}
		w := a.newWaiting(first.next.Header)
		if a.dir == descending { // it may wait for the others of its day
			w.doc, w.bytes = first.next.doc, int64(len(first.next.doc))+heldBytes
		} else {
			w.parsed, w.bytes = first.next.Chunk, int64(len(first.next.doc))+parsedBytes
		}
		if err := a.budget.take(w.bytes); err != nil {
			return err
		}
		a.merger.addChunk(w)
		seen.add(w.device, w.id)
		first.next = nil
	}
	if err := a.merger.drain(a.dir.end(p.Range)); err != nil {
		return err
	}
	a.missing = append(a.missing, seen.gaps()...) // rows beside the gap are out: too late to read again
	return nil
}

// fill takes the next chunk of each feed that has none at hand, and leaves out those that have ended.
func fill(feeds []*feed) ([]*feed, error) {
	for _, f := range feeds {
		if f.next == nil {
			f.next = <-f.chunks
			if f.next == nil && f.err != nil {
				return nil, f.err
			}
		}
	}
	return slices.DeleteFunc(feeds, func(f *feed) bool { return f.next == nil }), nil
}

// lead is the position that neither a row of this chunk nor of any chunk after it in its scan comes before. Scans are
// in the order of first instants; descending, a chunk that begins earlier may still end later, but not after its day.
func (a *answer) lead(h chunk.Header) int64 {
	if a.dir == descending {
		return a.dir.at(h.ID.Day.End() - 1)
	}
	return a.dir.at(h.From)
}
