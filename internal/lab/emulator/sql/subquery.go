package sql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"
)

// subquery is a query over arrays of the item inside an expression.
type subquery struct {
	iteration
	kind   string // "": one value; ARRAY: all values; EXISTS: whether there is one
	value  node
	totals []aggregateCall
}

// chosen is a property of a value, or an element, that a parameter names.
type chosen struct {
	of node
	by param
}

func (n chosen) eval(e *env) Value {
	v, by := n.of.eval(e), n.by.eval(e)
	switch {
	case v.kind == Object && by.kind == String:
		return JSONValue(v.node.Get(string(by.str)))
	case v.kind == Array && by.kind == Number && by.num >= 0 && by.num < float64(len(v.node.GetArray())):
		return JSONValue(v.node.GetArray()[int(by.num)])
	}
	return Value{}
}

func (n chosen) children() []node { return []node{n.of} }

// subquery compiles a subquery: SELECT VALUE of an expression, over arrays that FROM and JOIN name with IN.
func (c *compiler) subquery(r *subRef) node {
	s := r.Text
	out := subquery{kind: strings.ToUpper(r.Kind)}
	switch {
	case s.From == nil || s.Distinct || s.Top != nil || len(s.Group)+len(s.Order) > 0 || s.Limit != nil:
		c.fail(r.Pos, "a subquery with more than SELECT VALUE, FROM, JOIN and WHERE is not supported")
		return literal{}
	case s.Value == nil && !s.Star && out.kind == "":
		c.fail(r.Pos, "a subquery without VALUE is not supported")
		return literal{}
	case s.Star && len(s.From.Joins) > 0 && out.kind != "EXISTS":
		c.fail(r.Pos, "SELECT * over more than one source is not supported")
		return literal{}
	}
	names, selecting, totals := c.names, c.selecting, c.totals
	defer func() { c.names, c.selecting, c.totals = names, selecting, totals }()
	c.names = names[:len(names):len(names)]
	for _, from := range append([]*source{s.From.Source}, s.From.Joins...) {
		if from.Sub != nil || from.Element == "" || from.Alias != "" {
			c.fail(from.Pos, "a subquery over anything but the elements of an array is not supported")
			return literal{}
		}
		c.iterate(&out.iteration, from.Element, c.path(from.Pos, from.Root, from.Steps))
	}
	c.totals = &out.totals
	if s.Where != nil {
		c.selecting = false
		out.where = []node{c.expr(s.Where)}
	}
	c.selecting = true
	out.value = out.slots[0]
	switch {
	case s.Value != nil:
		out.value = c.expr(s.Value)
	case len(s.Columns) > 0 && out.kind != "EXISTS":
		out.value = c.row(s.Columns)
	}
	return out
}

// row compiles the columns of a subquery: each of its values is an object of them.
func (c *compiler) row(columns []*column) node {
	n := object{}
	for _, in := range columns {
		name := c.columnName(in.Expr)
		if in.Alias != nil {
			name = in.Alias.Name
		}
		if slices.Contains(n.names, name) {
			c.fail(in.Pos, "two columns are named "+name)
		}
		n.names, n.values = append(n.names, name), append(n.values, c.expr(in.Expr))
	}
	return n
}

func (n subquery) eval(e *env) Value {
	var arena fastjson.Arena
	list, found, totals := arena.NewArray(), 0, make([]total, len(n.totals))
	first := Value{}
	n.iteration.each(e, func() bool {
		if len(n.totals) > 0 {
			for i, t := range n.totals {
				totals[i].add(t.kind, t.arg.eval(e))
			}
			return true
		}
		v := n.value.eval(e)
		if v.kind == Undefined {
			return true
		}
		if found++; found == 1 {
			first = v.Clone()
		}
		if n.kind == "ARRAY" {
			list.SetArrayItem(found-1, v.Clone().json(&arena))
		}
		return n.kind == "ARRAY"
	})
	if len(n.totals) > 0 {
		outer := e.totals
		e.totals = make([]Value, len(totals))
		for i, t := range totals {
			e.totals[i] = t.value(n.totals[i].kind)
		}
		first, found = n.value.eval(e), 1
		e.totals = outer
		if n.kind == "ARRAY" && first.kind != Undefined {
			list.SetArrayItem(0, first.json(&arena))
		}
	}
	switch n.kind {
	case "EXISTS":
		return BoolValue(found > 0)
	case "ARRAY":
		return Value{kind: Array, node: list}
	}
	return first
}

func (n subquery) children() []node {
	out := append(append([]node{n.value}, n.lists...), n.where...)
	for _, t := range n.totals {
		out = append(out, t.arg)
	}
	return out
}

// iteration is what FROM and JOIN go through, of a query or of a subquery: every combination of elements of arrays.
type iteration struct {
	lists []node
	// slots says, for each list, where the iteration keeps the list's current element.
	slots []element
	where []node // conditions that read these elements
}

// iterate adds a list, which goes through its elements for every element of those before.
func (c *compiler) iterate(it *iteration, called string, list node) {
	slot := element(len(c.query.lists))
	c.query.lists = append(c.query.lists, list)
	it.lists, it.slots = append(it.lists, list), append(it.slots, slot)
	c.names = append(c.names, name{called, slot})
}

// maxCombined bounds the combinations of elements that are tried for one item: with ten JOINs over a
// list of a hundred there would be no end. The service has its limit in time, 5 s a page.
const maxCombined = 1_000_000

// each calls visit for every combination of elements that the conditions let through. It reports false when visit has.
func (it *iteration) each(e *env, visit func() bool) bool { return it.from(0, e, visit) }

func (it *iteration) from(n int, e *env, visit func() bool) bool {
	if n == len(it.lists) {
		if e.combined++; e.combined > maxCombined {
			e.err = &Error{
				Reason: "the JOINs of the query combine the elements of an item in more than " +
					strconv.Itoa(maxCombined) + " ways",
			}
			return false
		}
		for _, c := range it.where {
			if !c.eval(e).True() {
				return true
			}
		}
		return visit()
	}
	list := it.lists[n].eval(e)
	if list.kind != Array {
		return true
	}
	for _, v := range list.node.GetArray() {
		e.elements[it.slots[n]] = JSONValue(v)
		if !it.from(n+1, e, visit) {
			return false
		}
	}
	return true
}
