package ingest

import (
	"context"
	"errors"
	"sort"
	"time"

	"binnacle/internal/kafka"
)

// recaller reads stretches of the log again for a partition's Worker: readings that were over a rate of their tenant
// stay there until it is their turn. What comes in now goes first.
type recaller struct {
	reader  *reader // its fetching goroutine's while there is one
	asked   bool    // a fetch is under way
	from    int64   // the offset that was asked for last
	got     chan fetched
	lacking bool        // the next record waits until it is found out what the worker lacks
	pending kafka.Batch // of what was fetched last: passes begin where the last one ended, as a rule
	next    int         // of its records, the first that was not given to the Worker
}

type fetched struct {
	kafka.Batch
	err error
}

func newRecaller(r *reader) recaller { return recaller{reader: r, got: make(chan fetched, 1)} }

// RecallAtOnce is how many records are taken again before those that come in now are looked for. While there are such,
// a fifth of the records is read again.
const RecallAtOnce = FeedAtOnce / 4

// recall gives the Worker some records again, and reports whether it wants more that are here.
func (p *partition) recall(ctx context.Context) (more bool) {
	r := &p.again
	if r.lacking {
		return false
	}
	offset, ok := p.worker.Recall(p.in.cfg.Now())
	if !ok {
		r.release() // others may need the room
	}
	if !ok || r.asked || p.in.memory.Full() {
		return false
	}
	if offset < p.first {
		p.gone()
		return false
	}
	if !r.has(offset) {
		p.fetchAgain(ctx, offset)
		return false
	}
	for range RecallAtOnce {
		if r.next < len(r.pending.Records) {
			rec := record(&r.pending.Records[r.next])
			if err := p.worker.Recalled(rec, p.in.stores.Directory.View(), p.in.cfg.Now()); err != nil {
				p.learn(ctx, &r.lacking, err)
				return false
			}
		} else {
			p.worker.RecalledTo(r.pending.Next, p.in.cfg.Now())
		}
		if offset, ok = p.worker.Recall(p.in.cfg.Now()); !ok || !r.has(offset) {
			break
		}
	}
	return true
}

// has reports whether what was fetched has the log from an offset on, and goes there.
func (r *recaller) has(offset int64) bool {
	n := len(r.pending.Records)
	if n == 0 || offset >= r.pending.Next || offset < r.from {
		return false
	}
	r.next = sort.Search(n, func(i int) bool { return r.pending.Records[i].Offset >= offset })
	return true
}

// fetchAgain begins to fetch what is to be recalled.
func (p *partition) fetchAgain(ctx context.Context, offset int64) {
	r := &p.again
	r.release()
	r.asked, r.from = true, offset
	p.fetching.Go(func() {
		for pauses := pausesFrom(p.in.cfg.RetryBackoff).Begin(); ; {
			b, err := r.reader.fetch(ctx, offset)
			if err == nil || ctx.Err() != nil || errors.Is(err, errRetake) {
				r.got <- fetched{b, err}
				return
			}
			p.in.metrics.retries.WithLabelValues("recall").Inc()
			if err := pauses.Wait(ctx); err != nil {
				r.got <- fetched{kafka.Batch{}, err}
				return
			}
		}
	})
}

// takeFetched takes what was fetched. Its error is errRetake when the log may be another one.
func (p *partition) takeFetched(f fetched) error {
	r := &p.again
	r.asked, r.pending, r.next = false, f.Batch, 0
	if f.err != nil || len(f.Records) == 0 {
		p.worker.RecalledTo(f.Next, p.in.cfg.Now())
		r.release()
	}
	if errors.Is(f.err, errRetake) {
		return f.err
	}
	return nil
}

// release gives back what was fetched.
func (r *recaller) release() {
	r.pending.Release()
	r.pending, r.next = kafka.Batch{}, 0
}

// stop gives back what is under way too; nothing is being fetched any more.
func (r *recaller) stop() {
	if r.asked {
		f := <-r.got
		f.Release()
		r.asked = false
	}
	r.release()
}

// soonest is when the worker is to be asked what is to be done.
func (p *partition) soonest(now time.Time, full bool) time.Time {
	next := p.worker.Next(now)
	if at, ok := p.worker.RecallAt(); ok && !full && !p.again.asked && !p.again.lacking && at.Before(next) {
		return at
	}
	return next
}

// gone takes that the log has lost what waited there.
func (p *partition) gone() {
	if from, ok := p.worker.Gone(p.first); ok {
		p.log.Error("records were deleted that waited for a limit of their tenant: the topic's retention is too short",
			"waited_from", from, "first", p.first)
	}
}

// gaugeWaiting tells what waits for a limit.
func (p *partition) gaugeWaiting() {
	labels, now := p.at.labels(), p.in.cfg.Now()
	oldest, all := 0.0, p.worker.Waiting("")
	for _, x := range all {
		oldest = max(oldest, now.Sub(x.Since).Seconds())
	}
	p.in.metrics.waiting.WithLabelValues(labels...).Set(float64(len(all)))
	p.in.metrics.waited.WithLabelValues(labels...).Set(oldest)
}
