package prom_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/query/prom"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

var (
	randomQueries = flag.Int("prom.queries", 250, "random queries with leaves of TestLeavesAreTheSameInAllBits")
	randomSeed    = flag.Uint64("prom.seed", 1, "their seed, 0 for a random one")
)

// engineOf is an engine as the API has it.
func engineOf() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 5_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true,
		EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
}

// describe is all that a query answers: labels, instants, all bits of the values, warnings, infos and errors. Some
// functions answer in no order.
func describe(ctx context.Context, begin func() (promql.Query, error), text string) string {
	q, err := begin()
	if err != nil {
		return "refused: " + err.Error()
	}
	defer q.Close()
	return described(q.Exec(ctx), text)
}

// described returns the result of a query as text, with every bit of its numbers.
func described(res *promql.Result, text string) string {
	var lines []string
	switch v := res.Value.(type) {
	case promql.Matrix:
		for _, s := range v {
			var b strings.Builder
			b.WriteString(s.Metric.String())
			for _, p := range s.Floats {
				fmt.Fprintf(&b, " %d:%x", p.T, math.Float64bits(p.F))
			}
			lines = append(lines, b.String())
		}
	case promql.Vector:
		for _, s := range v {
			lines = append(lines, fmt.Sprintf("%s %d:%x", s.Metric, s.T, math.Float64bits(s.F)))
		}
	case promql.Scalar:
		lines = append(lines, fmt.Sprintf("%d:%x", v.T, math.Float64bits(v.V)))
	}
	slices.Sort(lines)
	warnings, infos := res.Warnings.AsStrings(text, 0, 0)
	slices.Sort(warnings)
	slices.Sort(infos)
	return fmt.Sprintf("%s\nwarnings %q\ninfos %q\nerror %v", strings.Join(lines, "\n"), warnings, infos, res.Err)
}

// alike asks plainly and with leaves, and fails unless both answer the same. An engine may answer now so, now so:
// what binary operators give is in the order of a map, and so are sums over it and ties. That is changing.
func alike(ctx context.Context, t testing.TB, ask func(promql.QueryEngine) (promql.Query, error),
	plain, leaves promql.QueryEngine, text string) (answer string, changing bool) {
	begin := func() (promql.Query, error) { return ask(plain) }
	want := describe(ctx, begin, text)
	got := describe(ctx, func() (promql.Query, error) { return ask(leaves) }, text)
	if withoutRounding(want) == got {
		got = want
	}
	return want, differs(ctx, t, begin, text, want, got)
}

// withoutRounding is an answer without the warning of rounded integers. The engine also reads what lies behind the last
// step, and before the first one of a subquery, and warns of that.
func withoutRounding(answer string) string {
	const rounded = `"integers beyond 2^53 are rounded to the nearest float"`
	for _, s := range []string{" " + rounded, rounded + " ", rounded} {
		answer = strings.Replace(answer, s, "", 1)
	}
	return answer
}

// differs fails unless an engine that was asked plainly, and gave want, gives got too; or is changing.
func differs(ctx context.Context, t testing.TB, plain func() (promql.Query, error), text, want,
	got string) (changing bool) {
	for range 30 {
		if got == want {
			return false
		}
		if describe(ctx, plain, text) != want {
			return true
		}
	}
	require.Equal(t, want, got, text)
	return false
}

// What queries answer does not depend on whether leaves are computed apart: not in one bit.
func TestPushdownsEqualEngineBitForBit(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-prom.seed %d", seed)
	c := chance{rand.New(rand.NewPCG(seed, 0))}
	engine := engineOf()
	const each = 50
	queries, with, answers, failed, restless := 0, 0, 0, 0, 0
	for with < *randomQueries {
		s := newServer(t, nil)
		end := pick(c, noon, noon.Truncate(24*time.Hour).Add(40*time.Minute))
		c.readings(t, s, end)
		readings := prom.Over(s.query, "acme")
		leaves := prom.Pushdowns{QueryEngine: engine, Over: readings}
		for range each {
			text := c.expr(c.IntN(3))
			opts := promql.NewPrometheusQueryOpts(false, pick(c, 0, 0, 90*time.Second, 12*time.Minute))
			answer, changing := alike(t.Context(), t, c.ask(t.Context(), readings, opts, text, end), engine, leaves, text)
			queries++
			switch {
			case changing:
				restless++
			case leaves.Count() > 0:
				with++
			}
			if !strings.HasPrefix(answer, "\n") && !strings.HasPrefix(answer, "refused") {
				answers++
			}
			if !strings.HasSuffix(answer, "<nil>") {
				failed++
			}
		}
		s.Close()
	}
	t.Logf("%d queries, %d with leaves, %d with an answer, %d that fail, %d that the engine itself answers now "+
		"so, now so", queries, with, answers, failed, restless)
	require.Greater(t, answers, queries/3)
	require.Less(t, restless, queries/50)
}

// ask is a query about some time before an end, at an instant or at steps.
func (c chance) ask(ctx context.Context, s storage.Queryable, opts promql.QueryOpts, text string,
	end time.Time) func(promql.QueryEngine) (promql.Query, error) {
	at := end.Add(-c.between(0, 2*time.Hour))
	if c.IntN(2) == 0 {
		at = at.Truncate(time.Minute)
	}
	if c.IntN(5) == 0 {
		return func(e promql.QueryEngine) (promql.Query, error) { return e.NewInstantQuery(ctx, s, opts, text, at) }
	}
	step := pick(c, time.Minute, 5*time.Minute, 15*time.Minute, c.between(time.Millisecond, time.Second),
		c.between(time.Second, 20*time.Minute), 10*time.Second+500*time.Microsecond)
	until := at.Add(time.Duration(c.IntN(40)) * step).Add(c.between(0, time.Second))
	return func(e promql.QueryEngine) (promql.Query, error) {
		return e.NewRangeQuery(ctx, s, opts, text, at, until, step)
	}
}
