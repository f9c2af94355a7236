package engine

import (
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
