package sql

// aggregate names an aggregate function.
type aggregate string

var aggregates = map[string]aggregate{
	"COUNT": "COUNT", "SUM": "SUM", "AVG": "AVG", "MIN": "MIN", "MAX": "MAX",
}

// aggregateCall is an aggregate of a select list.
type aggregateCall struct {
	kind aggregate
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
func (t *total) add(kind aggregate, v Value) {
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

func (t total) value(kind aggregate) Value {
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
