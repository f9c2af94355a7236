package query_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// Many named devices over many months are asked for by slot: neither their number of queries nor the memory of their
// plan is that of devices times months.
func TestManyNamedDevicesAreGrouped(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0))
	for m := range 24 {
		w.Chunk(record(int64(m), "d77", noon.AddDate(0, -m, 0), float("x", 1)))
		w.Chunk(record(int64(100+m), "other", noon.AddDate(0, -m, 0), float("x", 1)))
	}
	var devices []string
	for i := range 2000 {
		devices = append(devices, fmt.Sprintf("d%d", i))
	}
	scans := 0
	var mu sync.Mutex // guards scans
	w.Store.Fault = func(op storetest.Op) *storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		scans++
		return nil
	}
	q := newQuerier(t, w, nil)
	rows, res := ask(t, q, query.Request{Tenant: "acme", Devices: devices, Range: always})
	require.True(t, res.Complete, "%v", res.Incomplete)
	require.Len(t, rows, 24)
	require.LessOrEqual(t, scans, 24*(4+len(devices)/store.MaxScanDevices+1),
		"one for each slot and 256 devices of a month")
	scans = 0
	rows, _ = ask(t, q, query.Request{Tenant: "acme", Devices: devices[:16], Range: lastHour()})
	require.Empty(t, rows)
	require.Equal(t, 16, scans, "a few are asked for by their keys, whose chunks come in order")
}

// A query that costs too much ends, and says what to narrow.
func TestMaxRUs(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 3, 2)
	for units, fails := range map[float64]bool{2: true, 11: true, 12: false} { // 3 RU a scan, four slots
		q := newQuerier(t, w, func(c *query.Config) { c.MaxRUs, c.Fanout = units, 1 })
		rows, res, err := tryAsk(t, q, query.Request{Tenant: "acme", Range: always})
		if !fails {
			require.NoError(t, err)
			require.Len(t, rows, 36)
			continue
		}
		var limit *query.LimitError
		require.ErrorAs(t, err, &limit)
		require.Contains(t, err.Error(), fmt.Sprintf("%.0f request units", units))
		require.Contains(t, err.Error(),
			"ask for a shorter range (from, to), or name the devices (device), or name the metrics (metric)")
		require.False(t, res.Complete)
		require.LessOrEqual(t, res.Stats.RequestUnits, units+6, "it ends at once")
	}
}

// What heads hold counts as what the store answers does, and what all queries hold together is bounded.
func TestTotalMemoryLimit(t *testing.T) {
	w := querytest.New(t, noon)
	var records []querytest.Record
	for i := range 2000 {
		records = append(records, record(int64(i), fmt.Sprintf("m%d", i), noon.Add(-time.Minute), float("x", 1)))
	}
	w.Heads.Set(head(0, 1, 1<<40, 0), records...)
	request := query.Request{Tenant: "acme", Range: lastHour()}
	q := newQuerier(t, w, func(c *query.Config) { c.MemoryBytes = 100 << 10 })
	_, _, err := tryAsk(t, q, request)
	require.ErrorAs(t, err, new(*query.LimitError), "the rows of heads are not free")

	q = newQuerier(t, w, func(c *query.Config) { c.MemoryBytes, c.TotalMemoryBytes = 1300<<10, 1300<<10 })
	_, err = q.Readings(t.Context(), request, func(query.Row) error {
		_, _, err := tryAsk(t, q, request)
		require.ErrorIs(t, err, query.ErrBusy, "the first one holds too much")
		return errors.New("enough")
	})
	require.EqualError(t, err, "enough")
	rows, _ := ask(t, q, request)
	require.Len(t, rows, 2000, "and gives it back")
}

// A query without a caller does not go on with what heads hold.
func TestCancelEndsHeadRead(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0), record(1, "m1", noon.Add(-time.Minute), float("x", 1)),
		record(2, "m2", noon.Add(-time.Minute), float("x", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	made := 0
	q := newQuerier(t, w, func(c *query.Config) {
		c.Heads = &counting{w.Heads, func() {
			if made++; made == 1 {
				cancel()
			}
		}}
	})
	_, err := q.Readings(ctx, query.Request{Tenant: "acme", Range: lastHour()}, func(query.Row) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, made)
}

// counting calls a function before each frame that is made.
type counting struct {
	inner  store.Heads
	before func()
}

func (c *counting) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	heads, err := c.inner.Heads(ctx, r)
	for i := range heads {
		rows := heads[i].Rows
		heads[i].Rows = func(yield func(store.HeadRows, error) bool) {
			for r, err := range rows {
				c.before()
				if !yield(r, err) {
					return
				}
			}
		}
	}
	return heads, err
}

func (c *counting) Devices(ctx context.Context, r store.ListRequest) ([]store.HeadDevice, error) {
	return c.inner.Devices(ctx, r)
}

func (c *counting) CatalogUpdates(ctx context.Context, tenant string) (store.HeadUpdates, error) {
	return c.inner.CatalogUpdates(ctx, tenant)
}

// The queries of one tenant wait for each other, not those of others for them.
func TestAdmissionIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		for i, tenant := range []string{"loud", "acme"} {
			r := record(int64(i), "m1", noon.Add(-time.Minute), float("x", 1))
			r.Tenant = tenant
			w.Chunk(r)
		}
		w.Heads.Set(head(0, 1, 9, 0))
		q := newQuerier(t, w, func(c *query.Config) { c.MaxQueries, c.MaxQueued, c.QueueTimeout = 4, 10, time.Minute })
		var mu sync.Mutex // guards below
		running, most := map[string]int{}, map[string]int{}
		waited := map[string]time.Duration{}
		run := func(tenant string) error {
			began := time.Now()
			_, err := q.Readings(t.Context(), query.Request{Tenant: tenant, Range: lastHour()}, func(query.Row) error {
				mu.Lock()
				running[tenant]++
				most[tenant] = max(most[tenant], running[tenant])
				waited[tenant] = max(waited[tenant], time.Since(began))
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running[tenant]--
				mu.Unlock()
				return nil
			})
			return err
		}
		var all sync.WaitGroup
		refused := 0
		for range 20 {
			all.Go(func() {
				if err := run("loud"); err != nil {
					mu.Lock()
					defer mu.Unlock()
					refused++
					require.ErrorIs(t, err, query.ErrBusy)
				}
			})
		}
		synctest.Wait()
		for range 3 {
			all.Go(func() { require.NoError(t, run("acme")) })
		}
		all.Wait()
		require.Equal(t, map[string]int{"loud": 2, "acme": 2}, most, "half of the places are the most for one")
		require.Equal(t, 8, refused, "two run, ten wait")
		require.LessOrEqual(t, waited["acme"], 1100*time.Millisecond)
		require.Equal(t, 5*time.Second, waited["loud"].Truncate(time.Second))
	})
}

// A query that waits in vain, or ends, leaves the queue.
func TestAdmissionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := querytest.New(t, noon)
		w.Heads.Set(head(0, 1, 9, 0), record(1, "m1", noon.Add(-time.Minute), float("x", 1)))
		q := newQuerier(t, w, func(c *query.Config) { c.MaxQueries, c.MaxQueued, c.QueueTimeout = 1, 1, time.Second })
		request := query.Request{Tenant: "acme", Range: lastHour()}
		_, err := q.Readings(t.Context(), request, func(query.Row) error {
			for range 3 {
				began := time.Now()
				_, _, err := tryAsk(t, q, request)
				require.ErrorIs(t, err, query.ErrBusy)
				require.Equal(t, time.Second, time.Since(began))
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, err = q.Readings(ctx, request, func(query.Row) error { return nil })
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				_, _, err = q.Devices(ctx, query.Search{Tenant: "acme", Limit: 1})
				require.Error(t, err, "lists wait, too")
			}
			return nil
		})
		require.NoError(t, err)
		rows, _ := ask(t, q, request)
		require.Len(t, rows, 1)
	})
}
