package cosmos

import (
	"context"
	"fmt"

	"binnacle/internal/store"
)

// Items writes documents of any layout into one container, and shows every 429. It is what a load test
// compares with; Binnacle itself writes through Chunks.
type Items struct {
	c         *Client
	container string
}

// Create stores a document under a full partition key, in one attempt. An answer other than success is an
// *Error; one with Status 429 says in RetryAfter when to come again.
func (s *Items) Create(ctx context.Context, key []string, id string, doc []byte) (store.Receipt, error) {
	to := call{operation: "item_create", container: s.container, key: key, once: true}
	_, receipt, err := s.c.item(ctx, to, creating(doc))
	if err != nil {
		return receipt, fmt.Errorf("create item %s in %s: %w", id, s.container, err)
	}
	return receipt, nil
}

// Query runs a query under a full partition key, or over all keys where that is nil, and returns what it took and in
// how many pages. The names of parameters begin with @. A page is asked for in one attempt, as in Create.
func (s *Items) Query(ctx context.Context, key []string, sql string, params map[string]any) (store.Usage, int, error) {
	q := query{sql: sql}
	for name, value := range params {
		q.params = append(q.params, param(name, value))
	}
	var usage store.Usage
	pages := 0
	charge := func(float64) error { pages++; return nil }
	to := call{operation: "item_query", container: s.container, key: key, once: true}
	if err := s.c.each(ctx, to, q, &usage, charge, func([]byte) error { return nil }); err != nil {
		return usage, pages, fmt.Errorf("query items of %s: %w", s.container, err)
	}
	return usage, pages, nil
}
