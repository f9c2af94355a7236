package sql

// node is a compiled expression. Its value may be undefined; where a condition is asked for, only
// true counts.
type node interface {
	eval(e env) Value
}

// env is what an expression is evaluated against: an item and the parameters of the request.
type env struct {
	row    Row
	params []Value
}

// Row is one item as a source of values: path counts in Query.Paths.
type Row interface {
	Value(path int) Value
}

type literal struct{ value Value }

func (n literal) eval(env) Value { return n.value }

type param int

func (n param) eval(e env) Value { return e.params[n] }

type property int

func (n property) eval(e env) Value { return e.row.Value(int(n)) }

type call struct {
	name string
	fn   function
	args []node
}

func (n call) eval(e env) Value {
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

func (n logic) eval(e env) Value {
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

func (n not) eval(e env) Value {
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

func (n compare) eval(e env) Value { return apply(n.op, n.left.eval(e), n.right.eval(e)) }

// apply compares two values. Undefined gives undefined; so does an order between different types,
// while equality between different types is false (docs/emulator.md).
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

type in struct {
	arg  node
	list []node
}

func (n in) eval(e env) Value {
	v := n.arg.eval(e)
	if v.kind == Undefined {
		return Value{}
	}
	for _, m := range n.list {
		if apply(Equal, v, m.eval(e)).True() {
			return BoolValue(true)
		}
	}
	return BoolValue(false)
}

type betweenNode struct{ arg, low, high node }

func (n betweenNode) eval(e env) Value {
	v := n.arg.eval(e)
	low := apply(GreaterEqual, v, n.low.eval(e))
	high := apply(LessEqual, v, n.high.eval(e))
	if low.kind != Bool || high.kind != Bool {
		return Value{}
	}
	return BoolValue(low.True() && high.True())
}
