package sql

// aggregate names an aggregate function.
type aggregate string

var aggregates = map[string]aggregate{
	"COUNT": "COUNT", "SUM": "SUM", "AVG": "AVG", "MIN": "MIN", "MAX": "MAX",
}

// Totals accumulates the aggregates of one query over its rows.
type Totals struct {
	bound *Bound
	sums  []total
}

type total struct {
	n    int
	sum  float64
	best Value
	bad  bool // a value was no number: SUM and AVG are undefined
}

// Totals is an empty accumulator. It is nil when the query has no aggregates.
func (b *Bound) Totals() *Totals {
	if !b.query.Aggregate {
		return nil
	}
	return &Totals{bound: b, sums: make([]total, len(b.query.columns))}
}

// Add counts one matching row.
func (t *Totals) Add(row Row) {
	for i, c := range t.bound.query.columns {
		v := c.node.eval(t.bound.env(row))
		if v.kind == Undefined {
			continue
		}
		s := &t.sums[i]
		s.n++
		s.sum += v.num
		s.bad = s.bad || v.kind != Number
		better := s.best.kind == Undefined ||
			c.aggregate == "MIN" && Compare(v, s.best) < 0 ||
			c.aggregate == "MAX" && Compare(v, s.best) > 0
		if better && v.kind <= String {
			s.best = v.Clone()
		}
	}
}

func (s total) value(a aggregate) Value {
	switch a {
	case "COUNT":
		return NumberValue(float64(s.n))
	case "MIN", "MAX":
		return s.best
	}
	if s.bad || a == "AVG" && s.n == 0 {
		return Value{}
	}
	if a == "AVG" {
		return NumberValue(s.sum / float64(s.n))
	}
	return NumberValue(s.sum)
}

// Append appends the one result row as JSON. It reports false when the row is undefined.
func (t *Totals) Append(dst []byte) ([]byte, bool) {
	return t.bound.query.emit(dst, func(i int) Value {
		return t.sums[i].value(t.bound.query.columns[i].aggregate)
	})
}
