package sql

import "sync"

// maxCached and maxCachedText bound what a Cache holds: queries, and bytes of text of one of them.
const (
	maxCached     = 512
	maxCachedText = 8 << 10
)

// Cache keeps parsed queries by their text. It is safe for concurrent use; its zero value is ready.
type Cache struct {
	mu      sync.RWMutex
	queries map[string]*Query
}

// Parse is Parse, remembered. Errors and long texts are not kept. A full cache starts over: clients
// use few texts, with parameters.
func (c *Cache) Parse(text string) (*Query, error) {
	c.mu.RLock()
	q := c.queries[text]
	c.mu.RUnlock()
	if q != nil {
		return q, nil
	}
	q, err := Parse(text)
	if err != nil || len(text) > maxCachedText {
		return q, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queries == nil || len(c.queries) >= maxCached {
		c.queries = map[string]*Query{}
	}
	c.queries[text] = q
	return q, nil
}
