package sql

// Condition is one arm of the outermost AND of a WHERE clause.
type Condition struct {
	// Paths are the properties that the arm reads.
	Paths []int
	bound *Bound
	node  node
}

// True tells whether the arm holds for the row.
func (c Condition) True(row Row) bool { return c.node.eval(c.bound.env(row)).True() }

// Conditions are the arms of the outermost AND: an item matches when all of them hold.
func (b *Bound) Conditions() []Condition {
	out := make([]Condition, len(b.query.where))
	for i, n := range b.query.where {
		seen := map[int]bool{}
		walk(n, func(p int) { seen[p] = true })
		c := Condition{bound: b, node: n}
		for p := range seen {
			c.Paths = append(c.Paths, p)
		}
		out[i] = c
	}
	return out
}

// ProjectedPaths are the properties that Project, or Totals.Add, reads.
func (b *Bound) ProjectedPaths() []int {
	var out []int
	for _, c := range b.query.columns {
		walk(c.node, func(p int) { out = append(out, p) })
	}
	return out
}

// walk visits the properties that an expression reads.
func walk(n node, visit func(path int)) {
	switch n := n.(type) {
	case property:
		visit(int(n))
	case not:
		walk(n.arg, visit)
	case compare:
		walk(n.left, visit)
		walk(n.right, visit)
	case betweenNode:
		walk(n.arg, visit)
		walk(n.low, visit)
		walk(n.high, visit)
	case logic:
		walkAll(n.arms, visit)
	case call:
		walkAll(n.args, visit)
	case in:
		walk(n.arg, visit)
		walkAll(n.list, visit)
	}
}

func walkAll(nodes []node, visit func(path int)) {
	for _, n := range nodes {
		walk(n, visit)
	}
}

// Comparison is a simple test of one property against a known value.
type Comparison struct {
	Path  int
	Op    Op
	Value Value
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
	case betweenNode:
		return b.conjoin([]node{compare{GreaterEqual, n.arg, n.low}, compare{LessEqual, n.arg, n.high}}, limit)
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

var mirrored = map[Op]Op{Equal: Equal, NotEqual: NotEqual, Less: Greater, LessEqual: GreaterEqual, Greater: Less, GreaterEqual: LessEqual}

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

// known is the value of an expression that does not depend on the item.
func (b *Bound) known(n node) (Value, bool) {
	switch n := n.(type) {
	case literal:
		return n.value, true
	case param:
		return b.params[n], true
	}
	return Value{}, false
}
