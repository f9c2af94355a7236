package sql

import "sync"

// The bounds of a Cache. SDKs that read many items at once send texts of up to 1,000 conditions, which differ in
// nothing but their number, for page after page.
const (
	maxCached      = 512
	maxCachedText  = 128 << 10 // bytes of one text
	maxCachedTexts = 1 << 20   // bytes of all
)

// Cache keeps parsed queries by their text. It is safe for concurrent use; its zero value is ready.
type Cache struct {
	// Computed lists the computed properties that queries may read besides the items' own. They do not change.
	Computed Computed

	mu      sync.RWMutex
	queries map[string]*Query
	// size is the total length of the cached texts.
	size int
}

// Parse parses a query, and remembers the result. Errors and the longest texts are not kept. A full cache starts over:
// clients use few texts, with parameters.
func (c *Cache) Parse(text string) (*Query, error) {
	c.mu.RLock()
	q := c.queries[text]
	c.mu.RUnlock()
	if q != nil {
		return q, nil
	}
	q, err := parse(text, c.Computed)
	if err != nil || len(text) > maxCachedText {
		return q, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queries == nil || len(c.queries) >= maxCached || c.size+len(text) > maxCachedTexts {
		c.queries, c.size = map[string]*Query{}, 0
	}
	c.queries[text] = q
	c.size += len(text)
	return q, nil
}
