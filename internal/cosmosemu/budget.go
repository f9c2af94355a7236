package cosmosemu

import (
	"math"
	"sync"
	"time"
)

// budget is what a physical partition may spend: so many request units in every second. A request is
// admitted while its second has some left and may overdraw it, since its charge is known only
// afterwards; the debt is carried into the next seconds. What a second leaves is not carried on. The
// service does not publish its rule.
type budget struct {
	mu        sync.Mutex
	limit     float64 // RU/s; +Inf when budgets are off
	second    int64   // that left counts for
	left      float64
	unlimited bool
}

func newBudget(limit float64, unlimited bool) *budget {
	return &budget{limit: limit, left: limit, second: math.MinInt64, unlimited: unlimited}
}

// setLimit changes the budget from the next second on; a rise counts at once.
func (b *budget) setLimit(limit float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += max(0, limit-b.limit)
	b.limit = limit
}

// admit tells whether a request may run now. If not, retry is how long until a second has budget
// again: at least a millisecond.
func (b *budget) admit(now time.Time) (ok bool, retry time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now.Unix())
	if b.unlimited || b.left > 0 {
		return true, 0
	}
	seconds := math.Floor(-b.left/b.limit) + 1
	until := time.Duration(seconds)*time.Second - time.Duration(now.Nanosecond())
	return false, max(time.Millisecond, until)
}

// spend takes the charge of an admitted request.
func (b *budget) spend(charge float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= charge
}

// advance gives every second since the last one its budget. A clock that goes back gives none.
func (b *budget) advance(second int64) {
	if second <= b.second {
		return
	}
	if b.second == math.MinInt64 {
		b.left = b.limit
	} else {
		b.left = min(b.limit, b.left+float64(second-b.second)*b.limit)
	}
	b.second = second
}
