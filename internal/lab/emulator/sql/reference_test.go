package sql_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The reference is a second evaluator that shares nothing with the package: an expression is made
// together with a function over the document as encoding/json decodes it. undefined{} is undefined.

type undefined struct{}

type made struct {
	text string
	eval func(doc any) any
}

// maker makes random expressions.
type maker struct{ *rand.Rand }

var leaves = []made{
	{`1`, constant(1.0)}, {`-2.5`, constant(-2.5)}, {`0`, constant(0.0)}, {`3`, constant(3.0)}, {`"ab"`, constant("ab")},
	{`'b'`, constant("b")}, {`""`, constant("")},
	{`true`, constant(true)}, {`false`, constant(false)}, {`null`, constant(nil)}, {`undefined`, constant(undefined{})},
	{`[1, "b"]`, constant([]any{1.0, "b"})}, {`{"k": 1}`, constant(map[string]any{"k": 1.0})},
	at("c.n", "n"), at("c.m", "m"), at("c.s", "s"), at(`c["t u"]`, "t u"), at("c.b", "b"), at("c.z", "z"), at("c.l", "l"),
	at("c.l[1]", "l", 1), at("c.o", "o"), at("c.o.k", "o", "k"), at("c.missing", "missing"),
}

func constant(v any) func(any) any { return func(any) any { return v } }

func at(text string, steps ...any) made {
	return made{text, func(doc any) any {
		for _, s := range steps {
			switch s := s.(type) {
			case string:
				m, _ := doc.(map[string]any)
				v, ok := m[s]
				if !ok {
					return undefined{}
				}
				doc = v
			case int:
				l, _ := doc.([]any)
				if s >= len(l) {
					return undefined{}
				}
				doc = l[s]
			}
		}
		return doc
	}}
}

func (m maker) expr(depth int) made {
	if depth == 0 || m.IntN(6) == 0 {
		return leaves[m.IntN(len(leaves))]
	}
	a, b := m.expr(depth-1), m.expr(depth-1)
	switch m.IntN(9) {
	case 0:
		return made{"(" + a.text + " AND " + b.text + ")", func(d any) any { return and(a.eval(d), b.eval(d)) }}
	case 1:
		return made{"(" + a.text + " OR " + b.text + ")",
			func(d any) any { return negate(and(negate(a.eval(d)), negate(b.eval(d)))) }}
	case 2:
		return made{"(NOT " + a.text + ")", func(d any) any { return negate(a.eval(d)) }}
	case 3, 4, 5:
		op := []string{"=", "!=", "<>", "<", "<=", ">", ">="}[m.IntN(7)]
		return made{"(" + a.text + " " + op + " " + b.text + ")",
			func(d any) any { return compared(op, a.eval(d), b.eval(d)) }}
	case 6:
		op := []string{"+", "-", "*", "/", "%"}[m.IntN(5)]
		return made{"(" + a.text + " " + op + " " + b.text + ")",
			func(d any) any { return calculated(op, a.eval(d), b.eval(d)) }}
	case 7:
		c := m.expr(depth - 1)
		if m.IntN(2) == 0 {
			return made{"(" + a.text + " BETWEEN " + b.text + " AND " + c.text + ")", func(d any) any {
				return and(compared(">=", a.eval(d), b.eval(d)), compared("<=", a.eval(d), c.eval(d)))
			}}
		}
		return made{"(" + a.text + " IN (" + b.text + ", " + c.text + "))", func(d any) any {
			return negate(and(negate(compared("=", a.eval(d), b.eval(d))), negate(compared("=", a.eval(d), c.eval(d)))))
		}}
	default:
		return m.call(a, b)
	}
}

func (m maker) call(a, b made) made {
	one := []struct {
		name string
		f    func(any) any
	}{
		{"IS_DEFINED", func(v any) any { return v != any(undefined{}) }}, {"IS_NULL", func(v any) any { return v == nil }},
		{"IS_NUMBER", func(v any) any { _, ok := v.(float64); return ok }},
		{"IS_STRING", func(v any) any { _, ok := v.(string); return ok }},
		{"IS_BOOL", func(v any) any { _, ok := v.(bool); return ok }},
		{"IS_ARRAY", func(v any) any { _, ok := v.([]any); return ok }},
		{"IS_OBJECT", func(v any) any { _, ok := v.(map[string]any); return ok }},
		{"UPPER", func(v any) any { return onString(v, func(s string) any { return strings.ToUpper(s) }) }},
		{"LENGTH", func(v any) any { return onString(v, func(s string) any { return float64(len([]rune(s))) }) }},
		{"ARRAY_LENGTH", func(v any) any {
			if l, ok := v.([]any); ok {
				return float64(len(l))
			}
			return undefined{}
		}},
	}
	two := []struct {
		name string
		f    func(a, b string) bool
	}{{"STARTSWITH", strings.HasPrefix}, {"ENDSWITH", strings.HasSuffix}, {"CONTAINS", strings.Contains}}
	if i := m.IntN(len(one) + len(two)); i < len(one) {
		return made{one[i].name + "(" + a.text + ")", func(d any) any { return one[i].f(a.eval(d)) }}
	} else {
		f := two[i-len(one)]
		return made{f.name + "(" + a.text + ", " + b.text + ")", func(d any) any {
			return onString(a.eval(d), func(x string) any {
				return onString(b.eval(d),
					func(y string) any { return f.f(x, y) })
			})
		}}
	}
}

func onString(v any, f func(string) any) any {
	if s, ok := v.(string); ok {
		return f(s)
	}
	return undefined{}
}

func and(a, b any) any {
	switch {
	case a == any(false) || b == any(false):
		return false
	case a == any(true) && b == any(true):
		return true
	}
	return undefined{}
}

func negate(v any) any {
	if b, ok := v.(bool); ok {
		return !b
	}
	return undefined{}
}

func calculated(op string, a, b any) any {
	x, isX := a.(float64)
	y, isY := b.(float64)
	if !isX || !isY {
		return undefined{}
	}
	out := map[string]float64{"+": x + y, "-": x - y, "*": x * y, "/": x / y, "%": math.Mod(x, y)}[op]
	if math.IsNaN(out) || math.IsInf(out, 0) {
		return undefined{}
	}
	return out
}

// rank is the order of types.
func rank(v any) int {
	switch v.(type) {
	case undefined:
		return 0
	case nil:
		return 1
	case bool:
		return 2
	case float64:
		return 3
	case string:
		return 4
	case []any:
		return 5
	}
	return 6
}

func compared(op string, a, b any) any {
	if rank(a) == 0 || rank(b) == 0 {
		return undefined{}
	}
	if op == "=" || op == "!=" || op == "<>" {
		if rank(a) == rank(b) && rank(a) <= 4 {
			return (order(a, b) == 0) == (op == "=")
		}
		x, _ := json.Marshal(a) // sorts the properties of objects
		y, _ := json.Marshal(b)
		return (rank(a) == rank(b) && string(x) == string(y)) == (op == "=")
	}
	if rank(a) != rank(b) || rank(a) > 4 {
		return undefined{}
	}
	return map[string]bool{"<": order(a, b) < 0, "<=": order(a, b) <= 0, ">": order(a, b) > 0, ">=": order(a, b) >= 0}[op]
}

// order compares values as ORDER BY does, up to strings.
func order(a, b any) int {
	if rank(a) != rank(b) {
		return rank(a) - rank(b)
	}
	switch a := a.(type) {
	case bool:
		switch {
		case a == b.(bool):
			return 0
		case a:
			return 1
		}
		return -1
	case float64:
		switch d := a - b.(float64); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
	case string:
		return strings.Compare(a, b.(string))
	}
	return 0
}

var referenceDocs = []string{
	`{"i":0,"n":1,"m":3,"s":"ab","t u":"b","b":true,"z":null,"l":[1,"b"],"o":{"k":1}}`,
	`{"i":1,"n":-2.5,"m":1e0,"s":"","t u":"AB","b":false,"l":["b",1,2],"o":{"k":"b","j":[null]}}`,
	`{"i":2,"n":"b","m":null,"s":3,"b":null,"z":0,"l":{"k":1},"o":[{"k":1}]}`,
	`{"i":3,"l":[],"o":{}}`,
}

// TestAgainstReference holds random expressions against the reference, as conditions and as columns. They
// are written with all parentheses; TestWhere holds what binds tighter.
func TestAgainstReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	againstReference(t, seed, 4000)
}

// FuzzAgainstReference is TestAgainstReference with the seeds that fuzzing finds worth keeping.
func FuzzAgainstReference(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { againstReference(t, seed, 5) })
}

func againstReference(t *testing.T, seed uint64, n int) {
	m := maker{rand.New(rand.NewPCG(seed, 0))}
	for range n {
		e := m.expr(1 + m.IntN(4))
		want, matching := []string{}, []string{}
		for i, text := range referenceDocs {
			var doc any
			require.NoError(t, json.Unmarshal([]byte(text), &doc))
			v := e.eval(doc)
			if v == any(true) {
				matching = append(matching, fmt.Sprint(i))
			}
			if v != any(undefined{}) {
				j, err := json.Marshal(v)
				require.NoError(t, err)
				want = append(want, string(j))
			}
		}
		require.Equal(t, matching, rows(t, "SELECT VALUE c.i FROM c WHERE "+e.text, nil, referenceDocs...),
			"seed %d, WHERE %s", seed, e.text)
		got := rows(t, "SELECT VALUE "+e.text+" FROM c", nil, referenceDocs...)
		require.Len(t, got, len(want), "seed %d, VALUE %s", seed, e.text)
		for i := range want {
			require.JSONEq(t, want[i], got[i], "seed %d, VALUE %s", seed, e.text)
		}
	}
}

// TestOrderAgainstReference sorts documents of mixed types by two properties.
func TestOrderAgainstReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	values := []string{``, `null`, `true`, `false`, `1`, `-3.5`, `"a"`, `"b"`}
	for range 200 {
		var docs []string
		for i := range 20 {
			doc := fmt.Sprintf(`{"i":%d`, i)
			for _, name := range []string{"x", "y"} {
				if v := values[random.IntN(len(values))]; v != "" {
					doc += fmt.Sprintf(`,%q:%s`, name, v)
				}
			}
			docs = append(docs, doc+"}")
		}
		down := []bool{random.IntN(2) == 0, random.IntN(2) == 0}
		text := "SELECT VALUE c.i FROM c ORDER BY c.x" + map[bool]string{true: " DESC"}[down[0]] + ", c.y" +
			map[bool]string{true: " DESC", false: " ASC"}[down[1]]
		decoded := make([]map[string]any, len(docs))
		for i, d := range docs {
			require.NoError(t, json.Unmarshal([]byte(d), &decoded[i]))
		}
		slices.SortStableFunc(decoded, func(a, b map[string]any) int {
			for i, name := range []string{"x", "y"} {
				c := order(at("", name).eval(a), at("", name).eval(b))
				if down[i] {
					c = -c
				}
				if c != 0 {
					return c
				}
			}
			return 0
		})
		want := []string{}
		for _, d := range decoded {
			want = append(want, fmt.Sprint(d["i"]))
		}
		require.Equal(t, want, rows(t, text, nil, docs...), text)
	}
}
