package worker

import (
	"binnacle/ingest/bins"
	"binnacle/internal/retry"
	"time"
)

// pressure makes room in a Worker while memory is short (rule W11).
type pressure struct {
	w       *Worker
	memory  memoryUse
	shelved retry.Backoff // backs off from a shelf that has failed
}

// relieve makes room while memory is short: this worker's part of what must go, less what is going already (rule W11).
// Chains that have had no rows for a hold are forgotten first, then the fullest bins are cut. When nothing more can be
// taken, all idle chains and names go, or a producer that invents devices or metrics would fill memory for good.
func (p *pressure) relieve(now time.Time) {
	p.w.settle()
	over := p.memory.mustGo(p.memory.counted)
	if over == 0 {
		return
	}
	full := p.memory.Full()
	over -= int64(p.w.writer.Publisher.Refused.Bytes) + p.w.bins.Index.Going
	if full {
		// Chains that wait for dead letters will go soon, as a rule; when nothing more can be taken, others must.
		over += p.w.bins.Index.Stuck
	}
	over -= p.forgetUntil(over, func(c *bins.Chain) bool {
		return full || now.Sub(time.UnixMilli(c.Used)) >= p.w.cfg.Hold
	})
	over -= p.shelve(over, now)
	for over > 0 {
		c := p.w.bins.Index.Size.Largest()
		if c == nil {
			if full {
				p.w.bins.Names = bins.NewNames()
				p.w.writer.Abandon(over, now)
			}
			return
		}
		p.w.writer.Ask(c, bins.CutMemory, now)
		if at, ok := p.w.writer.Publisher.Refused.First(); c.Phase == bins.Stalled {
			continue
		} else if !full || !ok || at > c.Bin.Through() {
			over -= int64(bins.Size(&c.Bin))
		}
	}
}

// shelve puts blocks on the shelf, first from the bins with most of them in memory, until wanted bytes are free. It
// returns the bytes freed. After a failure blocks stay in memory, and the shelf rests.
func (p *pressure) shelve(wanted int64, now time.Time) (made int64) {
	if p.w.cfg.Shelf == nil || !p.shelved.Open(now) {
		return 0
	}
	for made < wanted {
		c := p.w.bins.Index.Shelvable.Largest()
		if c == nil || c.Bin.Shelvable() < leastShelved {
			return made
		}
		freed, err := p.w.bins.Shelve(c, p.w.cfg.Shelf)
		made += int64(freed)
		if err != nil {
			p.shelved.Fail(now, retry.Schedule{First: time.Minute, Longest: time.Hour, Spread: p.w.writer.Cfg.Spreads.Float64()})
			p.w.observer.ShelfFailed(err)
			return made
		}
	}
	p.shelved = retry.Backoff{}
	return made
}

// leastShelved is from how many bytes on the blocks of a bin are worth shelving.
const leastShelved = 1 << 10

// forgetUntil forgets idle chains, in the order in which they are forgotten anyway, while may allows the next one and
// room is wanted. It returns how much room that has made.
func (p *pressure) forgetUntil(wanted int64, may func(*bins.Chain) bool) (made int64) {
	p.w.bins.Lock()
	defer p.w.bins.Unlock()
	before := p.w.Held()
	for made < wanted && p.w.bins.Index.Idle.Len() > 0 && may(p.w.bins.Index.Idle.First()) {
		p.w.bins.Forget(p.w.bins.Index.Idle.First())
		p.w.observer.ChainForgotten()
		p.w.forgetGone()
		made = before - p.w.Held()
	}
	return made
}

// forgetIdle forgets chains that have been idle for so long that they are hardly worth their memory.
func (p *pressure) forgetIdle(now time.Time) {
	p.w.bins.Lock()
	defer p.w.bins.Unlock()
	for p.w.bins.Index.Idle.Len() > 0 && p.w.bins.Index.Idle.First().IsForgotten(now) {
		p.w.bins.Forget(p.w.bins.Index.Idle.First())
	}
}
