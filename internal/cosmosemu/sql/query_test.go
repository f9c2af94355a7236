package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/sql"
)

// row is a JSON document as a source of values.
type row struct {
	doc   *fastjson.Value
	paths []sql.Path
}

func (r row) Value(path int) sql.Value { return r.paths[path].In(r.doc) }

// rows evaluates a query without parameters over documents, in their order, and gives its result
// rows as JSON. Stars give the document.
func rows(t *testing.T, text string, params map[string]sql.Value, docs ...string) []string {
	t.Helper()
	q, err := sql.Parse(text)
	require.NoError(t, err)
	b, err := q.Bind(params)
	require.NoError(t, err)
	totals := b.Totals()
	out := []string{}
	for _, d := range docs {
		r := row{fastjson.MustParse(d), q.Paths()}
		match := true
		for _, c := range b.Conditions() {
			match = match && c.True(r)
		}
		switch {
		case !match:
		case q.Aggregate:
			totals.Add(r)
		case q.Star:
			out = append(out, d)
		default:
			if j, ok := b.Project(nil, r); ok {
				out = append(out, string(j))
			}
		}
	}
	if q.Aggregate {
		if j, ok := totals.Append(nil); ok {
			out = append(out, string(j))
		}
	}
	return out
}

func TestWhere(t *testing.T) {
	const doc = `{"id":"x","n":5,"s":"abc","b":true,"z":null,"from":10,"a":[1,{"k":2}],"o":{"p":{"q":7}}}`
	for _, c := range []struct {
		where string
		want  bool
	}{
		{`c.n = 5`, true}, {`c.n != 5`, false}, {`c.n <> 4`, true}, {`c.n < 5`, false}, {`c.n <= 5`, true},
		{`5 < c.n`, false}, {`c.n > 4 AND c.n < 6`, true}, {`c.n = 4 OR c.s = 'abc'`, true},
		{`NOT c.n = 4`, true}, {`NOT NOT c.n = 5`, true}, {`c["from"] >= 10`, true}, {`c['from'] = 1e1`, true},
		{`c.s = "abc"`, true}, {`c.s > 'abb'`, true}, {`c.s < 5`, false}, {`NOT (c.s < 5)`, false},
		{`c.missing = 1`, false}, {`NOT (c.missing = 1)`, false}, {`c.missing != 1`, false},
		{`c.missing = 1 OR c.n = 5`, true}, {`c.n = 5 AND c.missing = 1`, false},
		{`c.z = null`, true}, {`IS_NULL(c.z)`, true}, {`IS_NULL(c.missing)`, false},
		{`IS_DEFINED(c.z)`, true}, {`is_defined(c.missing)`, false}, {`NOT IS_DEFINED(c.missing)`, true},
		{`c.b`, true}, {`c.n`, false}, {`c.b = true`, true}, {`c.s != null`, true}, {`c.n = '5'`, false},
		{`c.n IN (1, 5)`, true}, {`c.n NOT IN (1, 5)`, false}, {`c.missing NOT IN (1)`, false}, {`c.s IN ('a', "abc")`, true},
		{`c.n BETWEEN 5 AND 6`, true}, {`c.n NOT BETWEEN 1 AND 4`, true}, {`c.n BETWEEN 6 AND 9 OR c.b`, true},
		{`STARTSWITH(c.s, 'ab')`, true}, {`STARTSWITH(c.s, 'AB')`, false}, {`STARTSWITH(c.s, 'AB', true)`, true}, {`STARTSWITH(c.n, '5')`, false},
		{`CONTAINS(c.s, 'bc')`, true}, {`ENDSWITH(c.s, 'bc')`, true}, {`ARRAY_CONTAINS(c.a, 1)`, true}, {`ARRAY_CONTAINS(c.a, 2)`, false},
		{`c.a[0] = 1`, true}, {`c.a[1].k = 2`, true}, {`c.a[7] = 1`, false}, {`c.o.p.q = 7`, true}, {`c.o = c.o`, true}, {`c.a = c.o`, false},
		{`(c.n = 4 OR c.n = 5) AND c.b`, true}, {`c.n = 4 OR c.n = 5 AND c.b = false`, false}, {`c.n = -5`, false}, {`c.n > -5`, true},
		{`c.s = 'a\u0062c'`, true}, {`c.s = 'it\'s'`, false},
	} {
		t.Run(c.where, func(t *testing.T) {
			got := rows(t, "SELECT * FROM c WHERE "+c.where, nil, doc)
			require.Equal(t, c.want, len(got) == 1)
		})
	}
}

func TestProjection(t *testing.T) {
	const doc = `{"id":"x","n":9007199254740993,"from":1,"s":"a\"b\n\u0001é","o":{"k y":[1,"t"]}}`
	for _, c := range []struct{ text, want string }{
		{`SELECT c.id, c["from"] FROM c`, `{"id":"x","from":1}`},
		{`SELECT c.id AS name, c.missing FROM c`, `{"name":"x"}`},
		{`select value c.n from c`, `9007199254740993`},
		{`SELECT VALUE c.s FROM c`, `"a\"b\n\u0001é"`},
		{`SELECT c.o["k y"][1] FROM c`, `{"$1":"t"}`},
		{`SELECT c.o["k y"] list, c.n > 1 FROM c`, `{"list":[1,"t"],"$1":true}`},
		{`SELECT VALUE root.id FROM root`, `"x"`},
		{`SELECT r.id FROM root r`, `{"id":"x"}`},
		{`SELECT r.id FROM root AS r -- the id`, `{"id":"x"}`},
		{`SELECT VALUE c.o FROM c`, `{"k y":[1,"t"]}`},
	} {
		t.Run(c.text, func(t *testing.T) {
			require.Equal(t, []string{c.want}, rows(t, c.text, nil, doc))
		})
	}
	require.Empty(t, rows(t, `SELECT VALUE c.missing FROM c`, nil, doc))
}

func TestAggregates(t *testing.T) {
	docs := []string{`{"v":3,"s":"b"}`, `{"v":1,"s":"a"}`, `{"s":"c"}`}
	for _, c := range []struct {
		text string
		want []string
	}{
		{`SELECT VALUE COUNT(1) FROM c`, []string{`3`}},
		{`SELECT VALUE COUNT(c.v) FROM c`, []string{`2`}},
		{`SELECT VALUE MAX(c.v) FROM c`, []string{`3`}},
		{`SELECT VALUE MIN(c.s) FROM c`, []string{`"a"`}},
		{`SELECT VALUE SUM(c.v) FROM c`, []string{`4`}},
		{`SELECT VALUE AVG(c.v) FROM c`, []string{`2`}},
		{`SELECT VALUE SUM(c.s) FROM c`, []string{}},
		{`SELECT VALUE MAX(c.x) FROM c`, []string{}},
		{`SELECT VALUE COUNT(1) FROM c WHERE c.v > 9`, []string{`0`}},
		{`SELECT COUNT(1) AS n, MAX(c.v) FROM c`, []string{`{"n":3,"$1":3}`}},
	} {
		t.Run(c.text, func(t *testing.T) {
			require.Equal(t, c.want, rows(t, c.text, nil, docs...))
		})
	}
}

func TestParameters(t *testing.T) {
	params := map[string]sql.Value{"@d": sql.StringValue([]byte("m1")), "@n": sql.NumberValue(2)}
	require.Len(t, rows(t, `SELECT * FROM c WHERE c.d = @d AND c.n >= @n`, params, `{"d":"m1","n":2}`), 1)

	q, err := sql.Parse(`SELECT TOP @n * FROM c WHERE c.d = @d`)
	require.NoError(t, err)
	b, err := q.Bind(params)
	require.NoError(t, err)
	skip, take := b.Window()
	require.Equal(t, []int{0, 2}, []int{skip, take})

	_, err = q.Bind(nil)
	require.ErrorContains(t, err, "has no value")
	params["@n"] = sql.NumberValue(-1)
	_, err = q.Bind(params)
	require.ErrorContains(t, err, "TOP")
}

func TestErrorsNameThePlaceAndTheConstruct(t *testing.T) {
	for _, c := range []struct {
		text, reason string
		column       int
	}{
		{`SELECT * FROM c JOIN d IN c.list`, "JOIN is not supported", 17},
		{`SELECT * FROM c GROUP BY c.x`, "GROUP BY is not supported", 17},
		{`SELECT DISTINCT c.x FROM c`, "DISTINCT is not supported", 8},
		{`SELECT * FROM c WHERE c.x LIKE 'a%'`, "LIKE is not supported", 27},
		{`SELECT * FROM c WHERE c.x + 1 = 2`, "the operator + is not supported", 27},
		{`SELECT * FROM c WHERE UPPER(c.x) = 'A'`, "the function UPPER is not supported", 23},
		{`SELECT * FROM c WHERE d.x = 1`, "the name d stands for nothing", 23},
		{`SELECT c.x FROM c WHERE`, "the query ends too early", 24},
		{`SELECT c.value FROM c`, `syntax error near "value"`, 10},
		{`SELECT * FROM c ORDER BY c.a, c.b`, "ORDER BY more than one property", 31},
		{`SELECT * FROM c WHERE COUNT(1) > 2`, "the aggregate COUNT", 23},
		{`SELECT c.id, COUNT(1) FROM c`, "aggregates beside other columns", 8},
		{`SELECT * FROM c WHERE c.x = ?`, "the operator ? is not supported", 29},
		{`SELECT * FROM c WHERE c.x = #`, "invalid input", 29},
		{`SELECT VALUE { "a": c.x } FROM c`, "an object literal is not supported", 14},
		{`SELECT TOP 1 * FROM c OFFSET 1 LIMIT 2`, "TOP and LIMIT exclude each other", 38},
		{`DELETE FROM c`, `syntax error near "DELETE"`, 1},
		{`SELECT 1`, "a query without FROM", 0},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, err := sql.Parse(c.text)
			var e *sql.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Error(), c.reason)
			require.Equal(t, c.column, e.Column, e.Error())
		})
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	deep := "SELECT * FROM c WHERE "
	for range 100_000 {
		deep += "("
	}
	_, err := sql.Parse(deep)
	require.ErrorContains(t, err, "nested")
	_, err = sql.Parse(`SELECT * FROM c WHERE c.x = "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("`)
	require.NoError(t, err)
}

func TestAlternatives(t *testing.T) {
	for _, c := range []struct {
		where string
		want  string
	}{
		{`c.a = 1 AND c.b = 2`, `a=1&b=2`},
		{`1 <= c.a AND STARTSWITH(c.b, 'x')`, `a>=1&bprefix"x"`},
		{`c.a IN (1, 2) AND c.b = 3`, `a=1&b=3|a=2&b=3`},
		{`(c.a = 1 AND c.b = 2) OR (c.a = 3 AND c.b = 4)`, `a=1&b=2|a=3&b=4`},
		{`c.a = 1 OR CONTAINS(c.b, 'x')`, `a=1|`},
		{`NOT c.a = 1`, ``},
		{`c.a = c.b`, ``},
		{`c.a BETWEEN 1 AND 2`, `a>=1&a<=2`},
		{`IS_NULL(c.a)`, `a=null`},
		{`c.a IN (1,2,3) AND c.b IN (1,2,3) AND c.c = 1`, `a=1&c=1|a=2&c=1|a=3&c=1`},
	} {
		t.Run(c.where, func(t *testing.T) {
			q, err := sql.Parse("SELECT * FROM c WHERE " + c.where)
			require.NoError(t, err)
			b, err := q.Bind(nil)
			require.NoError(t, err)
			got := ""
			for i, alternative := range b.Alternatives(4) {
				if i > 0 {
					got += "|"
				}
				for j, x := range alternative {
					if j > 0 {
						got += "&"
					}
					got += q.Paths()[x.Path][0].Name + string(x.Op) + string(x.Value.Append(nil))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// FuzzParse holds that the parser neither panics nor hangs, that its errors are *sql.Error, and that
// what it accepts can be evaluated.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`SELECT * FROM c`, `SELECT TOP 1 c.id, c["from"] FROM c WHERE c.a=@s AND c.id >= @lo ORDER BY c.id DESC`,
		`SELECT VALUE COUNT(1) FROM c WHERE NOT (c.x IN (1,'b',null) OR c.y BETWEEN -1 AND 2e3)`,
		`SELECT * FROM c OFFSET 1 LIMIT 2`, `SELECT c.a[0].b.c AS x FROM root c WHERE STARTSWITH(c.a, "\u00e9")`, `SELECT '\`, `(((`,
	} {
		f.Add(seed)
	}
	doc := fastjson.MustParse(`{"id":"x","a":[{"b":{"c":1}}],"x":1,"y":"s"}`)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := sql.Parse(text)
		if err != nil {
			var e *sql.Error
			require.ErrorAs(t, err, &e)
			return
		}
		params := map[string]sql.Value{"@s": sql.NumberValue(1), "@lo": sql.StringValue([]byte("a"))}
		b, err := q.Bind(params)
		if err != nil {
			return
		}
		b.Alternatives(8)
		r := row{doc, q.Paths()}
		for _, c := range b.Conditions() {
			c.True(r)
		}
		switch {
		case q.Star:
		case q.Aggregate:
			totals := b.Totals()
			totals.Add(r)
			totals.Append(nil)
		default:
			if j, ok := b.Project(nil, r); ok {
				require.NoError(t, fastjson.ValidateBytes(j), "%s", j)
			}
		}
	})
}
