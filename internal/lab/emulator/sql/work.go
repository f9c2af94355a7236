package sql

import "slices"

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
