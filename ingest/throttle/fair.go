package throttle

import (
	"time"

	"binnacle/ingest/queue"
)

// limitShare is the reason when a noisy tenant is deferred for the sake of the others in its partition.
const limitShare limitName = "share"

// fairness keeps a noisy tenant from delaying the others in its partition. When more comes than is taken, all would be
// late alike. So once the partition has been behind for a while, each tenant that has sent more than one and a half
// times an even share is deferred, as one above a rate is; but nothing of it is refused, and it gets all the time that
// the others leave.
type fairness struct {
	marks    queue.FIFO[mark] // ends of the log, and when they were known, the oldest first
	at       time.Time        // of the last mark
	end      int64            // that it has
	lag      time.Duration
	yielding bool // what was deferred goes on waiting: the others are late still

	began   time.Time // of the round in which values are counted
	round   int
	came    int
	tenants []*Tenant // that sent them
}

// mark is an end of the log, and when it was known.
type mark struct {
	at  time.Time
	end int64
}

// fairRound is for how long values are counted before a tenant is deferred.
const fairRound = 250 * time.Millisecond

// lag returns for how long the record at an offset has been in the log, as far as that is known here, and not taken. It
// does not depend on producers' timestamps.
func (th *Throttle) lag(offset int64, now time.Time) time.Duration {
	f := &th.fair
	if th.cfg.Log.End > f.end && now.Sub(f.at) >= max(fairRound/4, f.lag/64) {
		f.marks.Push(mark{now, th.cfg.Log.End})
		f.at, f.end = now, th.cfg.Log.End
	}
	for f.marks.Len() > 0 && f.marks.Front().end <= offset {
		f.marks.Pop()
	}
	if f.lag = 0; f.marks.Len() > 0 {
		f.lag = now.Sub(f.marks.Front().at)
	}
	return f.lag
}

// DeferNoisy defers tenants that delay others, from a record on that is about to be taken.
func (th *Throttle) DeferNoisy(feed *Feed) {
	now := feed.Now
	late := th.cfg.FairAfter
	if late <= 0 || th.lag(feed.Offset, now) < late || feed.Offset < th.cfg.Log.CaughtUp {
		return // after a takeover no tenant is the cause
	}
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
	f := &th.fair
	switch since := now.Sub(f.began); {
	case since >= 2*fairRound+late:
		th.newRound(now)
	case since >= fairRound:
		// A tenant that sends now and then is in few rounds, but late in all of them.
		n := len(th.tenants) - len(th.registering.waiting)
		for _, t := range f.tenants {
			if t.deferral == nil && 2*n*t.came > 3*f.came && th.tenants[t.Name] == t {
				th.deferFrom(deferral{tenant: t, limit: limitShare, from: feed.Offset, published: feed.Time}, false)
			}
		}
		th.newRound(now)
	}
	for i := range feed.Readings {
		r := &feed.Readings[i]
		t := th.known(r.Tenant)
		if t == nil {
			continue
		}
		if t.round != f.round {
			t.round, t.came = f.round, 0
			f.tenants = append(f.tenants, t)
		}
		t.came += len(r.Fields)
		f.came += len(r.Fields)
	}
}

// newRound begins a round.
func (th *Throttle) newRound(now time.Time) {
	f := &th.fair
	clear(f.tenants)
	f.began, f.round, f.came, f.tenants = now, f.round+1, 0, f.tenants[:0]
}

// yields reports whether everything deferred goes on waiting because others are late: only noisy tenants are deferred,
// and none for longer than it may be. The caller holds the lock.
func (th *Throttle) yields(now time.Time) bool {
	f := &th.fair
	if th.cfg.FairAfter <= 0 {
		return false
	}
	late := th.cfg.FairAfter / 4
	if f.yielding {
		late /= 2
	}
	if f.yielding = th.cfg.Log.Position < th.cfg.Log.End && th.lag(th.cfg.Log.Position, now) > late; !f.yielding {
		return false
	}
	for _, x := range th.deferrals.all {
		if x.limit == limitRegistration && x.dueAt(th.cfg.HeldFor).After(now) {
			continue
		}
		if x.limit != limitShare || x.from < th.deferrals.urgentBelow ||
			x.published >= 0 && now.Sub(time.UnixMilli(x.published)) > th.cfg.HeldFor {
			f.yielding = false
			break
		}
	}
	return f.yielding
}
