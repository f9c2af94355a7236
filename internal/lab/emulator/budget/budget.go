// Package budget has what a physical partition, or the account, may spend in a second, and what it did spend: Budget
// admits and charges requests, Meter remembers seconds, Pace counts what may happen so often in five minutes. Time is
// an argument. It must not know of partitions, requests or answers.
package budget

import (
	"math"
	"sync"
	"time"
)

// Budget limits the spending of a physical partition: a number of request units in every second. It admits a
// request while its second has some left; the request may overdraw the second, since its charge is known only
// afterwards, and the next seconds carry the debt. A second's rest is not carried on. The service does not
// publish its rule for overdrafts.
type Budget struct {
	rules Rules

	mu sync.Mutex
	state
	usage
}

// Rules are the ways in which budgets may differ from the plain one.
type Rules struct {
	Unlimited bool // nothing is refused
	// Longest is the longest time that a refusal asks a client to wait; 0 sets no bound.
	Longest time.Duration
}

// state is what a budget has left, and owes.
type state struct {
	limit float64 // RU/s
	// second is the second that left counts for.
	second int64
	// left is the rest of the second's request units; below zero: debt.
	left   float64
	demand demand
}

// New returns a budget of limit RU/s.
func New(limit float64, r Rules) *Budget {
	return &Budget{rules: r, state: state{limit: limit, left: limit, second: math.MinInt64}}
}

// SetLimit changes the budget from the next second on; a rise counts at once.
func (b *Budget) SetLimit(limit float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += max(0, limit-b.limit)
	b.limit = limit
}

// PerSecond returns the RU/s of the budget.
func (b *Budget) PerSecond() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// Admit reports whether a request may run now. If it may not, retry is the time until it may, if nothing else
// runs before: at least a millisecond, at most Longest.
func (b *Budget) Admit(now time.Time, p Priority) (ok bool, retry time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick(now)
	if b.rules.Unlimited || b.allows(p) {
		return true, 0
	}
	if p == High {
		b.demand.refused = true
	}
	until := time.Duration(b.wait(p))*time.Second - time.Duration(now.Nanosecond())
	if b.rules.Longest > 0 {
		until = min(until, b.rules.Longest)
	}
	return false, max(time.Millisecond, until)
}

// Spend takes the charge of an admitted request: from the second, then from what is saved, then as
// debt.
func (b *Budget) Spend(p Priority, charge float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p == High {
		b.demand.spent += charge
	}
	b.used += charge
	b.left -= charge
}

func (b *Budget) tick(now time.Time) {
	b.state.advance(now.Unix())
	b.usage.advance(now.Unix())
}

// Scale returns what autoscale makes of the budget: the RU/s it was scaled to in the last whole second, and
// the most it was in the current hour of the clock. It is never below a tenth of the budget, which may
// be spent whole at once.
func (b *Budget) Scale(now time.Time) (second, hour float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick(now)
	return b.within(b.last), b.within(max(b.peak, b.used))
}

func (l *state) within(used float64) float64 { return min(l.limit, max(l.limit/10, used)) }

// usage is what was spent lately.
type usage struct {
	at   int64 // the second that used counts for
	used float64
	// last is the spending of the second before.
	last float64
	// peak is the most spent in one second of the hour.
	peak float64
}

func (u *usage) advance(second int64) {
	if second <= u.at {
		return
	}
	u.peak = max(u.peak, u.used)
	if second/3600 != u.at/3600 {
		u.peak = 0
	}
	u.last = 0
	if second == u.at+1 {
		u.last = u.used
	}
	u.at, u.used = second, 0
}

// allows reports whether the second has some budget left.
func (l *state) allows(p Priority) bool {
	room := l.left
	if p == Low {
		room -= l.demand.reserved(l.limit)
	}
	return room > 0
}

// wait returns the number of seconds until a request is allowed, if nothing else is spent before.
func (l *state) wait(p Priority) int {
	later := *l
	for n := max(1, int(-l.left/l.limit)); ; n++ {
		if later.advance(l.second + int64(n)); later.allows(p) {
			return n
		}
	}
}

// advance gives every second since the last one its budget. A clock that goes back gives none.
func (l *state) advance(second int64) {
	if second <= l.second {
		return
	}
	gap := float64(second) - float64(l.second)
	if l.second == math.MinInt64 {
		l.left, gap = l.limit, 0
	}
	l.second = second
	l.demand.advance(gap, l.limit)
	l.left = min(l.limit, l.left+gap*l.limit)
}

// Pace counts the requests to replace throughput: the account takes 25 in any 5 minutes
// (Azure Cosmos DB docs, concepts-limits). Those that are refused for another reason count too.
// Neither how the service places the 5 minutes nor what it answers is published: here they slide, and
// the answer is a 429 with the time until the oldest request leaves them.
type Pace struct {
	mu    sync.Mutex
	taken []time.Time // within the last 5 minutes, the oldest first; mu guards
}

const (
	window    = 5 * time.Minute
	perWindow = 25
)

// Take counts a request. If there have been too many, retry says how long until one is taken again.
func (p *Pace) Take(now time.Time) (ok bool, retry time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.taken) > 0 && !now.Before(p.taken[0].Add(window)) {
		p.taken = p.taken[1:]
	}
	if len(p.taken) >= perWindow {
		return false, p.taken[0].Add(window).Sub(now)
	}
	p.taken = append(p.taken, now)
	return true, 0
}

// Priority is how urgent a request is.
type Priority int

// Requests are of High priority unless they say otherwise.
const (
	High Priority = iota
	Low
)

// demand forecasts the spending of high-priority requests in a second. Low-priority requests may spend only the
// rest, so that they are refused first. The forecast of a second is the demand of the second before; it is the
// whole budget after a second that refused a request of high priority. The service publishes no more than the
// order.
type demand struct {
	// spent is the spending of high priority in this second.
	spent   float64
	refused bool // there was not enough for high priority in this second
	// before is the demand of high priority in the second before.
	before float64
}

// advance begins the second that is gap seconds later.
func (d *demand) advance(gap, limit float64) {
	wanted := d.spent
	if d.refused {
		wanted = max(wanted, limit)
	}
	*d = demand{}
	if gap == 1 {
		d.before = wanted
	}
}

// reserved returns the part of the second's rest that is kept for high priority.
func (d *demand) reserved(limit float64) float64 {
	if d.refused {
		return limit
	}
	return max(0, d.before-d.spent)
}
