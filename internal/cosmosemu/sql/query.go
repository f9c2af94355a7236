package sql

import (
	"strconv"
)

// Query is a parsed query. It is immutable and may be shared.
type Query struct {
	// Star tells that the result rows are the items as they are stored.
	Star bool
	// Aggregate tells that the result is one row computed over all matching items.
	Aggregate bool
	// Order is the ORDER BY clause, empty without one.
	Order []Order
	// Filtered tells whether there is a WHERE clause.
	Filtered bool
	// Limited tells whether there is TOP or OFFSET LIMIT.
	Limited bool

	value              bool // SELECT VALUE: rows are values, not objects
	columns            []outColumn
	where              []node // arms of the outermost AND
	top, offset, limit *number
	paths              []Path
	params             []string
}

// Order is one property of an ORDER BY clause.
type Order struct {
	Path       int
	Descending bool
}

type outColumn struct {
	name      string
	node      node
	aggregate aggregate // empty outside aggregates
}

// number is a count in the text: a literal, or a parameter.
type number struct {
	literal int
	param   int // -1 for a literal
}

// Paths are the properties that the query reads; a Row is asked for them by their index.
func (q *Query) Paths() []Path { return q.paths }

// Bound is a query with its parameters. It is safe for one goroutine at a time.
type Bound struct {
	query              *Query
	params             []Value
	top, offset, limit int // -1 when absent
}

// Bind gives the query its parameters, by name with the @. It fails when one is missing, or when a
// count is no whole number that is at least zero.
func (q *Query) Bind(params map[string]Value) (*Bound, error) {
	b := &Bound{query: q, params: make([]Value, len(q.params))}
	for i, name := range q.params {
		v, ok := params[name]
		if !ok {
			return nil, &Error{Reason: "the parameter " + name + " has no value"}
		}
		b.params[i] = v
	}
	for _, c := range []struct {
		from *number
		to   *int
		name string
	}{{q.top, &b.top, "TOP"}, {q.offset, &b.offset, "OFFSET"}, {q.limit, &b.limit, "LIMIT"}} {
		n, ok := c.from.resolve(b.params)
		if !ok {
			return nil, &Error{Reason: c.name + " must be a whole number from 0 on"}
		}
		*c.to = n
	}
	return b, nil
}

// maxCount is the largest TOP, OFFSET or LIMIT.
const maxCount = 1<<31 - 1

func (n *number) resolve(params []Value) (int, bool) {
	if n == nil {
		return -1, true
	}
	if n.param < 0 {
		return n.literal, true
	}
	v := params[n.param]
	if v.kind != Number || v.num < 0 || v.num > maxCount || v.num != float64(int(v.num)) {
		return 0, false
	}
	return int(v.num), true
}

// Query is the query that was bound.
func (b *Bound) Query() *Query { return b.query }

// Window is the part of the matching rows that TOP or OFFSET LIMIT lets through: skip rows, then at
// most take, which is -1 without a bound.
func (b *Bound) Window() (skip, take int) {
	if b.top >= 0 {
		return 0, b.top
	}
	return max(0, b.offset), b.limit
}

func (b *Bound) env(row Row) env { return env{row: row, params: b.params} }

// Defined tells whether a matching row has a result: SELECT VALUE has none for an item without that
// property. Rows without one do not count for TOP or OFFSET LIMIT.
func (b *Bound) Defined(row Row) bool {
	return !b.query.value || b.query.columns[0].node.eval(b.env(row)).kind != Undefined
}

// Project appends one matching row as JSON. It reports false when the row is undefined, as SELECT
// VALUE is for an item without that property. It must not be called for a Star or Aggregate query.
func (b *Bound) Project(dst []byte, row Row) ([]byte, bool) {
	e := b.env(row)
	return b.query.emit(dst, func(i int) Value { return b.query.columns[i].node.eval(e) })
}

func (q *Query) emit(dst []byte, column func(i int) Value) ([]byte, bool) {
	if q.value {
		v := column(0)
		return v.Append(dst), v.kind != Undefined
	}
	dst = append(dst, '{')
	first := true
	for i, c := range q.columns {
		v := column(i)
		if v.kind == Undefined {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = AppendString(dst, []byte(c.name))
		dst = append(dst, ':')
		dst = v.Append(dst)
	}
	return append(dst, '}'), true
}

// unnamed is the name that the service gives the n-th column without one, counted from 1.
func unnamed(n int) string { return "$" + strconv.Itoa(n) }
