package prom_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"binnacle/internal/tenant/access"

	"github.com/stretchr/testify/require"
)

// What a parser would recurse into without a bound is refused before it is parsed, wherever text is taken.
func TestTextsAreBounded(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	around := func(n int, open, inner, shut string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	for _, c := range []struct{ name, text, says string }{
		{"brackets", around(201, "(", "temp", ")"), "nest deeper than 200 levels at byte 200"},
		{"calls", around(100_000/3, "abs(", "temp", ")"), "nest deeper than 200 levels"},
		{"signs", strings.Repeat("-", 201) + "temp", "nest deeper than 200 levels at byte 200"},
		{"signs with comments", strings.Repeat("- # (\n", 201) + "temp", "nest deeper than 200 levels"},
		{"both", around(150, "(", strings.Repeat("-", 51)+"temp", ")"), "nest deeper than 200 levels"},
		{"binary operators", "1" + strings.Repeat("+1", 501), "more than 500 operators"},
		{"set operators", "temp" + strings.Repeat(" or temp", 501), "more than 500 operators"},
		{"powers", "2" + strings.Repeat("^1", 501), "more than 500 operators"},
		{"subqueries", "temp" + strings.Repeat("[1m:1m]", 501), "more than 500 operators"},
		{"repeats", `temp{device=~"` + strings.Repeat("x{1000}", 2000) + `"}`, "at most 1048576 are allowed"},
		{"escaped repeats", `temp{device=~"` + strings.Repeat(`x\x7b1000}`, 2000) + `"}`, "at most 1048576 are allowed"},
		{"repeats within each other", `temp{device=~"((` + strings.Repeat("x", 1500) + `){30}){30}"}`, "instructions"},
		{"classes", `temp{device=~"` + strings.Repeat(`\\pL`, 9000) + `"}`, "instructions"},
		{"patterns", `temp{` + strings.Repeat(`a=~"x",`, 33_000) + `}`, "instructions"},
		{"text", `temp{device="` + strings.Repeat("x", 256<<10) + `"}`, "at most 262144 are allowed"},
	} {
		for path, name := range map[string]string{
			"query": "query", "query_range": "query", "format_query": "query",
			"series": "match[]", "labels": "match[]", "label/site/values": "match[]",
		} {
			r := s.do(t, http.MethodPost, "/api/v1/"+path, http.Header{access.TenantHeader: {"acme"}}, name, c.text)
			require.Equal(t, 400, r.status, "%s of %s", c.name, path)
			require.Equal(t, "bad_data", r.ErrorType)
			require.Contains(t, r.Error, fmt.Sprintf("invalid parameter %q: ", name))
			require.Contains(t, r.Error, c.says, "%s of %s", c.name, path)
		}
	}
	for name, text := range map[string]string{
		"brackets":         around(199, "(", `temp{note!=")))"}`, ")"), // and those of the braces
		"calls":            around(199, "abs(", "vector(1)", ")"),
		"signs":            strings.Repeat("-", 200) + "1",
		"operators":        "temp" + strings.Repeat(" or temp", 500),
		"texts":            `temp{a!="` + strings.Repeat("(-+", 1000) + `"} # ` + strings.Repeat("((", 1000),
		"a list":           `temp{device=~"` + strings.Repeat("device-000|", 10_000) + `m1"}`,
		"matchers":         "temp{" + strings.Repeat(`site!="x",`, 1000) + "}",
		"patterns":         `temp{device=~"[a-z]{1,20}-[0-9]{4}|m[0-9]{1}|\\pL{3}|` + strings.Repeat("x", 500) + `"}`,
		"nested operators": around(198, "(1 + ", "max(temp)", ")"),
	} {
		r := s.do(t, http.MethodPost, "/api/v1/query", http.Header{access.TenantHeader: {"acme"}}, "query", text)
		require.Equal(t, 200, r.status, "%s: %s", name, r.Error)
	}
	r := s.ask(t, "/api/v1/format_query", "query", strings.Repeat("x", 10<<10)+"y")
	require.Equal(t, 400, r.status)
	require.Contains(t, r.Error, "at most 10240 are formatted")
}

// Labels that a query makes count in its memory.
func TestMadeLabelsCountAsMemory(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	long := `label_replace(vector(1), "a", "0123456789", "", "")`
	for range 4 {
		long = fmt.Sprintf(`label_join(%s, "a", ""%s)`, long, strings.Repeat(`, "a"`, 32))
	}
	for i := range 150 {
		long = fmt.Sprintf(`label_join(%s, "b%d", "", "a")`, long, i)
	}
	doubled := "temp"
	for range 40 {
		doubled = fmt.Sprintf(`label_replace(%s, "site", "$1$1", "site", "(.*)")`, doubled)
	}
	for _, c := range []struct {
		query  string
		status int
		says   string
	}{
		{"count(" + long + ")", 422, "memory"},
		{"count(" + doubled + ")", 422, "memory"},
		{`count(label_join(temp, "a", "` + strings.Repeat("x", 9000) + `"` + strings.Repeat(`, "site"`, 20_000) + "))", 422, "memory"},
		{`count(label_replace(absent({none="` + strings.Repeat("x", 9000) + `"}), "a", "` + strings.Repeat("$1", 40_000) +
			`", "none", "(.*)"))`, 422, "memory"},
		{`label_join(count_values("v", temp), "w", "", "v"` + strings.Repeat(`, "v"`, 40) + ")", 200, ""},
		{`count(label_replace(count_values("v", temp), "w", "value $1", "v", "(.*)"))`, 200, ""},
		{`count(label_join(label_replace(temp, "a", "$1-$1", "device", "(.*)"), "b", "/", "a", "site", "device"))`, 200, ""},
	} {
		r := s.do(t, http.MethodPost, "/api/v1/query", http.Header{access.TenantHeader: {"acme"}}, "query", c.query)
		require.Equal(t, c.status, r.status, "%.200s: %s", c.query, r.Error)
		require.Contains(t, r.Error, c.says, "%.200s", c.query)
	}
}
