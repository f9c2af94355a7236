package sql

import (
	"slices"

	"binnacle/internal/lab/emulator/jsonvalue"
)

// Query is a parsed query. It is immutable and may be shared.
type Query struct {
	// Star reports that the result rows are the items as they are stored.
	Star bool
	// Aggregate reports that the select list has aggregates. Without Grouped, the result is one row.
	Aggregate bool
	Grouped   bool
	// Distinct reports whether equal rows are given once.
	Distinct bool
	// Order is the ORDER BY clause, empty without one.
	Order []Order
	// Scalar reports that there is no FROM: the query has one row, of no item.
	Scalar bool
	// Limited reports whether there is TOP or OFFSET LIMIT.
	Limited bool

	sent string
	// text is the parsed form of sent.
	text     *statement
	unserved *Error // why the query has a plan, but is not evaluated
	// lists holds the lists that the query and its subqueries iterate over.
	lists              []node
	value              bool // SELECT VALUE: rows are values, not objects
	columns            []outColumn
	iteration          iteration
	where              []node // arms of the outermost AND that do not read elements of the iteration
	groups             []node
	aggregates         []aggregateCall
	top, offset, limit node // a number or a parameter; nil without one
	paths              []Path
	params             []string
	paramIndex         map[string]int
}

// Order is one property of an ORDER BY clause.
type Order struct {
	Path       int
	Descending bool
}

type outColumn struct {
	name string
	node node
}

// Paths returns the properties that the query reads; a Row is asked for them by their index.
func (q *Query) Paths() []Path { return q.paths }

// Iterates reports that an item may give any number of rows: there is a JOIN, or FROM x IN c.list.
func (q *Query) Iterates() bool { return len(q.iteration.lists) > 0 }

// Collected reports that no row is known before all items have been seen. A Collector makes them.
func (q *Query) Collected() bool {
	return q.Aggregate || q.Grouped || q.Distinct || q.Iterates() && len(q.Order) > 0
}

// Bound is a query with its parameters. It is safe for one goroutine at a time.
type Bound struct {
	query              *Query
	scratch            env
	top, offset, limit int // -1 when absent
}

// Bind returns the query its parameters, by name with the @. One that is missing is undefined. It fails when a count is
// no whole number that is at least zero.
func (q *Query) Bind(params map[string]Value) (*Bound, error) {
	b := &Bound{query: q}
	b.scratch = env{query: q, params: make([]Value, len(q.params)), elements: make([]Value, len(q.lists))}
	for i, name := range q.params {
		b.scratch.params[i] = params[name]
	}
	if err := b.counts(); err != nil {
		return nil, err
	}
	return b, nil
}

// counts resolves TOP, OFFSET and LIMIT.
func (b *Bound) counts() error {
	q := b.query
	for _, c := range []struct {
		from node
		to   *int
		name string
	}{{q.top, &b.top, "TOP"}, {q.offset, &b.offset, "OFFSET"}, {q.limit, &b.limit, "LIMIT"}} {
		*c.to = -1
		if c.from == nil {
			continue
		}
		v := c.from.eval(&b.scratch)
		if v.kind != Number || v.num < 0 || v.num > maxCount || v.num != float64(int(v.num)) {
			return &Error{Reason: c.name + " must be a whole number from 0 on"}
		}
		*c.to = int(v.num)
	}
	return nil
}

// maxCount is the largest TOP, OFFSET or LIMIT.
const maxCount = 1<<31 - 1

// Unserved returns why a query has a plan but is not evaluated, or nil.
func (b *Bound) Unserved() error {
	if b.query.unserved == nil {
		return nil
	}
	return b.query.unserved
}

// Query returns the query that was bound.
func (b *Bound) Query() *Query { return b.query }

// Window returns the part of the matching rows that TOP or OFFSET LIMIT lets through: skip rows, then at
// most take, which is -1 without a bound.
func (b *Bound) Window() (skip, take int) {
	if b.top >= 0 {
		return 0, b.top
	}
	return max(0, b.offset), b.limit
}

// env returns what expressions see of a row. There is one for each Bound.
func (b *Bound) env(row Row) *env {
	b.scratch.row, b.scratch.combined = row, 0
	return &b.scratch
}

// Defined reports whether a matching row has a result: SELECT VALUE has none for an item without that
// property. Rows without one do not count for TOP or OFFSET LIMIT. It is for queries that neither
// iterate nor are collected.
func (b *Bound) Defined(row Row) bool {
	return b.query.Star || !b.query.value || b.query.columns[0].node.eval(b.env(row)).kind != Undefined
}

// Project appends one matching row as JSON. It reports false when the row is undefined, as SELECT VALUE is for
// an item without that property. It serves queries that neither iterate nor need all items first; it encodes a
// Star query's item again.
func (b *Bound) Project(dst []byte, row Row) ([]byte, bool) { return b.query.emit(dst, b.env(row)) }

// Each returns the rows of an item of a query that iterates, as JSON, until visit reports false. Rows
// without a result are left out. The bytes are valid until visit returns.
func (b *Bound) Each(row Row, visit func(row []byte) bool) {
	var buf []byte
	e := b.env(row)
	e.query.iteration.each(e, func() bool {
		out, ok := b.query.emit(buf[:0], e)
		buf = out
		return !ok || visit(out)
	})
}

// Err returns what has ended the evaluation of a row early, if anything has. It stays.
func (b *Bound) Err() error {
	if b.scratch.err == nil {
		return nil
	}
	return b.scratch.err
}

// exists reports whether the item gives any row.
type exists struct{}

func (exists) eval(e *env) Value {
	return BoolValue(!e.query.iteration.each(e, func() bool { return false }))
}

func (exists) children() []node { return nil }

func (q *Query) emit(dst []byte, e *env) ([]byte, bool) {
	if q.value {
		v := q.columns[0].node.eval(e)
		return v.Append(dst), v.kind != Undefined
	}
	dst = append(dst, '{')
	first := true
	for _, c := range q.columns {
		v := c.node.eval(e)
		if v.kind == Undefined {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = jsonvalue.AppendString(dst, []byte(c.name))
		dst = append(dst, ':')
		dst = v.Append(dst)
	}
	return append(dst, '}'), true
}

// Columns returns the number of columns in a row; 0: rows are whole items.
func (q *Query) Columns() int {
	if q.Star {
		return 0
	}
	return len(q.columns)
}

// Values reports that rows are values, not objects.
func (q *Query) Values() bool { return q.value }

// Counts reports that the query does nothing but count items.
func (q *Query) Counts() bool {
	other := func(a aggregateCall) bool { return a.kind != "COUNT" }
	return q.Aggregate && !q.Grouped && !q.Iterates() && !slices.ContainsFunc(q.aggregates, other)
}

// Seeks returns how many places of an index the query goes to: one for each value or range that its conditions hold a
// property against, one for each array that it iterates over, one for SELECT VALUE of what an item may not have.
func (b *Bound) Seeks() int {
	q := b.query
	n := len(q.iteration.lists)
	for _, c := range slices.Concat(q.where, q.iteration.where) {
		n += b.seeksOf(c)
	}
	if q.value && !q.Star && !q.Aggregate && !q.Scalar && !q.Iterates() && !always(q.columns[0].node) {
		n++
	}
	return n
}

// always reports whether an expression has a value for every item.
func always(n node) bool {
	switch n := n.(type) {
	case literal:
		return n.value.kind != Undefined
	case object, array:
		return true
	}
	return false
}

func (b *Bound) seeksOf(n node) int {
	switch n := n.(type) {
	case logic:
		sum, most := 0, 0
		for _, a := range n.arms {
			s := b.seeksOf(a)
			sum, most = sum+s, max(most, s)
		}
		if !n.decide && !slices.ContainsFunc(n.arms, notEquality) { // an arm of an OR: all its equalities name one place
			return most
		}
		return sum
	case in:
		return len(n.list)
	case not:
		return b.seeksOf(n.arg)
	case call:
		if n.name == "ARRAY_CONTAINS" {
			if list, ok := b.known(n.args[0]); ok && list.kind == Array {
				return max(1, len(list.node.GetArray()))
			}
		}
	}
	return 1
}

// notEquality reports whether a condition is anything but that a value equals another.
func notEquality(n node) bool {
	c, ok := n.(compare)
	return !ok || c.op != Equal
}
