package query

import (
	"errors"
	"sync"
)

// errOverBudget says inside the package that the memory of the query is used up. Callers see a MemoryError.
var errOverBudget = errors.New("the query's memory is used up")

// budget counts the bytes that a query holds: encoded chunks that wait, and decoded columns that are being merged.
// It is safe for any number of callers.
type budget struct {
	limit int64

	mu   sync.Mutex // guards below
	used int64
	peak int64
}

// take adds n bytes, or fails with errOverBudget and adds none.
func (b *budget) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.limit {
		return errOverBudget
	}
	b.used += n
	b.peak = max(b.peak, b.used)
	return nil
}

// give is the inverse of take.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}
