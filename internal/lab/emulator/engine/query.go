package engine

import (
	"cmp"
	"context"

	"binnacle/internal/lab/emulator/sql"
)

// Query asks for a page of a query's answer.
type Query struct {
	Scope
	Bound *sql.Bound
	Sent  []byte // the query as it was sent: a continuation belongs to one
	// Plan returns the query's plan, for a client that needs one.
	Plan func() []byte
	// Continuation is the token from the page before; "": the first page.
	Continuation string
	Limit        int  // rows of a page
	Cross        bool // it may go over several partition keys
	IndexUse     bool // it is asked which indexes serve it
}

// Page is one page of items, or of what a query makes of them.
type Page struct {
	Rows        []byte // JSON, separated by commas
	Count       int
	Charge      float64
	Loaded      int // items of a query that were loaded
	LoadedBytes int
	// Range is the id of the physical partition that served the page; "": several did.
	Range string
	// LSN is the sequence number of Range, as a session token says it.
	LSN uint64
	// Continuation says where a query's next page resumes; "": no page follows.
	Continuation string
	// ETag says where the next page of the change feed resumes.
	ETag     string
	IndexUse []byte // where it was asked for: JSON
}

// Query returns one page of a query's answer.
func (c *Container) Query(ctx context.Context, call Call, q Query) (Page, error) {
	rev := c.current.Load()
	legs, single, err := c.plan(rev, q)
	if err = cmp.Or(err, q.Bound.Unserved()); err != nil {
		return Page{}, err
	}
	at, err := parseCursor(q.Continuation, c.rid, queryHash(q.Sent))
	if err != nil {
		return Page{}, err
	}
	st, cfg := c.account.store, &c.account.cfg
	snapshot := st.Snapshot()
	a := &answer{
		scan:  newScan(ctx, c, rev, q.Bound, snapshot, call.Now.Unix(), single),
		bound: q.Bound, legs: legs, limit: q.Limit, cursor: at, seeks: min(1, len(q.Key)), call: call, model: cfg.Model,
		most: cfg.Limits.ResponseBytes,
	}
	if err := a.run(rev.Definition, single); err != nil {
		return Page{}, err
	}
	st.Settle()
	p := a.page()
	if q.IndexUse {
		named := rev.Keys
		if q.Key == "" {
			named = nil
		}
		p.IndexUse = rev.Policy.Use(q.Bound, named)
	}
	return p, nil
}
