package sql

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// compiler turns a parsed statement into a Query. The first fault it meets ends the work.
type compiler struct {
	query *Query
	names []name
	err   *Error
	// totals collects the aggregates of the select list, or of the subquery, that is being compiled.
	totals *[]aggregateCall

	// computed holds the container's computed properties.
	computed Computed

	// selecting reports that the compiler is in the select list: aggregates are allowed.
	selecting bool
	// aggregating reports that the compiler is in the argument of an aggregate.
	aggregating bool
}

func compile(s *statement, computed Computed) (*Query, error) {
	c := &compiler{query: &Query{text: s, Scalar: s.From == nil}, computed: computed}
	c.statement(s)
	if c.err != nil {
		return nil, c.err
	}
	return c.query, nil
}

func (c *compiler) fail(pos lexer.Position, reason string) {
	if c.err == nil {
		c.err = at(pos, reason)
	}
}

func at(pos lexer.Position, reason string) *Error {
	return &Error{Line: pos.Line, Column: pos.Column, Start: pos.Offset, End: pos.Offset + 1, Reason: reason}
}

func (c *compiler) statement(s *statement) {
	q := c.query
	c.totals = &q.aggregates
	if s.From != nil {
		c.from(s.From)
	}
	if s.Where != nil {
		c.where(c.expr(s.Where))
	}
	for _, g := range s.Group {
		q.groups = append(q.groups, c.expr(g))
	}
	c.selectList(s)
	for _, o := range s.Order {
		c.order(o)
	}
	q.top, q.offset, q.limit = c.count(s.Top), c.count(s.Offset), c.count(s.Limit)
	q.Limited = s.Top != nil || s.Limit != nil
	q.Distinct = s.Distinct
	q.Grouped = len(s.Group) > 0
	switch {
	case s.Top != nil && s.Limit != nil:
		c.fail(s.Limit.Pos, "TOP and LIMIT exclude each other")
	case q.Scalar && (s.Star || q.Aggregate || q.Grouped || len(s.Order) > 0):
		c.fail(s.Pos, "SELECT without FROM is supported for expressions alone")
	case q.Grouped && len(s.Order) > 0:
		q.unserved = at(s.Order[0].Pos, "ORDER BY together with GROUP BY is not supported")
	case q.Aggregate:
		q.Order = nil // one row needs no order
	}
}

// where divides the arms of the outermost AND, and of those right below it, by whether they read elements of an array.
func (c *compiler) where(n node) {
	switch l, ok := n.(logic); {
	case ok && !l.decide:
		for _, a := range l.arms {
			c.where(a)
		}
	case c.readsElement(n):
		c.query.iteration.where = append(c.query.iteration.where, n)
	default:
		c.query.where = append(c.query.where, n)
	}
}

func (c *compiler) order(o *ordered) {
	n, ok := c.expr(o.Expr).(property)
	if !ok {
		if c.query.unserved == nil {
			c.query.unserved = at(o.Pos, "ORDER BY anything but a property of the item is not supported")
		}
		return
	}
	c.query.Order = append(c.query.Order, Order{Path: int(n), Descending: strings.EqualFold(o.Dir, "DESC")})
}

// selectList compiles the select list. Star asks for the stored items; where rows are not items, it selects the
// only source.
func (c *compiler) selectList(s *statement) {
	q := c.query
	c.selecting = true
	defer func() { c.selecting = false }()
	list := s.Columns
	switch {
	case s.Star && len(c.names) == 0:
		c.fail(s.Pos, "SELECT * without FROM is not supported")
		return
	case s.Star && len(c.names) > 1:
		c.fail(s.Pos, "SELECT * over more than one source is not supported")
		return
	case s.Star:
		source := c.names[0].node
		q.value = true
		q.Star = source == c.rootPath() && !s.Distinct && len(s.Group) == 0
		q.columns = []outColumn{{node: source}}
		c.grouped(s.Pos, source)
		return
	case s.Value != nil:
		q.value = true
		list = []*column{{Pos: s.Pos, Expr: s.Value}}
	}
	for _, in := range list {
		out := outColumn{node: c.expr(in.Expr)}
		if in.Alias != nil {
			out.name = in.Alias.Name
		} else {
			out.name = c.columnName(in.Expr)
		}
		if slices.ContainsFunc(q.columns, func(o outColumn) bool { return o.name == out.name }) {
			c.fail(in.Pos, "two columns are named "+out.name)
			if in.Alias != nil && c.err.Code == "" {
				c.err.Code, c.err.Start = "SC2022", in.Alias.Pos.Offset
				c.err.End = c.err.Start + len(in.Alias.Name)
			}
		}
		q.columns = append(q.columns, out)
	}
	q.Aggregate = len(q.aggregates) > 0
	for i, in := range list {
		if c.err == nil {
			c.grouped(in.Pos, q.columns[i].node)
		}
	}
}

// grouped checks that a column of a query that groups or aggregates has one value for each group.
func (c *compiler) grouped(pos lexer.Position, n node) {
	if len(c.query.groups) == 0 && len(c.query.aggregates) == 0 {
		return
	}
	if slices.ContainsFunc(c.query.groups, func(g node) bool { return reflect.DeepEqual(g, n) }) { // written alike
		return
	}
	switch n.(type) {
	case aggregated:
		return
	case property, element:
		c.fail(pos, "a column that is neither in GROUP BY nor in an aggregate, beside some that are, is not supported")
		return
	}
	for _, child := range n.children() {
		c.grouped(pos, child)
	}
}

// columnName returns the name of a column without one: the last property of a path, or $1, $2 and so on.
func (c *compiler) columnName(e *expr) string {
	if t := sole(e); t != nil && t.Name != "" {
		if len(t.Steps) == 0 {
			return t.Name
		}
		switch last := t.Steps[len(t.Steps)-1]; {
		case last.Name != "":
			return last.Name
		case last.Quote != nil:
			return c.unquote(last.Pos, *last.Quote)
		}
	}
	n := 1
	for _, o := range c.query.columns {
		if strings.HasPrefix(o.name, "$") {
			n++
		}
	}
	return "$" + strconv.Itoa(n) // the service names it so
}

// sole returns the term that an expression consists of, or nil.
func sole(e *expr) *term {
	if t := e.First; len(e.Rest) == 0 && len(t.Not) == 0 && len(t.Sign) == 0 {
		return t
	}
	return nil
}

func (c *compiler) count(n *count) node {
	switch {
	case n == nil:
		return nil
	case n.Param != "":
		return c.param(n.Param)
	}
	i, err := strconv.Atoi(n.Number)
	if err != nil || i > maxCount {
		c.fail(n.Pos, n.Number+" is not a count")
	}
	return literal{NumberValue(float64(i))}
}

// param returns the place of a parameter; ReadMany brings thousands.
func (c *compiler) param(name string) param {
	if i, ok := c.query.paramIndex[name]; ok {
		return param(i)
	}
	if c.query.paramIndex == nil {
		c.query.paramIndex = map[string]int{}
	}
	c.query.paramIndex[name] = len(c.query.params)
	c.query.params = append(c.query.params, name)
	return param(len(c.query.params) - 1)
}
