package sql

import "strconv"

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
