package sql

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
