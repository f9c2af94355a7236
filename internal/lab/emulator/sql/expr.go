package sql

import (
	"math"
	"slices"

	"github.com/valyala/fastjson"
)

// node is a compiled expression. Its value may be undefined; where a condition is asked for, only
// true counts. Nodes are immutable and shared by all requests of a query.
type node interface {
	eval(e *env) Value
	children() []node
}

// env is what an expression is evaluated against.
type env struct {
	query  *Query
	row    Row
	params []Value
	// elements holds each iteration's current element.
	elements []Value
	totals   []Value // the aggregates, once they are known
	combined int     // combinations of elements tried for this row
	err      *Error
	liked    liked
}

// Row is one item as a source of values: path counts in Query.Paths.
type Row interface {
	Value(path int) Value
}

// Row returns a parsed item as a source of the values that the query reads.
func (q *Query) Row(doc *fastjson.Value) Row { return parsedRow{q.paths, doc} }

type parsedRow struct {
	paths []Path
	doc   *fastjson.Value
}

// Value implements Row.
func (r parsedRow) Value(path int) Value { return r.paths[path].In(r.doc) }

type literal struct{ value Value }

func (n literal) eval(*env) Value { return n.value }

type param int

func (n param) eval(e *env) Value { return e.params[n] }

type property int

func (n property) eval(e *env) Value { return e.row.Value(int(n)) }

// element is what the iteration of that number is at.
type element int

func (n element) eval(e *env) Value { return e.elements[n] }

// aggregated is the value of the aggregate of that number.
type aggregated int

func (n aggregated) eval(e *env) Value { return e.totals[n] }

// member is a path below another value.
type member struct {
	of   node
	path Path
}

func (n member) eval(e *env) Value {
	v := n.of.eval(e)
	if v.kind != Array && v.kind != Object {
		return Value{}
	}
	return n.path.In(v.node)
}

type call struct {
	name string
	fn   *function
	args []node
}

func (n call) eval(e *env) Value {
	var buf [3]Value
	args := buf[:0]
	for _, a := range n.args {
		args = append(args, a.eval(e))
	}
	return n.fn.eval(args)
}

// logic is three-valued: false decides an AND and true decides an OR whatever else is undefined.
type logic struct {
	arms   []node
	decide bool // the value that decides: false for AND, true for OR
}

func (n logic) eval(e *env) Value {
	unknown := false
	for _, a := range n.arms {
		v := a.eval(e)
		if v.kind != Bool {
			unknown = true
		} else if v.True() == n.decide {
			return BoolValue(n.decide)
		}
	}
	if unknown {
		return Value{}
	}
	return BoolValue(!n.decide)
}

type not struct{ arg node }

func (n not) eval(e *env) Value {
	v := n.arg.eval(e)
	if v.kind != Bool {
		return Value{}
	}
	return BoolValue(!v.True())
}

// Op is a comparison.
type Op string

// The comparisons. Prefix is the condition of STARTSWITH.
const (
	Equal        Op = "="
	NotEqual     Op = "!="
	Less         Op = "<"
	LessEqual    Op = "<="
	Greater      Op = ">"
	GreaterEqual Op = ">="
	Prefix       Op = "prefix"
)

type compare struct {
	op          Op
	left, right node
}

func (n compare) eval(e *env) Value { return apply(n.op, n.left.eval(e), n.right.eval(e)) }

// apply compares two values. Undefined gives undefined; so does an order between different types,
// while equality between different types is false (docs/internals/adr/0002-embedded-cosmos-db.md).
func apply(op Op, a, b Value) Value {
	if a.kind == Undefined || b.kind == Undefined {
		return Value{}
	}
	switch op {
	case Equal:
		return BoolValue(equal(a, b))
	case NotEqual:
		return BoolValue(!equal(a, b))
	}
	if a.kind != b.kind || a.kind == Array || a.kind == Object {
		return Value{}
	}
	c := Compare(a, b)
	switch op {
	case Less:
		return BoolValue(c < 0)
	case LessEqual:
		return BoolValue(c <= 0)
	case Greater:
		return BoolValue(c > 0)
	default:
		return BoolValue(c >= 0)
	}
}

// in is a chain of OR over equalities.
type in struct {
	arg  node
	list []node
}

func (n in) eval(e *env) Value {
	v := n.arg.eval(e)
	unknown := v.kind == Undefined
	for _, m := range n.list {
		equal := apply(Equal, v, m.eval(e))
		if equal.True() {
			return equal
		}
		unknown = unknown || equal.kind == Undefined
	}
	if unknown {
		return Value{}
	}
	return BoolValue(false)
}

// arithmetic is defined between numbers when its result is a finite number: JSON has no other.
type arithmetic struct {
	op          byte
	left, right node
}

func (n arithmetic) eval(e *env) Value {
	a, b := n.left.eval(e), n.right.eval(e)
	if a.kind != Number || b.kind != Number {
		return Value{}
	}
	switch n.op {
	case '+':
		return finite(a.num + b.num)
	case '-':
		return finite(a.num - b.num)
	case '*':
		return finite(a.num * b.num)
	case '/':
		return finite(a.num / b.num)
	default:
		return finite(math.Mod(a.num, b.num))
	}
}

func finite(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}
	}
	return NumberValue(f)
}

func (literal) children() []node      { return nil }
func (param) children() []node        { return nil }
func (property) children() []node     { return nil }
func (element) children() []node      { return nil }
func (aggregated) children() []node   { return nil }
func (n member) children() []node     { return []node{n.of} }
func (n call) children() []node       { return n.args }
func (n logic) children() []node      { return n.arms }
func (n not) children() []node        { return []node{n.arg} }
func (n compare) children() []node    { return []node{n.left, n.right} }
func (n in) children() []node         { return append([]node{n.arg}, n.list...) }
func (n arithmetic) children() []node { return []node{n.left, n.right} }

// walk visits an expression and its descendants; visit reports whether to go deeper.
func walk(n node, visit func(n node) bool) {
	if !visit(n) {
		return
	}
	for _, child := range n.children() {
		walk(child, visit)
	}
}

// readsElement reports whether an expression depends on the element that an iteration of FROM or JOIN is at.
func (c *compiler) readsElement(n node) bool {
	found := false
	walk(n, func(n node) bool {
		e, ok := n.(element)
		found = found || ok && slices.Contains(c.query.iteration.slots, e)
		return !found
	})
	return found
}

// aggregates are the aggregate functions, with what plans call them.
var aggregates = map[string]string{"COUNT": "Count", "SUM": "Sum", "AVG": "Average", "MIN": "Min", "MAX": "Max"}

// aggregateCall is an aggregate of a select list.
type aggregateCall struct {
	kind string
	arg  node
}

// total accumulates one aggregate.
type total struct {
	n    int
	sum  float64
	best Value
	bad  bool // a value was no number: SUM and AVG are undefined
}

// add counts one value. Undefined does not count. MIN and MAX go by the order of types and do not
// see arrays and objects.
func (t *total) add(kind string, v Value) {
	if v.kind == Undefined {
		return
	}
	t.n++
	t.sum += v.num
	t.bad = t.bad || v.kind != Number
	if kind != "MIN" && kind != "MAX" || v.kind > String {
		return
	}
	c := Compare(v, t.best)
	if t.best.kind == Undefined || kind == "MIN" && c < 0 || kind == "MAX" && c > 0 {
		t.best = v.Clone()
	}
}

func (t total) value(kind string) Value {
	switch kind {
	case "COUNT":
		return NumberValue(float64(t.n))
	case "MIN", "MAX":
		return t.best
	}
	if t.bad || kind == "AVG" && t.n == 0 {
		return Value{}
	}
	if kind == "AVG" {
		return finite(t.sum / float64(t.n))
	}
	return finite(t.sum)
}
