package sql

import "slices"

// Condition is one arm of the outermost AND of a WHERE clause, or all arms that read elements of
// arrays taken together.
type Condition struct {
	// Paths are the properties that the arm reads.
	Paths []int
	// Elements are paths into arrays that the arm reads, beyond Paths; an Element step is any element.
	Elements []Path
	// Servable reports that an index over all these could answer the arm, without loading the item (Azure Cosmos DB docs,
	// index-overview, "index usage").
	Servable bool

	bound *Bound
	node  node
}

// True reports whether the arm holds for the row.
func (c Condition) True(row Row) bool { return c.node.eval(c.bound.env(row)).True() }

// Conditions returns the arms of the outermost AND: an item matches when all of them hold. With an
// iteration the item matches when it gives at least one row.
func (b *Bound) Conditions() []Condition {
	q := b.query
	out := make([]Condition, 0, len(q.where)+1)
	for _, n := range q.where {
		c := Condition{bound: b, node: n, Servable: b.servable(n)}
		c.read(q, n)
		out = append(out, c)
	}
	if q.Iterates() {
		c := Condition{bound: b, node: exists{}, Servable: true}
		for _, n := range q.iteration.where {
			c.Servable = c.Servable && b.servable(n)
			c.read(q, n)
		}
		for _, slot := range q.iteration.slots {
			c.read(q, slot)
		}
		out = append(out, c)
	}
	return out
}

// read notes which paths an expression reads, each once.
func (c *Condition) read(q *Query, n node) {
	seen := map[int]bool{}
	walk(n, func(n node) bool {
		switch n := n.(type) {
		case property:
			if !seen[int(n)] {
				seen[int(n)] = true
				c.Paths = append(c.Paths, int(n))
			}
		case call:
			if p, ok := n.args[0].(property); ok && n.name == "ARRAY_CONTAINS" {
				c.Elements = append(c.Elements, q.anyOf(p))
				for _, a := range n.args[1:] {
					c.read(q, a)
				}
				return false
			}
		case element, member:
			if path, ok := q.elementPath(n); ok {
				c.Elements = append(c.Elements, path)
				return false
			}
		}
		return true
	})
}

func (q *Query) anyOf(p property) Path {
	path := q.paths[p]
	return append(path[:len(path):len(path)], Step{Element: true})
}

// elementPath returns the path of an element of an iteration, or of a property of it, if it has one.
func (q *Query) elementPath(n node) (Path, bool) {
	switch n := n.(type) {
	case property:
		return q.paths[n], true
	case element:
		path, ok := q.elementPath(q.lists[n])
		return append(path[:len(path):len(path)], Step{Element: true}), ok
	case member:
		path, ok := q.elementPath(n.of)
		return append(path[:len(path):len(path)], n.path...), ok
	}
	return nil, false
}

// servable reports whether an index over the paths of an expression answers it.
func (b *Bound) servable(n node) bool {
	switch n := n.(type) {
	case literal, param, property, element:
		return true
	case member:
		return b.indexable(n)
	case logic:
		return !slices.ContainsFunc(n.arms, func(a node) bool { return !b.servable(a) })
	case not:
		return b.servable(n.arg)
	case compare:
		return b.indexable(n.left) && b.constant(n.right) ||
			b.constant(n.left) && (b.indexable(n.right) || b.constant(n.right))
	case matches:
		return b.indexable(n.arg) && b.constant(n.pattern)
	case in:
		return b.indexable(n.arg) && b.allConstant(n.list)
	case call:
		if n.name == "ARRAY_CONTAINS" && len(n.args) == 2 && b.constant(n.args[0]) {
			return b.indexable(n.args[1])
		}
		return n.fn.indexed && b.indexable(n.args[0]) && b.allConstant(n.args[1:])
	}
	return false
}

func (b *Bound) indexable(n node) bool {
	_, ok := b.query.elementPath(n)
	return ok
}

func (b *Bound) allConstant(nodes []node) bool {
	return !slices.ContainsFunc(nodes, func(n node) bool { return !b.constant(n) })
}

func (b *Bound) constant(n node) bool {
	_, ok := b.known(n)
	return ok
}

// Comparison is a simple test of one property against a known value.
type Comparison struct {
	Path  int
	Op    Op
	Value Value
}

// Comparison returns what the arm is, if it is a simple test of one property against a known value, for equality or
// order.
func (c Condition) Comparison() (Comparison, bool) {
	n, ok := c.node.(compare)
	if !ok {
		return Comparison{}, false
	}
	if all := c.bound.comparison(n); len(all[0]) == 1 {
		return all[0][0], true
	}
	return Comparison{}, false
}

// Alternatives rewrites the WHERE clause as a disjunction of lists of simple comparisons that every
// matching item satisfies one of. It keeps only what can be read off the text, so an item may satisfy
// an alternative and still not match; an empty list is satisfied by every item. It gives at most
// limit alternatives: clauses that would need more are left out.
func (b *Bound) Alternatives(limit int) [][]Comparison {
	return b.conjoin(b.query.where, limit)
}

var unconstrained = [][]Comparison{nil}

func (b *Bound) alternatives(n node, limit int) [][]Comparison {
	switch n := n.(type) {
	case logic:
		if !n.decide {
			return b.conjoin(n.arms, limit)
		}
		var out [][]Comparison
		for _, a := range n.arms {
			if out = append(out, b.alternatives(a, limit)...); len(out) > limit {
				return unconstrained
			}
		}
		return out
	case in:
		p, ok := n.arg.(property)
		if !ok || len(n.list) > limit {
			return unconstrained
		}
		var out [][]Comparison
		for _, m := range n.list {
			v, ok := b.known(m)
			if !ok {
				return unconstrained
			}
			out = append(out, []Comparison{{int(p), Equal, v}})
		}
		return out
	case compare:
		return b.comparison(n)
	case call:
		return b.function(n)
	}
	return unconstrained
}

// conjoin multiplies the alternatives of all arms out, leaving out arms that would exceed the limit.
func (b *Bound) conjoin(arms []node, limit int) [][]Comparison {
	out := unconstrained
	for _, a := range arms {
		more := b.alternatives(a, limit)
		if len(out)*len(more) > limit {
			continue
		}
		next := make([][]Comparison, 0, len(out)*len(more))
		for _, x := range out {
			for _, y := range more {
				next = append(next, append(x[:len(x):len(x)], y...))
			}
		}
		out = next
	}
	return out
}

func (b *Bound) comparison(n compare) [][]Comparison {
	op, left, right := n.op, n.left, n.right
	if _, ok := left.(property); !ok {
		op, left, right = mirrored[op], right, left
	}
	p, isProperty := left.(property)
	v, isKnown := b.known(right)
	if !isProperty || !isKnown || op == NotEqual {
		return unconstrained
	}
	return [][]Comparison{{{int(p), op, v}}}
}

var mirrored = map[Op]Op{
	Equal: Equal, NotEqual: NotEqual,
	Less: Greater, LessEqual: GreaterEqual, Greater: Less, GreaterEqual: LessEqual,
}

// function reads off a test by a function: STARTSWITH that minds case, and IS_NULL.
func (b *Bound) function(n call) [][]Comparison {
	p, ok := n.args[0].(property)
	if !ok {
		return unconstrained
	}
	switch n.name {
	case "IS_NULL":
		return [][]Comparison{{{int(p), Equal, NullValue()}}}
	case "STARTSWITH":
		if v, ok := b.known(n.args[1]); ok && len(n.args) == 2 {
			return [][]Comparison{{{int(p), Prefix, v}}}
		}
	}
	return unconstrained
}

// known returns the value of an expression that does not depend on the item.
func (b *Bound) known(n node) (Value, bool) {
	switch n := n.(type) {
	case literal:
		return n.value, true
	case param:
		return b.scratch.params[n], true
	}
	return Value{}, false
}
