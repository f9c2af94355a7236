package main_test

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/charges"

	"github.com/stretchr/testify/require"
)

// What dev is charged is attributed to tenants or to nobody, to a tenth of a percent, once it has ended: by kind, with
// the queries of a dashboard. The bill comes as JSON and as FOCUS, and its tenants add up.
func TestCost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=0", "--hold=1s")
	want := table{}
	for i := range 40 {
		want[row{device: "truck-" + string(rune('a'+i%20)), ts: noon() - int64(i)*60_000}] = map[string]any{"v": float64(i)}
	}
	d.publishTable("acme", want)
	d.answers("acme", want, everything)
	d.stored("acme")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.api+
		"/prometheus/api/v1/query?query=count({__name__!=%22%22})", http.NoBody)
	require.NoError(t, err)
	r.Header = http.Header{"X-Scope-Orgid": {"acme"}, "X-Dashboard-Uid": {"fleet"}, "X-Panel-Id": {"7"}}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
	d.stop(syscall.SIGINT)
	require.Zero(t, d.wait(20*time.Second))

	e := start(t, "emulator", "--data-dir", dir+"/cosmos", "--cosmos=127.0.0.1:0")
	at := e.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	cost := func(args ...string) string {
		p := run(t, 20*time.Second, append([]string{"tenant", "cost", "--cosmos", at}, args...)...)
		require.Zero(t, p.code, p.stderr.String())
		return p.stdout.String()
	}
	var bill charges.Bill
	require.NoError(t, json.Unmarshal([]byte(cost("--json")), &bill))
	require.LessOrEqual(t, math.Abs(bill.Store.Unattributed), bill.Store.Charged/1000, "of %.2f RU", bill.Store.Charged)
	require.Len(t, bill.Tenants, 1)
	for _, kind := range []charges.Kind{charges.Chunks, charges.Catalog, charges.Queries} {
		require.Positive(t, bill.Tenants[0].ByKind[kind], kind)
	}
	require.InDelta(t, bill.Dollars, bill.Tenants[0].Dollars.Total+bill.Nobody.Dollars.Total, 1e-3)

	text := cost("acme")
	require.Regexp(t, `(?m)^fleet panel 7 +\d`, text)
	require.Regexp(t, `(?m)^metrics \(of writes\) +RU\nv +\d`, text)
	require.Regexp(t, `(?m)^chunks-\S+ +\S+ +\S+ +\$\S+ +400$`, text, "what is stored, and forced by it")
	require.Regexp(t, `(?m)^kept without end +\S`, text)
	require.Regexp(t, `(?m)^/prometheus/api/v1/query count\(\{__name__!=""\}\) +\d`, text)
	rows, err := csv.NewReader(strings.NewReader(cost("--format=focus"))).ReadAll()
	require.NoError(t, err)
	require.Greater(t, len(rows), 2)
	p := run(t, 20*time.Second, "tenant", "cost", "acmee", "--cosmos", at)
	require.NotZero(t, p.code)
	require.Contains(t, p.stderr.String(), "did you mean acme?")
	p = run(t, 20*time.Second, "tenant", "cost", "--month=2099-01", "--cosmos", at)
	require.NotZero(t, p.code)
	require.Contains(t, p.stderr.String(), "the month 2099-01 has not begun")
}
