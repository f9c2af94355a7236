package sql

import (
	"slices"
	"strconv"
)

// MaxCollected bounds what a Collector holds, in bytes of rows and values. The service has no such
// bound that is documented; it has one of time.
const MaxCollected = 64 << 20

// Collector makes the rows of a query that needs all matching items: aggregates, GROUP BY, DISTINCT,
// and ORDER BY of an iteration. It can do any other query as well.
type Collector struct {
	bound         *Bound
	keepUndefined bool

	rows   []collected
	seen   map[string]bool // rows of a DISTINCT
	groups []*group
	byKey  map[string]*group
	size   int
}

type collected struct {
	json  []byte
	order []Value
}

// group is one group of rows: its first item's values, by which all its columns but aggregates are
// known, and its totals.
type group struct {
	values   map[int]Value
	elements []Value
	totals   []total
}

// Value returns the values of the group's first item, for which a group is a Row.
func (g *group) Value(path int) Value { return g.values[path] }

// Collector returns an empty Collector. keepUndefined reports that ORDER BY also gives items without the
// property that it sorts by.
func (b *Bound) Collector(keepUndefined bool) *Collector {
	c := &Collector{bound: b, keepUndefined: keepUndefined, seen: map[string]bool{}, byKey: map[string]*group{}}
	if b.query.Aggregate && !b.query.Grouped {
		c.group(nil, nil)
	}
	return c
}

// Add takes all rows of one matching item. It fails when there is more to hold than MaxCollected, or
// when the item has more rows than can be tried.
func (c *Collector) Add(row Row) error {
	q := c.bound.query
	e := c.bound.env(row)
	if len(q.Order) == 1 && !c.keepUndefined && row.Value(q.Order[0].Path).kind == Undefined {
		return nil
	}
	q.iteration.each(e, func() bool {
		if q.Grouped || q.Aggregate {
			c.total(e)
		} else {
			c.row(e)
		}
		return c.size <= MaxCollected
	})
	if err := c.bound.Err(); err != nil {
		return err
	}
	if c.size > MaxCollected {
		return &Error{
			Reason: "the query would have to hold more than " + strconv.Itoa(MaxCollected) + " bytes: add conditions",
		}
	}
	return nil
}

func (c *Collector) total(e *env) {
	var key []byte
	for _, g := range c.bound.query.groups {
		key = g.eval(e).appendIdentity(key)
	}
	g := c.byKey[string(key)]
	if g == nil {
		g = c.group(key, e)
	}
	for i, a := range c.bound.query.aggregates {
		g.totals[i].add(a.kind, a.arg.eval(e))
	}
}

// group adds a group that begins with e's item, if there is one.
func (c *Collector) group(key []byte, e *env) *group {
	q := c.bound.query
	g := &group{values: map[int]Value{}, elements: make([]Value, len(q.lists)), totals: make([]total, len(q.aggregates))}
	if e != nil {
		for _, n := range q.groups {
			walk(n, func(n node) bool {
				if p, ok := n.(property); ok {
					g.values[int(p)] = p.eval(e).Clone()
				}
				return true
			})
		}
		for i, v := range e.elements {
			g.elements[i] = v.Clone()
			c.size += len(v.Append(nil))
		}
	}
	c.size += 256 + len(key)
	c.groups = append(c.groups, g)
	c.byKey[string(key)] = g
	return g
}

// row adds the row that e is at, unless it has no result or is a repetition.
func (c *Collector) row(e *env) {
	q := c.bound.query
	if q.Distinct && !c.first(e) {
		return
	}
	json, ok := q.emit(nil, e)
	if !ok {
		return
	}
	out := collected{json: json}
	if e.row != nil {
		for _, o := range q.Order {
			out.order = append(out.order, e.row.Value(o.Path).Clone())
		}
	}
	c.size += 96 + len(json)
	c.rows = append(c.rows, out)
}

// first reports whether no row before had the same columns.
func (c *Collector) first(e *env) bool {
	var key []byte
	for _, col := range c.bound.query.columns {
		key = col.node.eval(e).appendIdentity(key)
	}
	if c.seen[string(key)] {
		return false
	}
	c.seen[string(key)] = true
	c.size += 64 + len(key)
	return true
}

// Rows returns the rows of the answer as JSON, in order, as TOP and OFFSET LIMIT let them through.
// Without ORDER BY they come as their first items did. It ends the Collector.
func (c *Collector) Rows() [][]byte {
	q := c.bound.query
	e := &c.bound.scratch
	for _, g := range c.groups {
		e.row, e.elements, e.totals, e.combined = g, g.elements, make([]Value, len(g.totals)), 0
		for i, t := range g.totals {
			e.totals[i] = t.value(q.aggregates[i].kind)
		}
		c.row(e)
	}
	slices.SortStableFunc(c.rows, func(a, b collected) int { return q.CompareOrder(a.order, b.order) })
	skip, take := c.bound.Window()
	out := [][]byte{}
	for i, r := range c.rows {
		if i >= skip && (take < 0 || i < skip+take) {
			out = append(out, r.json)
		}
	}
	return out
}

// CompareOrder compares two rows by their values of the ORDER BY properties.
func (q *Query) CompareOrder(a, b []Value) int {
	for i, o := range q.Order {
		c := Compare(a[i], b[i])
		if o.Descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
