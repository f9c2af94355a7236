package sql

// Query is a parsed query. It is immutable and may be shared.
type Query struct {
	// Star reports that the result rows are the items as they are stored.
	Star bool
	// Aggregate reports that the select list has aggregates. Without Grouped, the result is one row.
	Aggregate bool
	// Grouped reports whether there is GROUP BY.
	Grouped bool
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
