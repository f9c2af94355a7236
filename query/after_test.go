package query_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// after returns a context for answers that include records.
func after(t *testing.T, positions ...string) context.Context {
	t.Helper()
	ends, err := query.ParsePositions(positions, 10)
	require.NoError(t, err)
	return query.WithAfter(t.Context(), ends)
}

// An answer includes the records that it was asked to include, as soon as ingesters have them, or it is an error.
func TestAfterIncludesPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		w.Tenant("acme")
		w.Log.Set(9, 9, 9)
		w.Heads.Set(head(0, 1, 5, 0))
		w.Heads.Set(head(1, 1, 7, 0))
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		rows := func(ctx context.Context, timeout time.Duration) (n int, err error) {
			r := query.Request{Tenant: "acme", Range: lastHour()}
			if timeout > 0 {
				ctx = query.WithTimeout(ctx, timeout)
			}
			_, err = q.Readings(ctx, r, func(query.Row) error { n++; return nil })
			return n, err
		}
		began := time.Now()
		_, err := rows(after(t, "telemetry/0/4", "telemetry/1/6"), 0)
		require.NoError(t, err)
		require.Zero(t, time.Since(began), "they are there")

		time.AfterFunc(3*time.Second, func() {
			w.Heads.Set(head(0, 1, 6, 0), record(5, "m1", noon.Add(-time.Minute), float("x", 1)))
		})
		n, err := rows(after(t, "telemetry/0/5, telemetry/1/6"), 0)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.38, "a pause is at most 375 ms")

		var late *query.NotYetError
		for timeout, seconds := range map[time.Duration]float64{0: 15, 2 * time.Second: 1} {
			began = time.Now()
			n, err = rows(after(t, "telemetry/1/7", "telemetry/0/5", "telemetry/2/0"), timeout)
			require.ErrorAs(t, err, &late)
			require.Equal(t, []string{"partition telemetry/1 is read to offset 7 of 8",
				"no ingester answers for partition telemetry/2"}, late.Behind)
			require.Zero(t, n)
			require.InDelta(t, seconds, time.Since(began).Seconds(), 0.01)
		}
		var unknown *query.UnknownPartitionError
		_, err = rows(after(t, "telemetry/1/6", "telemetry/7/0", "tele/0/0"), 0)
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, []string{"telemetry/7", "tele/0"}, unknown.Partitions)
		_, _, err = q.Devices(after(t, "telemetry/7/0"), query.Search{Tenant: "acme", Limit: 10})
		require.ErrorAs(t, err, &unknown, "lists, too")
		_, _, err = q.Devices(after(t, "telemetry/1/7"), query.Search{Tenant: "acme", Limit: 10})
		require.ErrorAs(t, err, &late, "lists, too")
		devices, _, err := q.Devices(after(t, "telemetry/0/5"), query.Search{Tenant: "acme", Limit: 10})
		require.NoError(t, err)
		require.Len(t, devices, 1)
	})
}

// A strict query, and one after a position, wait until the tenant is registered that readings below the log's end name:
// else the first answer about a new tenant would lack its readings.
func TestStrictWaitsForRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		w.Log.Set(6)
		waiting := head(0, 1, 6, 0)
		waiting.Deferrals = []store.HeadDeferral{{From: 5, Limit: store.RegistrationLimit}}
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		for _, strict := range []bool{true, false} {
			r := query.Request{Tenant: "acme", Range: lastHour(), Strict: strict}
			w.Heads.SetOnly(waiting)
			time.AfterFunc(3*time.Second, func() {
				w.Heads.SetOnly(head(0, 1, 6, 0), record(5, "m1", noon.Add(-time.Minute), float("x", 1)))
			})
			ctx, n, began := t.Context(), 0, time.Now()
			if !r.Strict {
				ctx = after(t, "telemetry/0/5")
			}
			res, err := q.Readings(ctx, r, func(query.Row) error { n++; return nil })
			require.NoError(t, err)
			require.True(t, res.Complete, res)
			require.Equal(t, 1, n)
			require.InDelta(t, 3, time.Since(began).Seconds(), 0.38)
		}
	})
}

// A strict query that finds a tenant's first readings, published since it began, waits for the registration too: its
// answer is of one moment, and would say that it lacks them.
func TestStrictWaitsForRegistrationSinceItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		w.Log.Set(5)
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		waiting := head(0, 1, 6, 0)
		waiting.Deferrals = []store.HeadDeferral{{From: 5, Limit: store.RegistrationLimit}}
		w.Heads.SetOnly(waiting)
		time.AfterFunc(3*time.Second, func() {
			w.Heads.SetOnly(head(0, 1, 6, 0), record(5, "m1", noon.Add(-time.Minute), float("x", 1)))
		})
		n := 0
		res, err := q.Readings(t.Context(), query.Request{Tenant: "acme", Range: lastHour(), Strict: true},
			func(query.Row) error { n++; return nil })
		require.NoError(t, err)
		require.True(t, res.Complete, res)
		require.Equal(t, 1, n)
	})
}

// An ingester that has gone between the wait and the answer takes what it had with it: the answer waits on.
func TestAfterWaitsForTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		w.Tenant("acme")
		w.Log.Set(9)
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		calls := 0
		w.Heads.OnCall(func() {
			calls++
			w.Heads.SetOnly(head(0, 1, map[bool]int64{true: 6, false: 5}[calls == 2 || calls > 6], 0))
		})
		_, err := q.Readings(after(t, "telemetry/0/5"), query.Request{Tenant: "acme", Range: lastHour()},
			func(query.Row) error { return nil })
		require.NoError(t, err)
		require.Equal(t, 8, calls, "it is there at the 2nd look, gone at the 3rd, and there from the 7th on")
	})
}

// What the store or a head does not answer may be what was asked for.
func TestAfterFailsOnIncompleteAnswer(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	w.Log.Set(9)
	for i := range int64(3) {
		w.Chunk(record(i, "m1", noon.Add(time.Duration(i-5)*time.Minute), float("x", 1)))
	}
	w.Heads.Set(head(0, 1, 9, 0))
	q := newQuerier(t, w, func(c *query.Config) { c.Log, c.Reader, c.CacheBytes = w.Log, empty{}, -1 })
	r := query.Request{Tenant: "acme", Range: telemetry.Range{From: 0, To: noon.UnixMilli()}}
	for _, devices := range [][]string{nil, {"m1"}} {
		r.Devices = devices
		res, err := q.Readings(t.Context(), r, func(query.Row) error { return nil })
		require.NoError(t, err)
		require.Equal(t, []string{"the store answers 0 of 3 chunks of device m1, day 20261120"}, res.Incomplete)
		_, err = q.Readings(after(t, "telemetry/0/2"), r, func(query.Row) error { return nil })
		var late *query.NotYetError
		require.ErrorAs(t, err, &late)
		require.Equal(t, res.Incomplete, late.Behind)
	}
}

// empty is a store that answers nothing.
type empty struct{}

func (empty) Scan(context.Context, store.Scan, func([]byte) error) (store.Usage, error) {
	return store.Usage{}, nil
}

func TestParsePositions(t *testing.T) {
	ends, err := query.ParsePositions([]string{"a.b_c-D/0/0,telemetry/12/9", " x/1/2 "}, 3)
	require.NoError(t, err)
	require.Equal(t, []store.LogEnd{{Topic: "a.b_c-D", Partition: 0, End: 1}, {Topic: "telemetry", Partition: 12, End: 10},
		{Topic: "x", Partition: 1, End: 3}}, ends)
	for _, text := range []string{"", "a", "a/b/c", "a/1", "a/1/2/3", "/1/2", "a/-1/2", "a/1/-2", "a/1/2,",
		"a/2147483648/1", "a/1/99999999999999999999", "a/1/1,a/1/2,a/1/3,a/1/4", "a/+1/2", "a/1/1.0"} {
		_, err := query.ParsePositions([]string{text}, 3)
		require.Error(t, err, text)
	}
}
