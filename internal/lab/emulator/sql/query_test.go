package sql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/sql"
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
	all := b.Collector(true)
	plain := []string{}
	for _, d := range docs {
		r := row{fastjson.MustParse(d), q.Paths()}
		match := true
		for _, c := range b.Conditions() {
			match = match && c.True(r)
		}
		if !match {
			continue
		}
		require.NoError(t, all.Add(r))
		switch {
		case q.Star:
			plain = append(plain, d)
		case q.Iterates() && !q.Collected():
			b.Each(r, func(j []byte) bool { plain = append(plain, string(j)); return true })
		case !q.Collected():
			if j, ok := b.Project(nil, r); ok {
				plain = append(plain, string(j))
			}
		}
	}
	out := []string{}
	for _, j := range all.Rows() {
		out = append(out, string(j))
	}
	if !q.Collected() && len(q.Order) == 0 && !q.Limited && !q.Star {
		require.Equal(t, plain, out, "one by one")
	}
	return out
}

func TestWhere(t *testing.T) {
	const doc = `{"id":"x","n":5,"s":"abc","b":true,"z":null,"from":10,"a":[1,{"k":2}],"o":{"p":{"q":7}}}`
	for _, c := range []struct {
		where string
		want  bool
	}{
		{`NOT c.n = 4 AND c.n = 5`, true}, {`c.n = 5 OR c.n = 4 AND false`, true}, {`NOT false = false OR true`, true},
		{`1 < 2 = true`, true}, {`10 - 3 - 2 = 5 AND 8 / 4 / 2 = 1`, true},
		{`c.n IN (4, 5) = true`, true}, {`c.n BETWEEN 1 AND 9 AND c.b`, true}, {`NOT c.n BETWEEN 1 AND 2 AND c.b`, true},
		{`c.s LIKE @any`, false}, {`- c.n + 5 = 0`, true}, {`c.n - -5 = 10`, true},
		{`c.n + 1 = 6`, true}, {`2 + 3 * 2 - 1 = c.n + 2`, true}, {`c.n % 2 = 1 AND 7 / 2 = 3.5`, true}, {`-c.n < 0`, true},
		{`c.n / 0 = 1`, false},
		{`IS_DEFINED(c.n / 0)`, false}, {`IS_DEFINED(c.s + 1)`, false},
		{`c.s LIKE 'a!%' OR c.s LIKE 'a!%' ESCAPE '!'`, false}, {`c.s LIKE 'b%' OR c.s LIKE 'a%'`, true}, {`c.s LIKE 'a%'`, true}, {`c.s LIKE 'A%'`, false}, {`c.s LIKE '_b_'`, true}, {`c.s LIKE '[a-c]%[^d-z]'`, true},
		{`c.s NOT LIKE '%b%'`, false}, {`c.s LIKE 'a!%' ESCAPE '!'`, false}, {`c.n LIKE '5'`, false},
		{`'a%' LIKE 'a!%' ESCAPE '!'`, true}, {`'a.c' LIKE 'a[.]c' AND c.s NOT LIKE 'a[.]c'`, true},
		{`'[a' LIKE '[a' AND '^' LIKE '[]^]' AND ']' LIKE '[]^]'`, true}, {`'b\\n' LIKE 'b[\\\\]n'`, true}, {`'x' LIKE '[z-a]'`, false},
		{`'a\nb' LIKE 'a%b'`, true}, {`'-' LIKE '[a-]' AND 'é' LIKE '_'`, true}, {`c.s LIKE c.s`, true}, {`c.s LIKE ''`, false},
		{`LOWER('ABC') = c.s AND UPPER(c.s) = 'ABC' AND LENGTH(c.s) = 3 AND POWER(2, 3) = 8`, true}, {`ARRAY_LENGTH(c.a) = 2`, true},
		{`FULLTEXTCONTAINS('A quick-fox', 'Quick fox')`, true}, {`FullTextContains('A quickfox', 'quick')`, false},
		{`FULLTEXTCONTAINS('a quick fox', 'a fox')`, false}, {`FULLTEXTCONTAINS('a', '-')`, false},
		{`ARRAY_CONTAINS(c.a, {"k": 2}, true)`, true}, {`ARRAY_CONTAINS([1, 2, c.n], 5)`, true},
		{`c.o = {"p": {"q": 7}}`, true}, {`{"a": [1, c.n]}.a[1] = 5`, true},
		{`c.n IN (c.missing, 5)`, true}, {`NOT (c.n IN (c.missing, 4))`, false}, {`c.n NOT BETWEEN 6 AND 'x'`, true},
		{`c.n BETWEEN 2 + 2 AND 3 * 2`, true}, {`c.s = 'x' -- it's (`, false},
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
		{`STARTSWITH(c.s, 'ab')`, true}, {`STARTSWITH(c.s, 'AB')`, false}, {`STARTSWITH(c.s, 'AB', true)`, true},
		{`STARTSWITH(c.n, '5')`, false},
		{`CONTAINS(c.s, 'bc')`, true}, {`ENDSWITH(c.s, 'bc')`, true}, {`ARRAY_CONTAINS(c.a, 1)`, true},
		{`ARRAY_CONTAINS(c.a, 2)`, false},
		{`c.a[0] = 1`, true}, {`c.a[1].k = 2`, true}, {`c.a[7] = 1`, false}, {`c.o.p.q = 7`, true}, {`c.o = c.o`, true},
		{`c.a = c.o`, false},
		{`(c.n = 4 OR c.n = 5) AND c.b`, true}, {`c.n = 4 OR c.n = 5 AND c.b = false`, false}, {`c.n = -5`, false},
		{`c.n > -5`, true},
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
		{`SELECT VALUE {"a": c.id, b: [c["from"], c.missing, -c["from"]], 'n': c.n} FROM c`,
			`{"a":"x","b":[1,-1],"n":9007199254740993}`},
		{`SELECT {"a": 1} AS o, UPPER(c.id) FROM c`, `{"o":{"a":1},"$1":"X"}`},
		{`SELECT c FROM c`, `{"c":` + doc + `}`},
		{`SELECT * FROM c.o`, `{"k y":[1,"t"]}`},
		{`SELECT o["k y"][0] AS n FROM c.o`, `{"n":1}`},
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

func TestIteration(t *testing.T) {
	docs := []string{`{"id":"a","l":[{"k":1,"m":["x","y"]},{"k":2}]}`, `{"id":"b","l":[]}`, `{"id":"c"}`,
		`{"id":"d","l":[{"k":1,"m":["x"]}]}`}
	for _, c := range []struct {
		text string
		want []string
	}{
		{`SELECT c.id, l.k FROM c JOIN l IN c.l`, []string{`{"id":"a","k":1}`, `{"id":"a","k":2}`, `{"id":"d","k":1}`}},
		{`SELECT VALUE m FROM c JOIN l IN c.l JOIN m IN l.m WHERE l.k = 1 AND c.id < "d"`, []string{`"x"`, `"y"`}},
		{`SELECT * FROM l IN c.l WHERE l.k > 1`, []string{`{"k":2}`}},
		{`SELECT VALUE COUNT(1) FROM l IN c.l`, []string{`3`}},
		{`SELECT VALUE l.m[0] FROM l IN c.l`, []string{`"x"`, `"x"`}},
		{`SELECT DISTINCT VALUE l.k FROM l IN c.l`, []string{`1`, `2`}},
		{`SELECT l.k, COUNT(1) AS n FROM l IN c.l GROUP BY l.k`, []string{`{"k":1,"n":2}`, `{"k":2,"n":1}`}},
		{`SELECT c.id, COUNT(1) AS n FROM c WHERE EXISTS(SELECT VALUE l FROM l IN c.l WHERE l.k = 2) GROUP BY c.id`,
			[]string{`{"id":"a","n":1}`}},
		{`SELECT c.id, l.k FROM c JOIN l IN c.l ORDER BY c.id DESC OFFSET 1 LIMIT 1`, []string{`{"id":"a","k":1}`}},
	} {
		t.Run(c.text, func(t *testing.T) {
			require.Equal(t, c.want, rows(t, c.text, nil, docs...))
		})
	}
}

func TestGroupsAndDistinct(t *testing.T) {
	docs := []string{`{"g":"a","v":1}`, `{"g":"b","v":2}`, `{"g":"a","v":3}`, `{"v":4}`, `{"g":1.0,"v":5}`,
		`{"g":1,"v":5}`}
	for _, c := range []struct {
		text string
		want []string
	}{
		{`SELECT c.g, SUM(c.v) AS s, COUNT(1) AS n FROM c GROUP BY c.g`,
			[]string{`{"g":"a","s":4,"n":2}`, `{"g":"b","s":2,"n":1}`, `{"s":4,"n":1}`, `{"g":1,"s":10,"n":2}`}},
		{`SELECT c.g FROM c GROUP BY c.g OFFSET 1 LIMIT 2`, []string{`{"g":"b"}`, `{}`}},
		{`SELECT VALUE MAX(c.v) - MIN(c.v) FROM c WHERE IS_STRING(c.g) GROUP BY c.g`, []string{`2`, `0`}},
		{`SELECT c.v % 2 AS odd, COUNT(1) AS n FROM c GROUP BY c.v % 2`, []string{`{"odd":1,"n":4}`, `{"odd":0,"n":2}`}},
		{`SELECT DISTINCT c.g FROM c`, []string{`{"g":"a"}`, `{"g":"b"}`, `{}`, `{"g":1}`}},
		{`SELECT DISTINCT VALUE c.g FROM c ORDER BY c.g DESC`, []string{`"b"`, `"a"`, `1`}},
		{`SELECT DISTINCT TOP 1 VALUE c.g FROM c`, []string{`"a"`}},
		{`SELECT c.g FROM c ORDER BY c.g, c.v DESC`,
			[]string{`{}`, `{"g":1}`, `{"g":1}`, `{"g":"a"}`, `{"g":"a"}`, `{"g":"b"}`}},
		{`SELECT VALUE {"n": COUNT(1), "what": "all"} FROM c`, []string{`{"n":6,"what":"all"}`}},
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

	q, err = sql.Parse(`SELECT @p AS v, IS_DEFINED(@p) AS d`)
	require.NoError(t, err)
	b, err = q.Bind(nil)
	require.NoError(t, err)
	row, ok := b.Project(nil, nil)
	require.True(t, ok)
	require.Equal(t, `{"d":false}`, string(row), "a parameter without a value is undefined")

	q, err = sql.Parse(`SELECT TOP @n * FROM c WHERE c.d = @d`)
	require.NoError(t, err)
	params["@n"] = sql.NumberValue(-1)
	_, err = q.Bind(params)
	require.ErrorContains(t, err, "TOP")
}

func TestErrorsNameThePlaceAndTheConstruct(t *testing.T) {
	for _, c := range []struct {
		text, reason string
		column       int
	}{
		{`SELECT * FROM c JOIN c.list`, "JOIN without IN", 22},
		{`SELECT * FROM c JOIN d IN c.list`, "SELECT * over more than one source", 1},
		{`SELECT d FROM c JOIN d IN c.list JOIN d IN c.other`, "two sources are named d", 39},
		{`SELECT c.x FROM c JOIN (SELECT VALUE 1)`, "a subquery with more than SELECT VALUE", 24},
		{`SELECT c.x FROM c JOIN (SELECT VALUE t FROM t IN c.l) c`, "two sources are named c", 24},
		{`SELECT c.x FROM c JOIN x IN (SELECT VALUE t FROM t IN c.l)`, "JOIN of the elements of a subquery", 24},
		{`SELECT c.x FROM c JOIN (SELECT t, t FROM t IN c.l)`, "two columns are named t", 35},
		{`SELECT c.x FROM (SELECT VALUE 1)`, "a subquery is not supported", 17},
		{`SELECT c.x FROM c JOIN x IN (`, "the query ends too early", 30},
		{`SELECT c.y FROM c GROUP BY c.x`, "neither in GROUP BY", 8},
		{`SELECT * FROM c GROUP BY c.x`, "neither in GROUP BY", 1},
		{`SELECT c.x FROM c GROUP BY c.x HAVING c.x > 1`, "HAVING is not supported", 32},
		{`SELECT * FROM c WHERE EXISTS(SELECT VALUE 1)`, "a subquery with more than SELECT VALUE", 23},
		{`SELECT * FROM c WHERE (SELECT VALUE 1) = 1`, "a subquery with more than SELECT VALUE", 23},
		{`SELECT (SELECT 1 FROM x IN c.l) FROM c`, "a subquery without VALUE", 8},
		{`SELECT udf.f(c.x) FROM c`, "a user-defined function is not supported", 8},
		{`SELECT * FROM c WHERE c.x & 1 = 2`, "the operator & is not supported", 27},
		{`SELECT * FROM c WHERE c.x LIKE 'a' ESCAPE 'xx'`, "ESCAPE takes one character", 43},
		{`SELECT * FROM c WHERE c.x = 'a' ESCAPE 'x'`, "ESCAPE without LIKE", 40},
		{`SELECT * FROM c WHERE c.x BETWEEN 1 OR 2`, "BETWEEN without AND", 35},
		{`SELECT * FROM c WHERE c.x NOT = 2`, "syntax error near", 31},
		{`SELECT * FROM c WHERE REGEXMATCH(c.x, 'A')`, "the function REGEXMATCH is not supported", 23},
		{`SELECT * FROM c WHERE LOWER(c.x, 1) = 'A'`, "LOWER takes 1 argument", 23},
		{`SELECT * FROM c WHERE d.x = 1`, "the name d stands for nothing", 23},
		{`SELECT c.x FROM c WHERE`, "the query ends too early", 24},
		{`SELECT c.value FROM c`, `syntax error near "value"`, 10},
		{`SELECT * FROM c WHERE COUNT(1) > 2`, "the aggregate COUNT", 23},
		{`SELECT SUM(MAX(c.x)) FROM c`, "the aggregate MAX inside another", 12},
		{`SELECT c.id, COUNT(1) FROM c`, "neither in GROUP BY nor in an aggregate", 8},
		{`SELECT * FROM c WHERE c.x = ?`, "the operator ? is not supported", 29},
		{`SELECT c.x ?? 1 FROM c`, "the operator ?? is not supported", 12},
		{`SELECT c.x || 'a' FROM c`, "the operator || is not supported", 12},
		{`SELECT * FROM c WHERE FullTextContainsAny(c.x, 'a')`, "the function FullTextContainsAny is not supported", 23},
		{`SELECT LEFT(c.x, 1) FROM c`, "the function LEFT is not supported", 8},
		{`SELECT * FROM c WHERE c.x = #`, "invalid input", 29},
		{`SELECT c.x, c["x"] FROM c`, "two columns are named x", 13},
		{`SELECT VALUE { "a": c.x, "a": 1 } FROM c`, "two properties are named a", 26},
		{`SELECT TOP 1 * FROM c OFFSET 1 LIMIT 2`, "TOP and LIMIT exclude each other", 38},
		{`DELETE FROM c`, `syntax error near "DELETE"`, 1},
		{`SELECT COUNT(1)`, "SELECT without FROM", 1}, {`SELECT *`, "without FROM", 1},
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

// What only a client can merge has a plan, and is not evaluated.
func TestWhatIsOnlyPlanned(t *testing.T) {
	for text, reason := range map[string]string{
		`SELECT c.x FROM c GROUP BY c.x ORDER BY c.x`: "ORDER BY together with GROUP BY",
		`SELECT * FROM c ORDER BY c.a + 1`:            "ORDER BY anything but a property",
		`SELECT x FROM x IN c.list ORDER BY x.a`:      "ORDER BY anything but a property",
	} {
		q, err := sql.Parse(text)
		require.NoError(t, err)
		b, err := q.Bind(nil)
		require.NoError(t, err)
		require.ErrorContains(t, b.Unserved(), reason)
		require.NotEmpty(t, b.Plan(false).Text())
	}
}

// A subquery is over arrays of the item, and may count, pick or ask whether there is something.
func TestSubqueries(t *testing.T) {
	const doc = `{"id":"x","l":[{"k":1},{"k":2},{"k":3}],"n":2}`
	for expr, want := range map[string]string{
		`(SELECT VALUE COUNT(1) FROM t IN c.l)`:                     `3`,
		`(SELECT VALUE COUNT(1) FROM t IN c.l WHERE t.k >= c.n)`:    `2`,
		`(SELECT VALUE SUM(t.k) + 1 FROM t IN c.l)`:                 `7`,
		`ARRAY(SELECT VALUE t.k FROM t IN c.l WHERE t.k != c.n)`:    `[1,3]`,
		`EXISTS(SELECT VALUE t FROM t IN c.l WHERE t.k = 3)`:        `true`,
		`EXISTS(SELECT VALUE t FROM t IN c.l WHERE t.k = 4)`:        `false`,
		`(SELECT VALUE t.k FROM t IN c.l WHERE t.k = 2)`:            `2`,
		`(SELECT VALUE COUNT(1) FROM t IN c.none)`:                  `0`,
		`ARRAY(SELECT VALUE t.k * u.k FROM t IN c.l JOIN u IN c.l)`: `[1,2,3,2,4,6,3,6,9]`,
		`c[@p]`:     `2`,
		`c.l[@i].k`: `3`,
		`c.l[@p]`:   ``,
	} {
		q, err := sql.Parse("SELECT VALUE " + expr + " FROM c")
		require.NoError(t, err, expr)
		b, err := q.Bind(map[string]sql.Value{"@p": sql.StringValue([]byte("n")), "@i": sql.NumberValue(2)})
		require.NoError(t, err)
		got, _ := b.Project(nil, row{fastjson.MustParse(doc), q.Paths()})
		require.Equal(t, want, string(got), expr)
	}
}

// JOIN of a subquery goes through its rows, for each row of the sources before.
func TestJoinedSubqueries(t *testing.T) {
	docs := []string{`{"id":"x","l":[{"k":1},{"k":2},{"k":3}],"n":2,"m":[7,8]}`, `{"id":"y","l":[{"k":2}],"n":1}`,
		`{"id":"z"}`}
	for text, want := range map[string][]string{
		`SELECT c.id, t FROM c JOIN (SELECT VALUE t.k FROM t IN c.l WHERE t.k >= 2) AS t`: {
			`{"id":"x","t":2}`, `{"id":"x","t":3}`, `{"id":"y","t":2}`},
		`SELECT VALUE t.k FROM c JOIN (SELECT VALUE u FROM u IN c.l WHERE u.k >= c.n) t WHERE t.k != 3`:        {`2`, `2`},
		`SELECT VALUE COUNT(1) FROM c JOIN (SELECT VALUE t FROM t IN c.l) JOIN (SELECT VALUE m FROM m IN c.m)`: {`6`},
		`SELECT c.id, s.n, s.most FROM c JOIN (SELECT COUNT(1) AS n, MAX(t.k) AS most FROM t IN c.l) AS s`: {
			`{"id":"x","n":3,"most":3}`, `{"id":"y","n":1,"most":2}`, `{"id":"z","n":0}`},
		`SELECT VALUE mean FROM c JOIN (SELECT VALUE AVG(t.k) FROM t IN c.l) mean WHERE mean >= 2`: {`2`, `2`},
		`SELECT VALUE v FROM c JOIN t IN c.l JOIN (SELECT VALUE u.k + t.k FROM u IN c.l WHERE u.k < t.k) AS v`: {
			`3`, `4`, `5`},
		`SELECT VALUE r FROM c JOIN (SELECT t.k, c.id FROM t IN c.l WHERE t.k = 2) AS r`: {
			`{"k":2,"id":"x"}`, `{"k":2,"id":"y"}`},
		`SELECT VALUE COUNT(1) FROM c JOIN (SELECT VALUE t FROM t IN c.l) AS t WHERE t.k > 1`: {`3`},
		`SELECT VALUE ARRAY(SELECT t.k FROM t IN c.l) FROM c WHERE c.id = "y"`:                {`[{"k":2}]`},
	} {
		require.Equal(t, want, rows(t, text, nil, docs...), text)
	}
}

// Plans in the form in which the service was recorded to give them.
func TestPlans(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT c.id, c.k FROM c WHERE c.k > 1`: ``,
		`SELECT TOP 5 c.id FROM c`:              ``,
		`SELECT DISTINCT c.k FROM c`:            ``,
		`SELECT DISTINCT TOP 3 c.k FROM c`:      "SELECT DISTINCT c.k\nFROM c",
		`SELECT VALUE COUNT(1) FROM c`:          "SELECT VALUE [{\"item\": COUNT(1)}]\nFROM c",
		`SELECT * FROM c WHERE c.a = @a ORDER BY c.b DESC`: "SELECT c._rid, [{\"item\": c.b}] AS orderByItems, c AS payload\n" +
			"FROM c\nWHERE ((c.a = @a) AND ({documentdb-formattableorderbyquery-filter}))\nORDER BY c.b DESC",
		`SELECT c.id FROM c ORDER BY c.id OFFSET @o LIMIT @l`: "SELECT c._rid, [{\"item\": c.id}] AS orderByItems, " +
			"{\"id\": c.id} AS payload\nFROM c\nWHERE ({documentdb-formattableorderbyquery-filter})\nORDER BY c.id\n" +
			"OFFSET 0 LIMIT 7",
		"select TOP 2 value\t{'a':[c.x ,-1,c . y-1] }\nfrom  c join t in c.l -- all\n" +
			"where not(c.a in(1,TRUE) and t like 'x  y') order by c[ 'b' ] asc": "SELECT TOP 2 c._rid, " +
			"[{\"item\": c['b']}] AS orderByItems, {'a': [c.x, -1, c.y - 1]} AS payload\nFROM c JOIN t IN c.l\n" +
			"WHERE ((NOT (c.a IN (1, true) AND t LIKE 'x  y')) AND ({documentdb-formattableorderbyquery-filter}))\n" +
			"ORDER BY c['b']",
		`SELECT VALUE COUNT(1) FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.l WHERE x.k >-@p) AND c.s<UPPER('a')`: "" +
			"SELECT VALUE [{\"item\": COUNT(1)}]\nFROM c\n" +
			"WHERE EXISTS(SELECT VALUE x FROM x IN c.l WHERE x.k > -@p) AND c.s < UPPER('a')",
		`SELECT c.g, MAX(c.x) AS m FROM c GROUP BY c.g`: "SELECT [{\"item\": c.g}] AS groupByItems, " +
			"{\"g\": c.g, \"m\": {\"item\": MAX(c.x)}} AS payload\nFROM c\nGROUP BY c.g",
	} {
		q, err := sql.Parse(text)
		require.NoError(t, err, text)
		b, err := q.Bind(map[string]sql.Value{"@o": sql.NumberValue(3), "@l": sql.NumberValue(4)})
		require.NoError(t, err)
		require.Equal(t, want, b.Plan(false).Info.Rewritten, text)
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	_, err := sql.Parse("SELECT * FROM c WHERE " + strings.Repeat("(", 100_000))
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
		`SELECT DISTINCT TOP 3 VALUE {"a": c.x + 1 * -2, b: [c.y, 'a']} FROM c WHERE c.y LIKE '%[a-z]!_' ESCAPE '!' OR NOT c.b`,
		`SELECT c.y, COUNT(1) AS n, AVG(a.b.c) FROM c JOIN a IN c.a WHERE a.b.c < 3 GROUP BY c.y OFFSET 0 LIMIT 9`,
		`SELECT * FROM x IN c.a`, `SELECT VALUE POWER(LENGTH(UPPER(c.y)), 2) FROM c.b`,
		`SELECT * FROM c ORDER BY c.x, c["y"] DESC`, `SELECT VALUE ARRAY_CONTAINS(c.a, {"b": 1}, true) FROM c -- it's`,
		`SELECT (((1 + 2) * 3) % 4)[0]["x"] FROM c`,
		`SELECT * FROM c OFFSET 1 LIMIT 2`, `SELECT c.a[0].b.c AS x FROM root c WHERE STARTSWITH(c.a, "\u00e9")`,
		`SELECT '\`, `(((`,
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
		case q.Collected(), q.Iterates():
			all := b.Collector(true)
			require.NoError(t, all.Add(r))
			for _, j := range all.Rows() {
				require.NoError(t, fastjson.ValidateBytes(j), "%s", j)
			}
		default:
			if j, ok := b.Project(nil, r); ok {
				require.NoError(t, fastjson.ValidateBytes(j), "%s", j)
			}
		}
	})
}
