package write

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/ingest/bins"
	"binnacle/ingest/queue"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// queueKey names chains that share their fate: the chunks of a tenant's period go to one container, as a rule.
type queueKey struct {
	tenant string
	period telemetry.Day // the first one of the period
}

// tenantQueue is the chains of a tenant and period that are to go on, in the order in which they asked.
type tenantQueue struct {
	key     queueKey
	waiting queue.FIFO[*bins.Chain]
	probe   *bins.Chain   // goes before the waiting chains: it was refused because the container is missing
	busy    int           // writes under way
	failing bins.Fault    // fault of the last attempt, None after a success
	since   time.Time     // time at which the container was found missing
	retry   retry.Backoff // while the container is missing one chain asks for all
	ringed  bool          // the queue is in the ring
}

func (l *tenantQueue) parked() bool { return l.failing == bins.NoContainer }

func (l *tenantQueue) len() int {
	if l.probe != nil {
		return 1 + l.waiting.Len()
	}
	return l.waiting.Len()
}

func (l *tenantQueue) pop() *bins.Chain {
	if c := l.probe; c != nil {
		l.probe = nil
		return c
	}
	return l.waiting.Pop()
}

// writeQueue hands out chains that are to go on, as far as writes may be in flight, and fairly: tenants' queues take
// turns, neither a tenant nor a period takes all writes, a queue that fails takes few, and one without a container one,
// now and then. So what can't be written never delays what can.
type writeQueue struct {
	max     int
	Busy    int // writes under way
	queues  map[queueKey]*tenantQueue
	ring    queue.FIFO[*tenantQueue] // queues with chains that wait, in the order of their turns
	tenants map[string]int
	periods map[telemetry.Day]int

	Snapshot *control.Snapshot // the newest one that the Worker was given
	success  time.Time         // the last lookup or create that succeeded
	searched time.Time         // the last search for hopeless chains
}

func (q *writeQueue) queueOf(c *bins.Chain) *tenantQueue {
	if !c.Queued {
		c.Period, c.Queued = q.periodOf(c), true
	}
	k := queueKey{c.Device.Tenant.Name, c.Period}
	l := q.queues[k]
	if l == nil {
		l = &tenantQueue{key: k}
		q.queues[k] = l
	}
	return l
}

func (q *writeQueue) periodOf(c *bins.Chain) telemetry.Day {
	if q.Snapshot != nil {
		if t, ok := q.Snapshot.Tenant(c.Device.Tenant.Name); ok {
			return t.Placement.SpanOn(c.Day).First
		}
	}
	return sharding.Month.Of(c.Day).First
}

// Push appends a chain to its tenant's queue, which it returns. A chain that does not want to go on any more may still
// be in it.
func (q *writeQueue) Push(c *bins.Chain) *tenantQueue {
	l := q.queueOf(c)
	l.waiting.Push(c)
	q.addToRing(l)
	return l
}

// pushFront puts a chain before all others of its queue.
func (q *writeQueue) pushFront(c *bins.Chain) {
	l := q.queueOf(c)
	if l.probe != nil {
		l.waiting.Push(l.probe)
	}
	l.probe = c
	q.addToRing(l)
}

func (q *writeQueue) addToRing(l *tenantQueue) {
	if !l.ringed {
		l.ringed = true
		q.ring.Push(l)
	}
}

// pop returns the next chain in turn; nil when none may go on now.
func (q *writeQueue) pop(now time.Time) *bins.Chain {
	if q.Busy >= q.max {
		return nil
	}
	for range q.ring.Len() {
		l := q.ring.Pop()
		var c *bins.Chain
		if q.mayWrite(l, now) {
			c = l.pop()
		}
		if l.ringed = l.len() > 0; l.ringed {
			q.ring.Push(l)
		} else {
			q.tidy(l)
		}
		if c != nil {
			return c
		}
	}
	return nil
}

// tidy forgets an empty queue.
func (q *writeQueue) tidy(l *tenantQueue) {
	if l.busy == 0 && l.len() == 0 && l.failing == bins.None {
		delete(q.queues, l.key)
	}
}

// mayWrite reports whether a queue may have one more write in flight.
func (q *writeQueue) mayWrite(l *tenantQueue, now time.Time) bool {
	share := func(part, of int) int { return max(1, q.max*part/of) }
	most := q.max
	switch {
	case l.parked():
		most = 1
	case l.failing != bins.None:
		most = share(1, 4)
	}
	return l.retry.Open(now) && l.busy < most && q.tenants[l.key.tenant] < share(3, 4) &&
		q.periods[l.key.period] < share(3, 4)
}

func (q *writeQueue) began(c *bins.Chain) { q.count(q.queueOf(c), 1) }

// ended takes a write back that began counted.
func (q *writeQueue) ended(c *bins.Chain) {
	l := q.queueOf(c)
	q.count(l, -1)
	q.tidy(l)
}

func (q *writeQueue) count(l *tenantQueue, n int) {
	q.Busy += n
	l.busy += n
	if q.tenants[l.key.tenant] += n; q.tenants[l.key.tenant] == 0 {
		delete(q.tenants, l.key.tenant)
	}
	if q.periods[l.key.period] += n; q.periods[l.key.period] == 0 {
		delete(q.periods, l.key.period)
	}
}

// troubled reports whether a queue fails for another reason than its container.
func (q *writeQueue) troubled() bool {
	for _, l := range q.queues {
		if l.failing != bins.None && !l.parked() {
			return true
		}
	}
	return false
}

// Next returns when a queue that is parked tries again; ok is false when none is.
func (q *writeQueue) Next(now time.Time) (at time.Time, ok bool) {
	for _, l := range q.ring.All() {
		if !l.retry.Open(now) && (!ok || l.retry.At.Before(at)) {
			at, ok = l.retry.At, true
		}
	}
	return at, ok
}

// hopeless is for how long a container is missing before what is to go there gives way when memory is full, if the
// store takes other things: else it is an outage, which will end, and for which everything waits.
const hopeless = 10 * time.Minute

// Abandon turns rows that can't be written into dead letters, first those of the largest chains, until there is room.
func (w *Writer) Abandon(over int64, now time.Time) {
	if now.Sub(w.Queue.searched) < time.Second {
		return // it looks through all chains
	}
	w.Queue.searched = now
	var hold []*bins.Chain
	w.bins.Index.Holding.UpTo(func(*bins.Chain) bool { return true }, func(c *bins.Chain) {
		if c.Phase == bins.Stalled && c.Doomed() {
			over -= int64(bins.Size(&c.Flight.Rows))
		} else if c.Phase == bins.Stalled && w.Queue.isHopeless(c, now) {
			hold = append(hold, c)
		}
	})
	slices.SortFunc(hold, func(a, b *bins.Chain) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(a.First, b.First))
	})
	for _, c := range hold {
		if over <= 0 {
			return
		}
		why := fmt.Sprintf("%s since %s, and memory is full", c.Stall.Fault, c.Stall.Since.Time().UTC().Format(time.RFC3339))
		if c.Flight == nil {
			rows, rest := c.Bin, binning.Bin{}
			if rows.Readings() > maxPublish {
				var err error
				if rows, rest, err = c.Bin.SplitAt(maxPublish, w.bins.Names.Schemas); err != nil {
					w.bins.Lose(err)
					return
				}
			}
			w.bins.Lock()
			c.Abandon(rows, rest)
			w.bins.Unlock()
		}
		over -= int64(bins.Size(&c.Flight.Rows))
		w.RejectFlight(c, why, now)
	}
}

// isHopeless reports whether a chain that has stalled had better give way.
func (q *writeQueue) isHopeless(c *bins.Chain, now time.Time) bool {
	switch c.Stall.Fault {
	case bins.KeyFull:
		return true
	case bins.NoContainer:
		l := q.queueOf(c)
		return now.Sub(l.since) >= hopeless && q.success.After(l.since) && !q.troubled()
	}
	return false
}
