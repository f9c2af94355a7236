package ingest

import (
	"context"
	"errors"
	"sort"
	"time"

	"binnacle/internal/kafka"
)

// deferredReader reads stretches of the log again for a partition's Worker: readings above a rate of their tenant stay
// there until the rate allows them. New records go first.
type deferredReader struct {
	reader   *reader // its fetching goroutine's while there is one
	fetching bool    // a fetch is under way
	from     int64   // the offset that was asked for last
	fetched  chan deferredBatch
	lacking  bool        // the next record waits until it is found out what the worker lacks
	pending  kafka.Batch // the batch fetched last: as a rule a pass begins where the last one ended
	next     int         // index of the first pending record that was not given to the Worker
}

type deferredBatch struct {
	kafka.Batch
	err error
}

func newDeferredReader(r *reader) deferredReader {
	return deferredReader{reader: r, fetched: make(chan deferredBatch, 1)}
}

// DeferredAtOnce is how many deferred records are fed before the next new ones: a fifth of all while there are new
// ones. Readings of a tenant that was registered go before new ones.
const DeferredAtOnce = FeedAtOnce / 4

// feedDeferred feeds the Worker deferred records that are fetched, and reports whether there are more of them.
func (p *partition) feedDeferred(ctx context.Context) (more bool) {
	r := &p.deferred
	if r.lacking {
		return false
	}
	offset, ok := p.worker.Deferred().Next(p.in.cfg.Now())
	if !ok {
		r.release() // others may need the room
	}
	if !ok || r.fetching || p.full() {
		return false
	}
	if offset < p.first {
		p.loseDeferred()
		return false
	}
	if !r.seek(offset) {
		p.fetchDeferred(ctx, offset)
		return false
	}
	for range DeferredAtOnce {
		if r.next < len(r.pending.Records) {
			rec := record(&r.pending.Records[r.next])
			if err := p.worker.Deferred().Feed(rec, p.in.stores.Directory.Snapshot(), p.in.cfg.Now()); err != nil {
				p.learn(ctx, &r.lacking, err)
				return false
			}
		} else {
			p.worker.Deferred().SkipTo(r.pending.Next, p.in.cfg.Now())
		}
		if offset, ok = p.worker.Deferred().Next(p.in.cfg.Now()); !ok || !r.seek(offset) || p.full() {
			break
		}
	}
	return true
}

// seek moves to an offset, and reports whether the fetched batch covers it.
func (r *deferredReader) seek(offset int64) bool {
	n := len(r.pending.Records)
	if n == 0 || offset >= r.pending.Next || offset < r.from {
		return false
	}
	r.next = sort.Search(n, func(i int) bool { return r.pending.Records[i].Offset >= offset })
	return true
}

func (p *partition) fetchDeferred(ctx context.Context, offset int64) {
	r := &p.deferred
	r.release()
	r.fetching, r.from = true, offset
	p.fetching.Go(func() {
		defer p.stir()
		for pauses := pausesFrom(p.in.cfg.RetryBackoff).Begin(); ; {
			b, err := r.reader.fetch(ctx, offset)
			if err == nil || ctx.Err() != nil || errors.Is(err, errRetake) {
				r.fetched <- deferredBatch{b, err}
				return
			}
			p.in.metrics.retries.WithLabelValues("fetch deferred").Inc()
			if err := pauses.Wait(ctx); err != nil {
				r.fetched <- deferredBatch{kafka.Batch{}, err}
				return
			}
		}
	})
}

// receiveDeferred takes a fetched batch, if there is one. Its error is errRetake when the log may be another one.
func (p *partition) receiveDeferred() error {
	r := &p.deferred
	if len(r.fetched) == 0 {
		return nil
	}
	f := <-r.fetched
	r.fetching, r.pending, r.next = false, f.Batch, 0
	if f.err != nil || len(f.Records) == 0 {
		p.worker.Deferred().SkipTo(f.Next, p.in.cfg.Now())
		r.release()
	}
	if errors.Is(f.err, errRetake) {
		return f.err
	}
	return nil
}

func (r *deferredReader) release() {
	r.pending.Release()
	r.pending, r.next = kafka.Batch{}, 0
}

// end releases what was fetched, also by a fetch that has just ended; none is under way any more.
func (r *deferredReader) end() {
	if r.fetching {
		f := <-r.fetched
		f.Release()
		r.fetching = false
	}
	r.release()
}

// longestSleep and shortestSleep bound how long a partition sleeps: its clock may be set, or stand still, meanwhile.
const longestSleep, shortestSleep = time.Second, time.Millisecond

func (p *partition) nextWake(now time.Time, full bool) time.Time {
	next := p.worker.Next(now)
	idle := !full && !p.deferred.fetching && !p.deferred.lacking
	if at, ok := p.worker.Deferred().DueAt(); ok && idle && at.Before(next) {
		return at
	}
	return next
}

// loseDeferred gives up deferred readings that the log has deleted.
func (p *partition) loseDeferred() {
	if from, ok := p.worker.Deferred().Truncate(p.first); ok {
		p.log.Error("deferred records were deleted before their limit allowed them: the topic's retention is too short",
			"from", from, "first", p.first)
	}
}

func (p *partition) gaugeDeferred() {
	labels, now := p.at.labels(), p.in.cfg.Now()
	oldest, all := 0.0, p.worker.Deferred().Deferrals("")
	for _, x := range all {
		oldest = max(oldest, now.Sub(x.Since).Seconds())
	}
	p.in.metrics.deferredBy.WithLabelValues(labels...).Set(float64(len(all)))
	p.in.metrics.deferredFor.WithLabelValues(labels...).Set(oldest)
}
