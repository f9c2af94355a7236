//go:build unix

package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/prom"

	"github.com/stretchr/testify/require"
)

// What explain estimates of scans is what the embedded account then charges, within 15 %: once one query was asked,
// also for other ranges and devices.
func TestEstimatesAgreeWithCharges(t *testing.T) {
	const bound = 0.15
	p := newPanels(t, 12, 3, plain())
	p.fill(t, p.first, p.day, time.Minute, 12, 2)
	p.now = p.now.Add(time.Hour)
	p.seal(t, p.first, p.day)
	p.now = p.now.Add(time.Hour)
	q, err := query.New(query.Config{Reader: p.client.Chunks(), Rollups: p.client.Rollups(), Heads: nobody{},
		Directory: p.directory, Catalog: p.client.Catalog(), Now: func() time.Time { return p.now }, CacheBytes: -1})
	require.NoError(t, err)
	ask := func(r query.Request, rows bool) query.Explained {
		ctx, e := query.WithExplanation(t.Context())
		if r.Tenant = "acme"; rows {
			_, err = q.Readings(ctx, r, func(query.Row) error { return nil })
		} else {
			_, err = q.Series(ctx, r, func(query.Curve) error { return nil })
		}
		require.NoError(t, err)
		require.Len(t, e.Reads(), 1)
		return e.Reads()[0]
	}
	of := func(from, to time.Duration, devices ...string) query.Request {
		begin := time.UnixMilli(p.day.Start())
		return query.Request{Metrics: []string{"metric_1"}, Devices: devices,
			Range: telemetry.Range{From: begin.Add(from).UnixMilli(), To: begin.Add(to).UnixMilli()}}
	}
	var many []string
	for d := range 11 {
		many = append(many, deviceOf(d))
	}
	for _, c := range []struct {
		name string
		rows bool
		query.Request
	}{
		{"all, six hours", false, of(6*time.Hour, 12*time.Hour)},
		{"all, an hour", false, of(3*time.Hour, 4*time.Hour)},
		{"all, two days", false, of(-24*time.Hour, 24*time.Hour)},
		{"eleven devices, six hours", false, of(6*time.Hour, 12*time.Hour, many...)},
		{"eleven devices, an hour", false, of(time.Hour, 2*time.Hour, many...)},
		{"one device, six hours", true, of(6*time.Hour, 12*time.Hour, many[0])},
		{"one device, an hour", true, of(time.Hour, 2*time.Hour, many[0])},
		{"another device, a day", true, of(0, 24*time.Hour, many[1])},
	} {
		e := ask(c.Request, c.rows)
		if e.Estimate.Guessed { // of scans of this kind nothing is known yet: the price of asking, and no documents
			require.Zero(t, e.Estimate.Documents, c.name)
			require.LessOrEqual(t, e.Estimate.RequestUnits, e.Stats.RequestUnits, c.name)
			e = ask(c.Request, c.rows)
		}
		require.False(t, e.Estimate.Guessed, c.name)
		t.Logf("%-26s estimated %6.2f RU, charged %6.2f", c.name, e.Estimate.RequestUnits, e.Stats.RequestUnits)
		require.InEpsilon(t, e.Stats.RequestUnits, e.Estimate.RequestUnits, bound, c.name)
	}
}

// What explain estimates of a panel that rollups answer is what is charged, once the days' manifests are known.
func TestEstimatesOfRollupsAgreeWithCharges(t *testing.T) {
	p := newPanels(t, 40, 2, plain())
	p.fill(t, p.first, p.day, time.Minute, 2, 3)
	p.now = p.now.Add(time.Hour)
	p.seal(t, p.first, p.day)
	p.now = p.now.Add(time.Hour)
	q, err := query.New(query.Config{Reader: p.client.Chunks(), Rollups: p.client.Rollups(), Heads: nobody{},
		Directory: p.directory, Catalog: p.client.Catalog(), Now: func() time.Time { return p.now }, CacheBytes: 1 << 28})
	require.NoError(t, err)
	h, err := prom.New(prom.Config{Querier: q, Now: func() time.Time { return p.now }, MemoryBytes: 1 << 30,
		MaxSamples: 1e7})
	require.NoError(t, err)
	ask := func(metric string) query.Explained {
		ctx, e := query.WithExplanation(t.Context())
		at := panel{text: "avg by (fleet) (" + metric + ")", from: p.first.Start(), to: p.day.End(), step: 5 * time.Minute}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, prom.Prefix+at.path(), nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Scope-OrgID", "acme")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Len(t, e.Reads(), 1)
		return e.Reads()[0]
	}
	require.True(t, ask("metric_1").Estimate.Guessed)
	for n, metric := range []string{"metric_2", "metric_2", "km_total"} {
		e := ask(metric)
		t.Logf("%s: estimated %.2f RU, charged %.2f", metric, e.Estimate.RequestUnits, e.Stats.RequestUnits)
		require.False(t, e.Estimate.Guessed)
		require.Positive(t, e.Stats.Rollups+e.Stats.RollupsCached)
		if n == 1 { // what stands by the counts of heads is not asked for again, and heads are not asked for an estimate
			require.Less(t, e.Stats.RequestUnits, e.Estimate.RequestUnits)
			continue
		}
		require.InEpsilon(t, e.Stats.RequestUnits, e.Estimate.RequestUnits, 0.15)
	}
}
