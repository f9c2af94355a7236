package engine

import (
	"cmp"
	"context"
	"strings"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
	"binnacle/sharding/epk"
)

// plan finds where the query has to look, and whether that is in one logical partition. It refuses what
// a gateway cannot serve over several physical partitions.
func (c *Container) plan(rev *revision, q Query) (legs []leg, single bool, err error) {
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	key, hasKey, err := rev.prefixOf(&doc.keys, q.Key)
	if err != nil {
		return nil, false, err
	}
	parts := c.parts()
	r := reachOf(rev.Definition, q.Bound, key)
	if q.Range != "" {
		p := rangeByID(parts, q.Range)
		if p == nil {
			return nil, false, refusal.RangeGone(q.Range)
		}
		if r, err = r.within(epk.Range{Min: p.Min, Max: p.Max}); err != nil {
			return nil, false, err
		}
	}
	if r, err = q.narrow(r); err != nil {
		return nil, false, err
	}
	legs = r.legs(parts)
	targeted := r.single || q.Range != "" || hasKey && len(legs) <= 1
	if !targeted {
		if err := q.servable(); err != nil {
			return nil, false, err
		}
	}
	return legs, r.single, nil
}

// servable refuses a query over several partition keys that the gateway cannot serve, or that the client
// has not allowed to be one.
func (q Query) servable() error {
	sent := q.Bound.Query()
	if sent.Scalar {
		return nil
	}
	if sent.Grouped || sent.Aggregate && !sent.Values() {
		return refusal.BadRequest("Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates.")
	}
	if list := planned(sent); len(list) > 0 {
		return refusal.CrossPartition(q.Plan(),
			"The provided cross partition query can not be directly served by the gateway: "+
				"%s needs the full partition key, or a client that merges the answers of physical partitions.",
			strings.Join(list, ", "))
	}
	if !q.Cross {
		return refusal.CrossDisabled()
	}
	return nil
}

// planned returns the constructs of a query that need a plan when it is asked over several physical
// partitions: the gateway merges nothing but rows in any order (REST reference, "querying resources").
func planned(q *sql.Query) []string {
	var out []string
	for _, c := range []struct {
		used bool
		name string
	}{
		{len(q.Order) > 0, "ORDER BY"}, {q.Limited, "TOP or OFFSET LIMIT"}, {q.Aggregate, "an aggregate"},
		{q.Distinct, "DISTINCT"},
	} {
		if c.used {
			out = append(out, c.name)
		}
	}
	return out
}

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

// Scope says which part of a container a request is about.
type Scope struct {
	Key      string // partition key, or a prefix of it: a JSON array; "": all
	Range    string // physical partition; "": all
	Min, Max string // effective partition keys, half-open; both "": all
}

// narrowed reports whether the request names a range of effective partition keys.
func (s Scope) narrowed() bool { return s.Min != "" || s.Max != "" }

// narrow narrows a reach to the range of effective partition keys of the request.
func (s Scope) narrow(r reach) (reach, error) {
	if !s.narrowed() {
		return r, nil
	}
	return r.within(epk.Range{Min: s.Min, Max: cmp.Or(s.Max, epk.Max)})
}
