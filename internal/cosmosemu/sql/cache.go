package sql

import "sync"

// The bounds of a Cache: queries, and a few with long texts. SDKs that read many items at once send texts of up to
// 1,000 conditions, which differ in nothing but their number, for page after page.
const (
	maxCached     = 512
	maxCachedLong = 8
	longText      = 8 << 10 // bytes
	maxCachedText = 128 << 10
)

// Cache keeps parsed queries by their text. It is safe for concurrent use; its zero value is ready.
type Cache struct {
	// Computed are the properties beyond those of the items that the queries may read. They do not change.
	Computed Computed

	mu      sync.RWMutex
	queries map[string]*Query
	long    map[string]*Query
}

// Parse parses a query, and remembers the result. Errors and the longest texts are not kept. A full cache starts over:
// clients use few texts, with parameters.
func (c *Cache) Parse(text string) (*Query, error) {
	c.mu.RLock()
	q := c.queries[text]
	if len(text) > longText {
		q = c.long[text]
	}
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
	if len(text) > longText {
		c.long = keep(c.long, text, q, maxCachedLong)
	} else {
		c.queries = keep(c.queries, text, q, maxCached)
	}
	return q, nil
}

func keep(kept map[string]*Query, text string, q *Query, most int) map[string]*Query {
	if kept == nil || len(kept) >= most {
		kept = map[string]*Query{}
	}
	kept[text] = q
	return kept
}
