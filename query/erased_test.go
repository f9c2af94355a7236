package query_test

import (
	"errors"
	"testing"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// order announces an order of erasure of acme and returns what acknowledges it.
func order(t *testing.T, w *querytest.World, o erasure.Order, through int64) (acknowledge func()) {
	t.Helper()
	orders := erasure.NewOrders(w.Documents, func() time.Time { return w.Now })
	o.Tenant, o.By = "acme", "test"
	given, err := orders.Announce(t.Context(), o)
	require.NoError(t, err)
	return func() {
		require.NoError(t, orders.Acknowledge(t.Context(), given.ID,
			[]erasure.Position{{Stream: 1, Partition: 0, Through: through}}))
	}
}

// Rule E-R9: from 5 seconds after an order is acknowledged no way of asking shows what it erases, whatever is stored,
// cached or in heads, and an answer without it is complete.
func TestErasedReadingsAreNotAnswered(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	devices := []string{"meter-1", "pump"}
	days(w, devices, 20, 5) // 30 records a day
	old := noon.AddDate(0, 0, -18)
	w.Log.Set(100_000)
	w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: 100_000, CaughtUp: 500},
		record(90_000, "pump", old, float("x", 7)), record(90_001, "pump", old.Add(time.Second), float("x", 8)))
	q := newQuerier(t, w, func(c *query.Config) { c.Log, c.CacheBytes = w.Log, 1<<20 })
	today := telemetry.DayOf(noon.UnixMilli())
	w.Now = noon.Add(time.Minute)
	check := func(gone func(device string, day telemetry.Day) bool) {
		t.Helper()
		got := shown(t, q, w, devices)
		for _, d := range devices {
			for day := today - 19; day <= today; day++ {
				require.Equal(t, !gone(d, day), got[d][day], "%s, %s", d, day)
			}
		}
	}
	none := func(string, telemetry.Day) bool { return false }
	check(none)
	acknowledge := order(t, w, erasure.Order{Device: "pump", From: today - 15, To: today - 10}, 95_000)
	w.Now = w.Now.Add(6 * time.Second)
	check(none)
	acknowledge()
	w.Now = w.Now.Add(6 * time.Second)
	pump := func(d string, day telemetry.Day) bool { return d == "pump" && day >= today-15 && day < today-10 }
	check(pump)
	order(t, w, erasure.Order{Device: "meter-1", To: erasure.EveryDay}, 10*30)()
	w.Now = w.Now.Add(6 * time.Second)
	both := func(d string, day telemetry.Day) bool { return pump(d, day) || d == "meter-1" && day < today-9 }
	check(both)

	// Of a head the rows above the position stay.
	order(t, w, erasure.Order{Device: "pump", From: today - 18, To: today - 17}, 90_000)()
	w.Now = w.Now.Add(6 * time.Second)
	check(both)
	rows, _ := ask(t, q, query.Request{Tenant: "acme", Devices: []string{"pump"},
		Range: telemetry.Range{From: (today - 18).Start(), To: (today - 17).Start()}})
	require.Len(t, rows, 1)
	require.Equal(t, old.Add(time.Second).UnixMilli(), rows[0].Time)

	// Not as of an earlier moment either.
	rows, _ = ask(t, q, query.Request{Tenant: "acme", AsOf: noon.UnixMilli(), Devices: devices,
		Range: telemetry.Range{From: (today - 19).Start(), To: noon.UnixMilli()}})
	require.NotEmpty(t, rows)
	for _, row := range rows {
		require.False(t, both(row.Device, telemetry.DayOf(row.Time)), "%s %d", row.Device, row.Time)
	}

	// Gaps are diagnosed as what they are.
	c, _, err := q.Evidence(t.Context(), query.GapsRequest{Tenant: "acme", Device: "pump",
		Range: telemetry.Range{From: (today - 19).Start(), To: today.Start()}})
	require.NoError(t, err)
	found := 0
	for _, g := range gaps.Diagnose(c).Gaps {
		require.NotEqual(t, gaps.Damaged, g.Verdict, "%+v", g)
		if g.Verdict == gaps.Erased {
			found++
			require.True(t, telemetry.DayOf(g.From) < today-10, "%+v", g)
		}
	}
	require.Equal(t, 3, found, "one of days, and those before and behind the reading that stays")

	// Without the orders nothing is answered.
	w.Documents.Fault = func(_, _, _ string) *storetest.Fault { return &storetest.Fault{Err: errors.New("down")} }
	w.Now = w.Now.Add(6 * time.Second)
	_, _, err = tryAsk(t, q, query.Request{Tenant: "acme", Devices: devices,
		Range: telemetry.Range{From: old.UnixMilli(), To: noon.UnixMilli()}})
	require.ErrorIs(t, err, query.ErrUnavailable)
}
