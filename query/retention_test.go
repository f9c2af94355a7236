package query_test

import (
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// setRetention sets the retention of acme some time ago, and reads it.
func setRetention(t *testing.T, w *querytest.World, text string, ago time.Duration) {
	t.Helper()
	change, err := tenant.RetentionChange(text, func() time.Time { return w.Now.Add(-ago) })
	require.NoError(t, err)
	require.NoError(t, tenant.NewTenants(w.Documents).Set(t.Context(), "acme", change))
	_, err = w.Directory.Refresh(t.Context())
	require.NoError(t, err)
}

// shown is the days that every way of asking answers, by device: of all ways the same.
func shown(t *testing.T, q *query.Querier, w *querytest.World, devices []string) map[string]map[telemetry.Day]bool {
	t.Helper()
	out := make(map[string]map[telemetry.Day]bool)
	r := query.Request{Tenant: "acme", Range: telemetry.Range{From: (telemetry.DayOf(noon.UnixMilli()) - 60).Start(),
		To: w.Now.UnixMilli()}}
	for _, ordered := range []func(query.Request) query.Request{
		func(r query.Request) query.Request { r.Devices = devices; return r },
		func(r query.Request) query.Request { return r },
		func(r query.Request) query.Request { return r }, // from the cache
	} {
		found := make(map[string]map[telemetry.Day]bool)
		for _, d := range devices {
			found[d] = make(map[telemetry.Day]bool)
		}
		rows, res := ask(t, q, ordered(r))
		require.Empty(t, res.Incomplete)
		for _, row := range rows {
			found[row.Device][telemetry.DayOf(row.Time)] = true
		}
		if len(out) > 0 {
			require.Equal(t, out, found)
		}
		out = found
	}
	series := make(map[string]map[telemetry.Day]bool)
	statistics := make(map[string]map[telemetry.Day]bool)
	for _, d := range devices {
		series[d], statistics[d] = make(map[telemetry.Day]bool), make(map[telemetry.Day]bool)
	}
	_, err := q.Series(t.Context(), r, func(c query.Curve) error {
		for _, s := range c.Stretches {
			for _, at := range s.Times {
				series[c.Device][telemetry.DayOf(at)] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, out, series)
	_, err = q.Statistics(t.Context(), r, 24*time.Hour, func(b query.Statistic) error {
		statistics[b.Device][telemetry.DayOf(b.Start)] = true
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, out, statistics)
	for _, d := range devices {
		newest := telemetry.Day(-1)
		one := r
		one.Devices = []string{d}
		_, err := q.Latest(t.Context(), one, func(l query.Last) error {
			newest = max(newest, telemetry.DayOf(l.Time))
			return nil
		})
		require.NoError(t, err)
		want := telemetry.Day(-1)
		for day := range out[d] {
			want = max(want, day)
		}
		require.Equal(t, want, newest, d)
	}
	return out
}

// Rule X1: what the retention of a device's class does not show, no way of asking shows, whatever is still stored,
// cached or in heads, and an answer without it is complete.
func TestHiddenDaysAreNotAnswered(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	devices := []string{"meter-1", "pump"}
	days(w, devices, 20, 5)
	old := noon.AddDate(0, 0, -18)
	w.Log.Set(100_000)
	w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: 100_000, CaughtUp: 500},
		record(90_000, "pump", old, float("x", 7)), record(90_001, "meter-1", old, float("x", 7)))
	q := newQuerier(t, w, func(c *query.Config) { c.Log, c.CacheBytes = w.Log, 1<<20 })
	today := telemetry.DayOf(noon.UnixMilli())
	w.Now = noon.Add(time.Minute)
	check := func(first map[string]telemetry.Day) {
		t.Helper()
		got := shown(t, q, w, devices)
		for _, d := range devices {
			for day := today - 19; day <= today; day++ {
				require.Equal(t, day >= first[d], got[d][day], "%s, %s", d, day)
			}
		}
		all, _, err := q.Devices(t.Context(), query.Search{Tenant: "acme", Limit: 10})
		require.NoError(t, err)
		for _, d := range all {
			require.Equal(t, max(first[d.Device], today-19), telemetry.DayOf(d.First), d.Device)
		}
	}
	check(map[string]telemetry.Day{})
	setRetention(t, w, "meter-*=forever,default=5d", time.Hour)
	check(map[string]telemetry.Day{}) // it may still be taken back
	setRetention(t, w, "default=forever", 59*time.Minute)
	check(map[string]telemetry.Day{})
	setRetention(t, w, "meter-*=forever,default=5d", 9*time.Hour)
	check(map[string]telemetry.Day{"pump": today - 5})
	setRetention(t, w, "default=forever", 6*time.Hour)
	check(map[string]telemetry.Day{"pump": today - 5})
	setRetention(t, w, "meter-*=3d", 2*time.Hour)
	check(map[string]telemetry.Day{"pump": today - 5, "meter-1": today - 3})

	c, _, err := q.Evidence(t.Context(), query.GapsRequest{Tenant: "acme", Device: "pump",
		Range: telemetry.Range{From: old.UnixMilli(), To: w.Now.UnixMilli()}})
	require.NoError(t, err)
	require.Equal(t, (today - 5).Start(), c.Known)
	for _, g := range gaps.Diagnose(c).Gaps {
		require.NotEqual(t, gaps.Damaged, g.Verdict, "%+v", g)
	}
	rows, res := ask(t, q, query.Request{Tenant: "acme", AsOf: noon.UnixMilli(),
		Range: telemetry.Range{From: old.UnixMilli(), To: noon.UnixMilli()}})
	require.NotEmpty(t, res.Incomplete, "what was known then is hidden")
	for _, row := range rows {
		require.GreaterOrEqual(t, telemetry.DayOf(row.Time), today-5)
	}
}

// Attendance does not say of hidden days that a device was silent, also where nothing of the device is kept.
func TestAttendanceOfHiddenDays(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	w.Chunk(record(1, "pump", noon.AddDate(0, 0, -18), float("x", 7)))
	setRetention(t, w, "default=5d", 9*time.Hour)
	found, _, err := newQuerier(t, w, nil).Attendance(t.Context(), query.AttendanceRequest{Tenant: "acme", Limit: 10,
		Range: telemetry.Range{From: noon.AddDate(0, 0, -20).UnixMilli(), To: noon.UnixMilli()}, Step: 24 * time.Hour})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, (telemetry.DayOf(noon.UnixMilli()) - 5).Start(), found[0].Known)
}

// A chunk of a hidden day that is gone, as of a day that is half deleted, makes no answer incomplete.
func TestHiddenDaysMayHaveGaps(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	days(w, []string{"pump"}, 3, 5)
	w.Log.Set(1000)
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 1000, CaughtUp: 500})
	q := without(t, w, 1)
	r := query.Request{Tenant: "acme", Devices: []string{"pump"},
		Range: telemetry.Range{From: noon.AddDate(0, 0, -9).UnixMilli(), To: noon.UnixMilli()}}
	_, res := ask(t, q, r)
	require.NotEmpty(t, res.Incomplete)
	w.Now = noon.AddDate(0, 0, 3)
	setRetention(t, w, "pump=1d", 2*time.Hour)
	rows, res := ask(t, q, r)
	require.Empty(t, rows)
	require.Empty(t, res.Incomplete)
}
