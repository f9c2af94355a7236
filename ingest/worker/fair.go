package worker

import (
	"time"

	"binnacle/ingest/queue"

	"binnacle/internal/telemetry"
)

// limitShare is the reason when a noisy tenant is deferred for the sake of the others in its partition.
const limitShare limitName = "share"

// fairness keeps a noisy tenant from delaying the others in its partition. When more comes than is taken, all would be
// late alike. So once the partition has been behind for a while, each tenant that has sent more than one and a half
// times an even share is deferred, as one above a rate is; but nothing of it is refused, and it gets all the time that
// the others leave.
type fairness struct {
	marks    queue.FIFO[marked] // ends of the log, and when they were known, the oldest first
	at       time.Time          // of the last mark
	end      int64              // that it has
	lag      time.Duration
	yielding bool // what was deferred goes on waiting: the others are late still

	began   time.Time // of the round in which values are counted
	round   int
	came    int
	tenants []*tenant // that sent them
}

// fairRound is for how long values are counted before a tenant is deferred.
const fairRound = 250 * time.Millisecond

// lag returns for how long the record at an offset has been in the log, as far as that is known here, and not taken. It
// does not depend on producers' timestamps.
func (th *throttle) lag(offset int64, now time.Time) time.Duration {
	f := &th.fair
	if th.log.end > f.end && now.Sub(f.at) >= max(fairRound/4, f.lag/64) {
		f.marks.Push(marked{now, th.log.end})
		f.at, f.end = now, th.log.end
	}
	for f.marks.Len() > 0 && f.marks.Front().position <= offset {
		f.marks.Pop()
	}
	if f.lag = 0; f.marks.Len() > 0 {
		f.lag = now.Sub(f.marks.Front().at)
	}
	return f.lag
}

// deferNoisy defers tenants that delay others, from a record on that is about to be taken.
func (th *throttle) deferNoisy(rec *Record, readings []telemetry.Reading, now time.Time) {
	late := th.cfg.FairAfter
	if late <= 0 || th.lag(rec.Offset, now) < late || rec.Offset < th.log.caughtUp {
		return // after a takeover no tenant is the cause
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	f := &th.fair
	switch since := now.Sub(f.began); {
	case since >= 2*fairRound+late:
		th.newRound(now)
	case since >= fairRound:
		// A tenant that sends now and then is in few rounds, but late in all of them.
		n := len(th.registry.tenants)
		for _, t := range f.tenants {
			if t.deferral == nil && 2*n*t.came > 3*f.came && th.registry.tenants[t.Name] == t {
				th.deferFrom(deferral{tenant: t, limit: limitShare, from: rec.Offset, published: rec.Time}, false)
			}
		}
		th.newRound(now)
	}
	for i := range readings {
		t := th.registry.known(readings[i].Tenant)
		if t == nil {
			continue
		}
		if t.round != f.round {
			t.round, t.came = f.round, 0
			f.tenants = append(f.tenants, t)
		}
		t.came += len(readings[i].Fields)
		f.came += len(readings[i].Fields)
	}
}

// newRound begins a round.
func (th *throttle) newRound(now time.Time) {
	f := &th.fair
	clear(f.tenants)
	f.began, f.round, f.came, f.tenants = now, f.round+1, 0, f.tenants[:0]
}

// yields reports whether everything deferred goes on waiting because others are late: only noisy tenants are deferred,
// and none for longer than it may be. The caller holds the lock.
func (th *throttle) yields(now time.Time) bool {
	f := &th.fair
	if th.cfg.FairAfter <= 0 {
		return false
	}
	late := th.cfg.FairAfter / 4
	if f.yielding {
		late /= 2
	}
	if f.yielding = th.log.position < th.log.end && th.lag(th.log.position, now) > late; !f.yielding {
		return false
	}
	for _, x := range th.deferrals.all {
		if x.limit != limitShare || x.from < th.deferrals.urgentBelow ||
			x.published >= 0 && now.Sub(time.UnixMilli(x.published)) > th.cfg.HeldFor {
			f.yielding = false
			break
		}
	}
	return f.yielding
}
