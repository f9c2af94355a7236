package prom_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"

	"github.com/stretchr/testify/require"
)

// withMemory has a query hold so many bytes at most.
func withMemory(n int64) func(*query.Config, *prom.Config) {
	return func(q *query.Config, p *prom.Config) {
		p.MemoryBytes, q.MemoryBytes, q.TotalMemoryBytes = n, 64<<20, 64<<20
	}
}

// post asks as a form does.
func post(t *testing.T, s server, path string, parameters ...string) response {
	t.Helper()
	return s.do(t, http.MethodPost, path, http.Header{access.TenantHeader: {"acme"}}, parameters...)
}

// Whatever makes labels or series, what the engine may hold counts before it does.
func TestEngineMemoryIsBounded(t *testing.T) {
	s := newServer(t, withMemory(16<<20))
	s.fill(t)
	long := strings.Repeat("n", 50_000)
	s.world.Chunk(record(9, "m9", noon.Add(-time.Minute), telemetry.Labels{{Name: "a", Value: long}}, float("long", 1)))
	values := "vector(time())"
	for i := range 4 {
		values += fmt.Sprintf(` or label_replace(vector(time() + %d.5), "x", "%d", "", "")`, i*100_000, i)
	}
	many := "vector(1)"
	for i := range 120 {
		many += fmt.Sprintf(` or label_replace(vector(1), "x", "%d", "", "")`, i)
	}
	longLabel := fmt.Sprintf(`label_replace(vector(1), "a", "%s", "", "")`, long)
	nested := longLabel
	for range 12 {
		nested = fmt.Sprintf(`label_join(%s, "a", "", "a", "a")`, nested)
	}
	nest := strings.Repeat("("+many+") * on(x) group_left() (", 3)
	for name, text := range map[string]string{
		"name of count_values":         fmt.Sprintf(`count_values("%s", vector(time()))`, long),
		"label of group_left":          `count_values("v", vector(time())) * on() group_left(a) ` + longLabel,
		"stored label of group_left":   `count_values("v", vector(time())) * on() group_left(a) last_over_time(long[1h])`,
		"stored label of group_right":  `last_over_time(long[1h]) * on() group_right(a) count_values("v", vector(time()))`,
		"label of absent":              fmt.Sprintf(`count_values("v", vector(time())) * on() group_left(a) absent(nothing{a="%s"})`, long),
		"label of absent_over_time":    fmt.Sprintf(`count_values("v", vector(time())) * on() group_left(a) absent_over_time(nothing{a="%s"}[5m])`, long),
		"values":                       `count_values("v", ` + values + `)`,
		"values under label_replace":   `label_replace(count_values("v", ` + values + `), "w", "$1$1", "v", "(.*)")`,
		"values in a subquery":         `max_over_time(count_values("v", vector(time()))[1h:1s])`,
		"values in nested subqueries":  `max_over_time(max_over_time(count_values("v", vector(time()))[10m:1s])[10m:1s])`,
		"joins":                        nested,
		"sparse":                       nest + many + strings.Repeat(")", 3),
		"warnings":                     fmt.Sprintf(`histogram_quantile(0.5, label_replace(count_values("v", %s), "le", "%s$1", "v", "(.*)"))`, values, long[:5000]),
		"a step of a millisecond":      `max_over_time(vector(1)[1y:1ms])`,
		"a step without a function":    `sum_over_time((vector(1) + 1)[30y:1ms])`,
		"a fixed one":                  `max_over_time(vector(1)[1y:1ms] @ end())`,
		"labels of histogram_quantile": fmt.Sprintf(`histogram_quantile(0.5, label_join(%s, "le", "", "a"))`, strings.Repeat("(", 3)+values+strings.Repeat(")", 3)) + ` or count_values("` + long + `", ` + values + `)`,
	} {
		for _, more := range [][]string{nil, {"stats", "all"}} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := post(t, s, "/api/v1/query_range", append([]string{"query", text, "start", strconv.Itoa(int(noon.Unix())),
				"end", strconv.Itoa(int(noon.Unix()) + 11_000), "step", "1"}, more...)...)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), name)
			require.Equal(t, 422, r.status, "%s: %.200s", name, r.Error)
			require.Contains(t, r.Error, "16 MiB of memory that a PromQL query may use (--promql-memory-mb)", name)
		}
	}
}

// What the engine would compute for minutes, without a look at the time, is refused.
func TestEngineWorkIsBounded(t *testing.T) {
	s := newServer(t, nil)
	s.fill(t)
	for text, status := range map[string]int{
		"max_over_time(max_over_time(vector(1)[1d:100ms])[1d:100ms])": 422,
		"sum(quantile_over_time(0.5, (temp + 1)[1d:100ms]))":          200,
	} {
		r := post(t, s, "/api/v1/query", "query", text, "time", strconv.Itoa(int(noon.Unix())))
		require.Equal(t, status, r.status, "%s: %s", text, r.Error)
		if status == 422 {
			require.Contains(t, r.Error, "points for the steps of a series")
		}
	}
}
