package admit

import (
	"time"

	"binnacle/ingest/queue"
)

// fairness keeps a noisy tenant from delaying the others in its partition. When more comes than is taken, all would be
// late alike. So once the partition has been behind for a while, each tenant that has sent more than one and a half
// times an even share is deferred, as one above a rate is; but nothing of it is refused, and it gets all the time that
// the others leave.
type fairness struct {
	marks queue.FIFO[mark] // ends of the log, and when they were known, the oldest first
	at    time.Time        // time of the last mark
	end   int64            // end of the log in that mark
	lag   time.Duration
	// yielding says that deferred readings wait on, since the other tenants are still late.
	yielding bool

	began   time.Time // begin of the round in which values are counted
	round   int
	came    int
	tenants []*tenantState // tenants that sent these values
}

// mark is an end of the log, and when it was known.
type mark struct {
	at  time.Time
	end int64
}

// fairRound is for how long values are counted before a tenant is deferred.
const fairRound = 250 * time.Millisecond

// see returns for how long the record at an offset has been in the log, as far as that is known here, and not taken. It
// does not depend on producers' timestamps.
func (f *fairness) see(log *Log, offset int64, now time.Time) time.Duration {
	if log.End > f.end && now.Sub(f.at) >= max(fairRound/4, f.lag/64) {
		f.marks.Push(mark{now, log.End})
		f.at, f.end = now, log.End
	}
	for f.marks.Len() > 0 && f.marks.Front().end <= offset {
		f.marks.Pop()
	}
	if f.lag = 0; f.marks.Len() > 0 {
		f.lag = now.Sub(f.marks.Front().at)
	}
	return f.lag
}

func (f *fairness) newRound(now time.Time) {
	clear(f.tenants)
	f.began, f.round, f.came, f.tenants = now, f.round+1, 0, f.tenants[:0]
}

func (f *fairness) count(t *tenantState, values int) {
	if t.round != f.round {
		t.round, t.came = f.round, 0
		f.tenants = append(f.tenants, t)
	}
	t.came += values
	f.came += values
}

// deferNoisy defers tenants that delay others, from a record on that is about to be taken.
func (l *Limits) deferNoisy(x *feed) {
	f, now, late := &l.fair, x.Now, l.cfg.FairAfter
	if late <= 0 || f.see(&x.Log, x.Offset, now) < late || x.Offset < x.Log.CaughtUp {
		return // after a takeover no tenant is the cause
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch since := now.Sub(f.began); {
	case since >= 2*fairRound+late:
		f.newRound(now)
	case since >= fairRound:
		// A tenant that sends now and then is in few rounds, but late in all of them.
		n := len(l.tenants.all) - len(l.registering.waiting)
		for _, t := range f.tenants {
			if t.deferral == nil && 2*n*t.came > 3*f.came && l.tenants.all[t.name] == t {
				l.deferFrom(deferral{tenant: t, limit: limitShare, from: x.Offset, published: x.Time}, false)
			}
		}
		f.newRound(now)
	}
	for i := range x.readings {
		if t := l.tenants.get(x.readings[i].Tenant); t != nil {
			f.count(t, len(x.readings[i].Fields))
		}
	}
}

// yields reports whether everything deferred still waits because others are late: only noisy tenants are deferred,
// and none for longer than it may be.
func (l *Limits) yields(log *Log, now time.Time) bool {
	f := &l.fair
	if l.cfg.FairAfter <= 0 {
		return false
	}
	late := l.cfg.FairAfter / 4
	if f.yielding {
		late /= 2
	}
	if f.yielding = log.Position < log.End && f.see(log, log.Position, now) > late; !f.yielding {
		return false
	}
	for _, x := range l.deferrals.all {
		if x.limit == limitRegistration && x.dueAt(l.cfg.HeldFor).After(now) {
			continue
		}
		if x.limit != limitShare || x.from < l.deferrals.urgentBelow ||
			x.published >= 0 && now.Sub(time.UnixMilli(x.published)) > l.cfg.HeldFor {
			f.yielding = false
			break
		}
	}
	return f.yielding
}
