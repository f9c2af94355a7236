package worker

import (
	"time"

	"binnacle/internal/retry"
)

// relieve makes room while memory is short: this worker's part of what must go, less what is going already (rule W11).
// What is known of chains that have had no rows for a hold goes first, then the fullest bins are cut; and when nothing
// more can be taken, all that is known of idle chains goes too, or a producer that invents devices would fill memory
// for good.
func (w *Worker) relieve(now time.Time) {
	w.countMemory()
	over := w.memory.mustGo(w.memory.counted)
	if over == 0 {
		return
	}
	full := w.memory.Full()
	over -= int64(w.publisher.refused.bytes) + w.index.going
	if full {
		// Chains that wait for dead letters will go soon, as a rule; when nothing more can be taken, others must.
		over += w.index.stuck
	}
	over -= w.forgetUntil(over, func(c *chain) bool { return full || now.Sub(time.UnixMilli(c.used)) >= w.cfg.Hold })
	over -= w.shelve(over, now)
	for over > 0 {
		c := w.index.size.largest()
		if c == nil {
			if full {
				w.abandon(over, now)
			}
			return
		}
		w.ask(c, CutMemory, now)
		if at, ok := w.publisher.refused.first(); c.phase == stalled {
			continue
		} else if !full || !ok || at > c.bin.Through() {
			over -= int64(size(&c.bin))
		}
	}
}

// shelve puts blocks on the shelf, of the bins that have most of them in memory first, until so many bytes are free. It
// returns how many that are. What a shelf fails to take stays where it is, and it is left alone for a while.
func (w *Worker) shelve(wanted int64, now time.Time) (made int64) {
	if w.cfg.Shelf == nil || !w.shelfRetry.Open(now) {
		return 0
	}
	for made < wanted {
		c := w.index.shelvable.largest()
		if c == nil || c.bin.Shelvable() < leastShelved {
			return made
		}
		w.mu.Lock()
		freed, err := c.bin.Shelve(w.cfg.Shelf)
		w.mu.Unlock()
		made += int64(freed)
		w.index.count(c)
		if err != nil {
			w.shelfRetry.Fail(now, retry.Schedule{First: time.Minute, Longest: time.Hour, Spread: w.spreads.Float64()})
			w.observer.ShelfFailed(err)
			return made
		}
	}
	w.shelfRetry = retry.Backoff{}
	return made
}

// leastShelved is from how many bytes on the blocks of a bin are worth shelving.
const leastShelved = 1 << 10

// forgetUntil returns up what is known of idle chains, those that would be forgotten next, as long as one may go and
// room is wanted. It returns how much room that has made.
func (w *Worker) forgetUntil(wanted int64, may func(*chain) bool) (made int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.Held()
	for made < wanted && w.index.idle.Len() > 0 && may(w.index.idle.First()) {
		w.forget(w.index.idle.First())
		w.observer.ChainForgotten()
		made = before - w.Held()
	}
	return made
}

// forgetIdle gives up what is known of chains that have been idle for so long that it is hardly worth its memory.
func (w *Worker) forgetIdle(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.index.idle.Len() > 0 && now.After(w.index.idle.First().forgetAt()) {
		w.forget(w.index.idle.First())
	}
}
