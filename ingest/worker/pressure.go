package worker

import (
	"binnacle/ingest/bins"
	"binnacle/internal/retry"
	"time"
)

// relieve makes room while memory is short: this worker's part of what must go, less what is going already (rule W11).
// What is known of chains that have had no rows for a hold goes first, then the fullest bins are cut; and when nothing
// more can be taken, all that is known of idle chains goes too, or a producer that invents devices would fill memory
// for good.
func (w *Worker) relieve(now time.Time) {
	w.settle()
	over := w.memory.mustGo(w.memory.counted)
	if over == 0 {
		return
	}
	full := w.memory.Full()
	over -= int64(w.writer.Publisher.Refused.Bytes) + w.bins.Index.Going
	if full {
		// Chains that wait for dead letters will go soon, as a rule; when nothing more can be taken, others must.
		over += w.bins.Index.Stuck
	}
	over -= w.forgetUntil(over, func(c *bins.Chain) bool { return full || now.Sub(time.UnixMilli(c.Used)) >= w.cfg.Hold })
	over -= w.shelve(over, now)
	for over > 0 {
		c := w.bins.Index.Size.Largest()
		if c == nil {
			if full {
				w.writer.Abandon(over, now)
			}
			return
		}
		w.writer.Ask(c, bins.CutMemory, now)
		if at, ok := w.writer.Publisher.Refused.First(); c.Phase == bins.Stalled {
			continue
		} else if !full || !ok || at > c.Bin.Through() {
			over -= int64(bins.Size(&c.Bin))
		}
	}
}

// shelve puts blocks on the shelf, of the bins that have most of them in memory first, until so many bytes are free. It
// returns how many that are. What a shelf fails to take stays where it is, and it is left alone for a while.
func (w *Worker) shelve(wanted int64, now time.Time) (made int64) {
	if w.cfg.Shelf == nil || !w.shelved.Open(now) {
		return 0
	}
	for made < wanted {
		c := w.bins.Index.Shelvable.Largest()
		if c == nil || c.Bin.Shelvable() < leastShelved {
			return made
		}
		w.bins.Mu.Lock()
		freed, err := c.Bin.Shelve(w.cfg.Shelf)
		w.bins.Mu.Unlock()
		made += int64(freed)
		w.bins.Index.Count(c)
		if err != nil {
			w.shelved.Fail(now, retry.Schedule{First: time.Minute, Longest: time.Hour, Spread: w.writer.Cfg.Spreads.Float64()})
			w.observer.ShelfFailed(err)
			return made
		}
	}
	w.shelved = retry.Backoff{}
	return made
}

// leastShelved is from how many bytes on the blocks of a bin are worth shelving.
const leastShelved = 1 << 10

// forgetUntil returns up what is known of idle chains, those that would be forgotten next, as long as one may go and
// room is wanted. It returns how much room that has made.
func (w *Worker) forgetUntil(wanted int64, may func(*bins.Chain) bool) (made int64) {
	w.bins.Mu.Lock()
	defer w.bins.Mu.Unlock()
	before := w.Held()
	for made < wanted && w.bins.Index.Idle.Len() > 0 && may(w.bins.Index.Idle.First()) {
		w.bins.Forget(w.bins.Index.Idle.First())
		w.observer.ChainForgotten()
		w.forgetGone()
		made = before - w.Held()
	}
	return made
}

// forgetIdle gives up what is known of chains that have been idle for so long that it is hardly worth its memory.
func (w *Worker) forgetIdle(now time.Time) {
	w.bins.Mu.Lock()
	defer w.bins.Mu.Unlock()
	for w.bins.Index.Idle.Len() > 0 && now.After(w.bins.Index.Idle.First().ForgetAt()) {
		w.bins.Forget(w.bins.Index.Idle.First())
	}
}
