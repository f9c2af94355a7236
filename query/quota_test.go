package query_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// quotaOf returns the error of a query of a tenant at its limit.
func quotaOf(t *testing.T, err error) *query.QuotaError {
	t.Helper()
	var over *query.QuotaError
	require.ErrorAs(t, err, &over)
	return over
}

// twoTenants is a world in which loud and acme have a chunk each, and every query asks the store: 4 slots, 3 request
// units each.
func twoTenants(t *testing.T, change func(*query.Config)) (*querytest.World, *query.Querier) {
	w := querytest.New(t, noon)
	for i, tenant := range []string{"loud", "acme"} {
		r := record(int64(i), "m1", noon.Add(-time.Minute), float("x", 1))
		r.Tenant = tenant
		w.Chunk(r)
	}
	w.Heads.Set(head(0, 1, 9, 0))
	return w, newQuerier(t, w, func(c *query.Config) {
		c.CacheBytes = -1
		change(c)
	})
}

func about(tenant string) query.Request { return query.Request{Tenant: tenant, Range: lastHour()} }

// What a tenant has used up of its limits is known; what does not bound it is not listed.
func TestQuotaUsed(t *testing.T) {
	w, q := twoTenants(t, func(c *query.Config) {
		c.Limits.Rate, c.Limits.RUsOfDay, c.Queriers = 2, 100, 2
	})
	require.Equal(t, map[string]float64{"query-rate": 0, "query-rus-day": 0}, q.Used("loud"))
	for range 3 {
		_, _, err := tryAsk(t, q, about("loud"))
		require.NoError(t, err)
	}
	require.InDeltaMapValues(t, map[string]float64{"query-rate": 0.3, "query-rus-day": 36. / 50}, q.Used("loud"), 1e-9,
		"three of ten queries in ten seconds, each of 12 request units, of the half that one of two queriers grants")
	require.Equal(t, map[string]float64{"query-rate": 0, "query-rus-day": 0}, q.Used("acme"))
	w.Now = w.Now.Add(2 * time.Second)
	require.InDelta(t, 0.1, q.Used("loud")["query-rate"], 1e-9)
	_, q = twoTenants(t, func(*query.Config) {})
	require.Empty(t, q.Used("loud"))
}

// A tenant asks as often as it may, on average, and no tenant is refused for another one. Each of several queriers
// grants its part.
func TestQuotaRequestRate(t *testing.T) {
	for _, queriers := range []int{1, 2} {
		w, q := twoTenants(t, func(c *query.Config) { c.Limits.Rate, c.Queriers = 2, queriers })
		once := 20 / queriers
		for i := range once {
			_, _, err := tryAsk(t, q, about("loud"))
			require.NoError(t, err, i)
		}
		_, _, err := tryAsk(t, q, about("loud"))
		over := quotaOf(t, err)
		require.Equal(t, time.Second, over.RetryAfter)
		require.EqualError(t, err, "this tenant has used up its 2 queries a second, over 10s: try again in 1s, and ask less "+
			"often, or ask for more devices, metrics or time in one query")
		ask(t, q, about("acme"))
		w.Now = w.Now.Add(time.Second)
		for range 2 / queriers {
			ask(t, q, about("loud"))
		}
		_, _, err = tryAsk(t, q, about("loud"))
		quotaOf(t, err)
		w.Now = w.Now.Add(time.Hour)
		for range once {
			ask(t, q, about("loud"))
		}
		_, _, err = tryAsk(t, q, about("loud"))
		quotaOf(t, err)
	}
}

// Request units of a second may be saved up for a minute, and what one query has cost more has to come back before the
// next one.
func TestQuotaRUsPerSecond(t *testing.T) {
	w, q := twoTenants(t, func(c *query.Config) { c.Limits.RUs = 1 })
	asked := 0
	var over *query.QuotaError
	for over == nil {
		_, res, err := tryAsk(t, q, about("loud"))
		if errors.As(err, &over) {
			break
		}
		require.NoError(t, err)
		require.InDelta(t, 12, res.Stats.RequestUnits, 1e-9)
		asked++
	}
	require.Equal(t, 5, asked, "a minute's 60, at 12 each")
	require.Equal(t, time.Second, over.RetryAfter)
	ask(t, q, about("acme"))
	w.Now = w.Now.Add(2 * time.Second)
	ask(t, q, about("loud"))
	_, _, err := tryAsk(t, q, about("loud"))
	require.Equal(t, 10*time.Second, quotaOf(t, err).RetryAfter, "12 were spent of 2")
	w.Now = w.Now.Add(10 * time.Second)
	_, _, err = tryAsk(t, q, about("loud"))
	quotaOf(t, err)
	w.Now = w.Now.Add(time.Second)
	ask(t, q, about("loud"))
}

// A query that runs is ended when it is in debt by a minute's worth: nobody waits much longer than that for the next.
func TestQuotaEndsRunningQuery(t *testing.T) {
	w := querytest.New(t, noon)
	for m := range 24 {
		w.Chunk(record(int64(m), "m1", noon.AddDate(0, -m, 0).Add(-time.Minute), float("x", 1)))
	}
	w.Heads.Set(head(0, 1, 99, 0))
	q := newQuerier(t, w, func(c *query.Config) { c.CacheBytes, c.Limits.RUs, c.Fanout = -1, 1, 1 })
	request := query.Request{Tenant: "acme", Range: always}
	_, res, err := tryAsk(t, q, request)
	over := quotaOf(t, err)
	require.InDelta(t, 120, res.Stats.RequestUnits, 6, "60 that were there and 60 of debt, of 288")
	require.LessOrEqual(t, over.RetryAfter, 66*time.Second)
	require.False(t, res.Complete)
}

// The request units of a day are back at midnight; what lists cost counts too.
func TestQuotaRUsPerDay(t *testing.T) {
	w, q := twoTenants(t, func(c *query.Config) { c.Limits.RUsOfDay, c.Queriers = 80, 2 })
	_, _, err := q.Devices(t.Context(), query.Search{Tenant: "loud", Limit: 10})
	require.NoError(t, err)
	for range 3 {
		ask(t, q, about("loud"))
	}
	_, _, err = tryAsk(t, q, about("loud"))
	require.Equal(t, 12*time.Hour, quotaOf(t, err).RetryAfter, "its first request is one too many: 1 + 36 + 3 of 40")
	_, _, err = q.Devices(t.Context(), query.Search{Tenant: "loud", Limit: 10})
	require.ErrorContains(t, err, "its 80 request units of this day")
	ask(t, q, about("acme"))
	w.Now = noon.Add(12*time.Hour - time.Millisecond)
	_, _, err = tryAsk(t, q, about("loud"))
	require.Equal(t, time.Second, quotaOf(t, err).RetryAfter)
	w.Now = noon.Add(12 * time.Hour)
	_, _, err = tryAsk(t, q, query.Request{Tenant: "loud", Range: telemetry.Range{
		From: noon.Add(-time.Hour).UnixMilli(), To: noon.UnixMilli()}})
	require.NoError(t, err)
}

// A query of a tenant that has as many running as it may have waits for its turn like any other; when none comes it is
// the tenant's own doing, and no sign that the service has too much to do.
func TestQuotaConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, q := twoTenants(t, func(c *query.Config) {
			c.MaxQueries, c.MaxQueued, c.QueueTimeout, c.Limits.Concurrency, c.Queriers = 8, 1, time.Minute, 4, 3
		})
		inside, waited := make(chan struct{}), make(chan error)
		for range 2 { // a third of 4, rounded up
			go func() {
				_ = q.Admit(t.Context(), "loud", func(context.Context) error {
					<-inside
					return nil
				})
			}()
		}
		synctest.Wait()
		go func() {
			_, _, err := tryAsk(t, q, about("loud"))
			waited <- err
		}()
		synctest.Wait()
		_, _, err := tryAsk(t, q, about("loud"))
		require.ErrorContains(t, err, "its 2 queries at the same time, and 1 more wait")
		quotaOf(t, err)
		ask(t, q, about("acme"))
		quotaOf(t, <-waited)
		close(inside)
		synctest.Wait()
		ask(t, q, about("loud"))
	})
}

// A query reads as many values as it may; what needs none of them is answered.
func TestQuotaSamples(t *testing.T) {
	w := querytest.New(t, noon)
	var records []querytest.Record
	for i := range 50 {
		at := noon.Add(time.Duration(i-60) * time.Second)
		records = append(records, record(int64(i), "m1", at, float("x", 1), float("y", 1)))
	}
	w.Chunk(records[:25]...)
	w.Heads.Set(head(0, 1, 99, 25), records[25:]...)
	for most, fails := range map[tenant.Limit]bool{100: false, 99: true} {
		q := newQuerier(t, w, func(c *query.Config) { c.Limits.Samples = most })
		_, _, err := tryAsk(t, q, about("acme"))
		if fails {
			require.ErrorAs(t, err, new(*query.LimitError))
			require.ErrorContains(t, err, "needs more than the 99 values that a query of this tenant may read: ask for a")
		} else {
			require.NoError(t, err)
		}
	}
	q := newQuerier(t, w, func(c *query.Config) { c.Limits.Samples = 50 })
	_, err := q.Statistics(t.Context(), about("acme"), 0, func(query.Statistic) error { return nil })
	require.NoError(t, err, "those of the chunk are in its statistics")
}

// What is set for a tenant counts as soon as it is known, and stands before what is set for all.
func TestQuotaOfTenantOverridesDefault(t *testing.T) {
	w, q := twoTenants(t, func(c *query.Config) { c.Limits.Rate = 0.1 })
	set := func(l tenant.QueryLimits) {
		require.NoError(t, tenant.NewTenants(w.Documents).Set(t.Context(), "loud", l.Changes()...))
		_, err := w.Directory.Refresh(t.Context())
		require.NoError(t, err)
	}
	refused := func(tenant string) bool {
		_, _, err := tryAsk(t, q, about(tenant))
		return errors.As(err, new(*query.QuotaError))
	}
	require.Equal(t, []bool{false, true, false, true}, []bool{refused("loud"), refused("loud"), refused("acme"),
		refused("acme")})
	set(tenant.QueryLimits{Rate: tenant.Unbounded})
	require.Equal(t, []bool{false, false, true}, []bool{refused("loud"), refused("loud"), refused("acme")})
	set(tenant.QueryLimits{Rate: tenant.Unset})
	require.True(t, refused("loud"))
}

// The metrics of request units name the tenants that asked last, however many there are.
func TestTenantMetricsAreBounded(t *testing.T) {
	w := querytest.New(t, noon)
	registry := prometheus.NewRegistry()
	q := newQuerier(t, w, func(c *query.Config) { c.Registerer = registry })
	for i := range 300 {
		_, _, err := q.Devices(t.Context(), query.Search{Tenant: fmt.Sprintf("tenant-%d", i), Limit: 1})
		require.NoError(t, err)
	}
	n, err := testutil.GatherAndCount(registry, "binnacle_query_request_units_total")
	require.NoError(t, err)
	require.Equal(t, 256, n)
}
