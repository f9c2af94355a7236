package sql

import (
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
)

// compiler turns a parsed statement into a Query. The first fault it meets ends the work.
type compiler struct {
	query *Query
	alias string
	err   *Error
}

func compile(s *statement) (*Query, error) {
	c := &compiler{query: &Query{Star: s.Star}}
	switch {
	case s.Distinct != nil:
		c.fail(s.Distinct.Pos, "DISTINCT is not supported")
	case s.From == nil:
		c.fail(lexer.Position{}, "a query without FROM is not supported")
	default:
		c.statement(s)
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.query, nil
}

func (c *compiler) fail(pos lexer.Position, reason string) {
	if c.err == nil {
		c.err = &Error{Line: pos.Line, Column: pos.Column, Reason: reason}
	}
}

func (c *compiler) statement(s *statement) {
	c.alias = s.From.Root
	if s.From.Alias != "" {
		c.alias = s.From.Alias
	}
	q := c.query
	q.value = s.Value != nil
	if q.value {
		s.Columns = []*column{{Expr: s.Value}}
	}
	c.columns(s.Columns)
	if s.Where != nil {
		q.Filtered = true
		q.where = conjuncts(c.expr(s.Where))
	}
	for _, o := range s.Order {
		n, ok := c.expr(o.Expr).(property)
		if !ok {
			c.fail(firstPos(o.Expr), "ORDER BY anything but a property is not supported")
			return
		}
		q.Order = append(q.Order, Order{Path: int(n), Descending: strings.EqualFold(o.Dir, "DESC")})
	}
	q.top, q.offset, q.limit = c.count(s.Top), c.count(s.Offset), c.count(s.Limit)
	q.Limited = s.Top != nil || s.Limit != nil
	if s.Top != nil && s.Limit != nil {
		c.fail(s.Limit.Pos, "TOP and LIMIT exclude each other")
	}
	if len(q.Order) > 1 {
		c.fail(firstPos(s.Order[1].Expr), "ORDER BY more than one property is not supported")
	}
	if q.Aggregate && (len(q.Order) > 0 || q.Limited) {
		c.fail(s.From.Pos, "an aggregate with ORDER BY, TOP or LIMIT is not supported")
	}
}

// conjuncts are the arms of an outermost AND.
func conjuncts(n node) []node {
	if l, ok := n.(logic); ok && !l.decide {
		return l.arms
	}
	return []node{n}
}

// columns compiles the select list. An aggregate may only stand at its top, and not beside others.
func (c *compiler) columns(list []*column) {
	seen := map[string]bool{}
	plain := 0
	for _, in := range list {
		out := outColumn{name: in.Alias}
		if f := soleCall(in.Expr); f != nil && aggregates[strings.ToUpper(f.Name)] != "" {
			out.aggregate = aggregates[strings.ToUpper(f.Name)]
			if len(f.Args) != 1 {
				c.fail(f.Pos, f.Name+" takes one argument")
				return
			}
			out.node = c.expr(f.Args[0])
			c.query.Aggregate = true
		} else {
			out.node = c.expr(in.Expr)
			plain++
		}
		if out.name == "" {
			out.name = c.columnName(out)
		}
		if seen[out.name] {
			c.fail(in.Pos, "two columns are named "+out.name)
		}
		seen[out.name] = true
		c.query.columns = append(c.query.columns, out)
	}
	if c.query.Aggregate && plain > 0 {
		c.fail(list[0].Pos, "aggregates beside other columns are not supported")
	}
}

func (c *compiler) columnName(col outColumn) string {
	p, ok := col.node.(property)
	if ok && col.aggregate == "" {
		path := c.query.paths[p]
		if len(path) == 0 {
			return c.alias
		}
		if last := path[len(path)-1]; !last.Element {
			return last.Name
		}
	}
	n := 1
	for _, o := range c.query.columns {
		if strings.HasPrefix(o.name, "$") {
			n++
		}
	}
	return unnamed(n)
}

func (c *compiler) count(n *count) *number {
	switch {
	case n == nil:
		return nil
	case n.Param != "":
		return &number{param: int(c.param(n.Param))}
	}
	i, err := strconv.Atoi(n.Number)
	if err != nil || i > maxCount {
		c.fail(n.Pos, n.Number+" is not a count")
	}
	return &number{literal: i, param: -1}
}

func (c *compiler) param(name string) param {
	for i, p := range c.query.params {
		if p == name {
			return param(i)
		}
	}
	c.query.params = append(c.query.params, name)
	return param(len(c.query.params) - 1)
}

func (c *compiler) expr(e *expr) node {
	arms := make([]node, len(e.Or))
	for i, a := range e.Or {
		arms[i] = c.conjunction(a)
	}
	return join(arms, true)
}

func (c *compiler) conjunction(e *conjunction) node {
	arms := make([]node, len(e.And))
	for i, a := range e.And {
		arms[i] = c.comparison(a.Term)
		for range a.Not {
			arms[i] = not{arms[i]}
		}
	}
	return join(arms, false)
}

// join connects the arms of an AND (decide false) or OR; nested ones of the same kind become one.
func join(arms []node, decide bool) node {
	if len(arms) == 1 {
		return arms[0]
	}
	var flat []node
	for _, a := range arms {
		if l, ok := a.(logic); ok && l.decide == decide {
			flat = append(flat, l.arms...)
		} else {
			flat = append(flat, a)
		}
	}
	return logic{flat, decide}
}

func (c *compiler) comparison(e *comparison) node {
	left := c.operand(e.Left)
	var n node
	switch {
	case e.Op == "<>":
		return compare{NotEqual, left, c.operand(e.Right)}
	case e.Op != "":
		return compare{Op(e.Op), left, c.operand(e.Right)}
	case e.Between != nil:
		n = betweenNode{left, c.operand(e.Between.Low), c.operand(e.Between.High)}
	case e.In != nil:
		list := make([]node, len(e.In))
		for i, m := range e.In {
			list[i] = c.operand(m)
		}
		n = in{left, list}
	default:
		return left
	}
	if e.Not {
		return not{n}
	}
	return n
}
