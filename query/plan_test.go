package query_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/querytest"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

var always = telemetry.Range{From: 0, To: telemetry.MaxMillis}

// elsewhere is a querier in another process: its copy of the map is its own.
func elsewhere(t *testing.T, w *querytest.World) (*query.Querier, *control.Directory) {
	d := control.NewDirectory(control.DirectoryConfig{Documents: w.Documents, Now: func() time.Time { return w.Now }})
	return newQuerier(t, w, func(c *query.Config) { c.Directory = d }), d
}

// Rows that were stored just before the heads were asked are answered, even if tenant and month are new (R1).
func TestSnapshotIsReadAfterHeads(t *testing.T) {
	w := querytest.New(t, noon)
	q, _ := elsewhere(t, w)
	w.Heads.Set(head(0, 1, 9, 0))
	for i, at := range []time.Time{noon.Add(-time.Hour), noon.AddDate(0, -1, 0), noon.AddDate(-20, 0, 0)} {
		w.Heads.OnCall(func() { w.Chunk(record(int64(i), "m1", at, float("x", 1))) })
		rows, res := ask(t, q, query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: always})
		require.Len(t, rows, i+1)
		require.True(t, res.Complete)
		w.Heads.OnCall(nil)
		rows, _ = ask(t, q, query.Request{Tenant: "acme", Range: always, Descending: true})
		require.Len(t, rows, i+1)
	}
}

// A map that is known to be fresh enough is not read again, and a tenant's own head needs no map at all.
func TestSnapshotIsReadOnlyWhenStale(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0), record(8, "m1", noon.Add(-time.Minute), float("x", 1)))
	reads := 0
	w.Documents.Fault = func(op, kind, _ string) *storetest.Fault {
		if op == storetest.OpList && kind == tenant.Kind {
			reads++
		}
		return nil
	}
	q, d := elsewhere(t, w)
	rows, _ := ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	require.Len(t, rows, 1, "a tenant that no map has yet")
	w.Chunk(record(1, "m1", noon.Add(-2*time.Minute), float("x", 2)))
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	reads = 0
	for range 10 {
		rows, _ = ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
		require.Len(t, rows, 2)
		future := telemetry.Range{From: lastHour().From, To: telemetry.MaxMillis}
		rows, _ = ask(t, q, query.Request{Tenant: "acme", Range: future})
		require.Len(t, rows, 2)
	}
	require.Zero(t, reads, "the month is known, and months to come can't hold anything yet")
}

// A copy that was read under a clock that was ahead looks new for long: what heads name and it lacks is read all the
// same.
func TestSnapshotFromAClockAhead(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	q, d := elsewhere(t, w)
	w.Now = noon.Add(time.Hour)
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	w.Now = noon
	w.Heads.Set(head(0, 1, 9, 0))
	w.Chunk(record(1, "m1", noon.Add(-time.Minute), float("x", 1)))
	rows, res := ask(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	require.True(t, res.Complete)
	require.Len(t, rows, 1)
}

// An epoch that began after the copy was read is found, however old the copy is.
func TestOldSnapshotIsReadAgain(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0))
	w.Chunk(record(1, "m1", noon, float("x", 1)))
	q, d := elsewhere(t, w)
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	from := telemetry.DayOf(noon.UnixMilli()) + 1
	require.NoError(t, w.Directory.AddEpoch(t.Context(), "acme",
		sharding.Epoch{From: from, Slots: sharding.Spread("other", 3)}))
	w.Now = noon.AddDate(0, 0, 2)
	w.Chunk(record(2, "m1", noon.AddDate(0, 0, 1), float("x", 2)))
	rows, _ := ask(t, q, query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: always})
	require.Len(t, rows, 2)
}

// worldOfEpochs has a tenant with epochs from midnight on, one a day, each with so many slots.
func worldOfEpochs(t *testing.T, midnight time.Time, slots ...int) *querytest.World {
	w := querytest.New(t, midnight.AddDate(0, 0, -3))
	w.Tenant("acme")
	for i, n := range slots {
		from := telemetry.DayOf(midnight.UnixMilli()) + telemetry.Day(i)
		require.NoError(t, w.Directory.AddEpoch(t.Context(), "acme",
			sharding.Epoch{From: from, Slots: sharding.Spread("acme", n)}))
	}
	w.Now = midnight.AddDate(0, 0, len(slots))
	w.Tenant("acme")
	w.Heads.Set(head(0, 1, 99, 0))
	return w
}

// A query over many epochs of a month scans each key once, and finds every chunk. A chunk under a key that another
// epoch gives its device is no part of the data, and is missing under its own.
func TestKeysOfManyEpochsAreScannedOnce(t *testing.T) {
	midnight := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	w := worldOfEpochs(t, midnight, 4, 1, 4, 2, 4, 1, 4, 3)
	slots, keys := make(map[string]bool), make(map[sharding.Key]bool)
	var devices []string
	for i := range 20 {
		device := fmt.Sprintf("m%02d", i)
		devices = append(devices, device)
		for day := range 8 {
			at := midnight.AddDate(0, 0, day).Add(time.Hour)
			w.Chunk(record(int64(i), device, at, float("x", float64(day))))
			key := w.Tenant("acme").Placement.Key(device, telemetry.DayOf(at.UnixMilli()), 0)
			slots[key.TenantShard], keys[key] = true, true
		}
	}
	month := telemetry.Range{From: midnight.UnixMilli(), To: w.Now.UnixMilli()}
	second := telemetry.Range{From: midnight.AddDate(0, 0, 1).UnixMilli(), To: midnight.AddDate(0, 0, 2).UnixMilli()}
	of := 0
	for key := range keys {
		if key.Device == devices[0] {
			of++
		}
	}
	require.Equal(t, 4, of)
	for _, c := range []struct {
		name         string
		r            query.Request
		fanout, rows int
		keys         int
	}{
		{"all devices", query.Request{Range: month}, 8, 160, len(slots)},
		{"all devices, newest first", query.Request{Range: month, Descending: true}, 8, 160, len(slots)},
		{"the second day", query.Request{Range: second}, 8, 20, 1},
		{"named devices", query.Request{Range: month, Devices: devices}, 8, 160, len(slots)},
		{"a device", query.Request{Range: month, Devices: devices[:1]}, 8, 8, of},
		{"a device, more keys than may be read at a time", query.Request{Range: month, Devices: devices[:1]}, 3, 8, of},
		{"a device's newest row, and whether there are more", query.Request{Range: month, Devices: devices[:1], Limit: 1,
			Descending: true}, 8, 1, 2},
	} {
		c.r.Tenant = "acme"
		rows, res := ask(t, newQuerier(t, w, func(cfg *query.Config) { cfg.Fanout = c.fanout }), c.r)
		require.Len(t, rows, c.rows, c.name)
		require.Equal(t, c.keys, res.Stats.Keys, c.name)
		require.True(t, res.Complete, c.name)
	}
	moved := 0
	for _, d := range w.Store.Documents() {
		id, err := chunk.ParseID(d.ID)
		require.NoError(t, err)
		other := w.Tenant("acme").Placement.Key(d.Key.Device, telemetry.DayOf(month.From), 0)
		if moved == 0 && second.Contains(id.Day.Start()) && d.Key != other {
			w.Store.Damage(d.Key, d.ID, nil)
			w.Store.Damage(other, d.ID, bytes.ReplaceAll(d.Doc, []byte(d.Key.TenantShard), []byte(other.TenantShard)))
			moved++
		}
	}
	require.Equal(t, 1, moved)
	rows, res := ask(t, newQuerier(t, w, nil), query.Request{Tenant: "acme", Range: month})
	require.Len(t, rows, 159)
	require.False(t, res.Complete)
}

// What a query visits is its cost.
func TestQueryVisitsPlannedKeys(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0))
	for month := range 5 {
		for day := range 4 {
			for i := range 3 {
				w.Chunk(record(int64(100*month+10*day+i), "m1", noon.AddDate(0, -2*month, -2*day).Add(time.Duration(i)*time.Minute),
					float("x", 1), float("y", 2)))
			}
		}
	}
	q := newQuerier(t, w, nil)
	year := telemetry.Range{From: noon.AddDate(-1, 0, 0).UnixMilli(), To: noon.AddDate(0, 0, 1).UnixMilli()}
	m1 := []string{"m1"}
	for _, c := range []struct {
		name                              string
		r                                 query.Request
		documents, keys, containers, rows int
	}{
		{"a day of a device", query.Request{Devices: m1, Range: telemetry.Range{From: noon.Add(-12 * time.Hour).UnixMilli(),
			To: noon.Add(12 * time.Hour).UnixMilli()}}, 3, 1, 1, 3},
		{"a day of all devices", query.Request{Range: telemetry.Range{From: noon.Add(-12 * time.Hour).UnixMilli(),
			To: noon.Add(12 * time.Hour).UnixMilli()}}, 3, 4, 1, 3},
		{"a year of a device", query.Request{Devices: m1, Range: year}, 60, 5, 5, 60},
		{"all times of a device: months without a container cost nothing", query.Request{Devices: m1, Range: always}, 60, 5,
			5, 60},
		{"all times of all devices", query.Request{Range: always}, 60, 20, 5, 60},
		{"the first rows end early", query.Request{Devices: m1, Range: always, Limit: 2}, 5, 1, 1, 2},
		{"the last rows end early", query.Request{Devices: m1, Range: always, Limit: 2, Descending: true}, 5, 1, 1, 2},
		{"the first rows of all devices read days, not months", query.Request{Range: year, Limit: 2}, 3, 4, 1, 2},
		{"another device", query.Request{Devices: []string{"m9"}, Range: year}, 0, 5, 5, 0},
		{"a device that can't be", query.Request{Devices: []string{"m/1", "😀"}, Range: year}, 0, 0, 0, 0},
		{"another metric", query.Request{Devices: m1, Metrics: []string{"z"}, Range: year}, 60, 5, 5, 0},
		{"nothing", query.Request{Devices: m1, Range: telemetry.Range{From: 7, To: 7}}, 0, 0, 0, 0},
	} {
		c.r.Tenant = "acme"
		rows, res := ask(t, q, c.r)
		require.Len(t, rows, c.rows, c.name)
		require.LessOrEqual(t, res.Stats.Documents, c.documents, c.name)
		require.Equal(t, c.keys, res.Stats.Keys, c.name)
		require.Equal(t, c.containers, res.Stats.Containers, c.name)
		require.True(t, res.Complete, c.name)
	}
}

// Every scan stays under the tenant's own keys, and a name that continues another one is another tenant.
func TestTenantIsolation(t *testing.T) {
	w := querytest.New(t, noon)
	tenants := []string{"acme", "acme-2", "a", "globex"}
	for i, tenant := range tenants {
		r := record(int64(i), "m1", noon.Add(-time.Minute), float(tenant, 1))
		r.Tenant = tenant
		w.Chunk(r)
		h := record(int64(10+i), "m1", noon.Add(-time.Second), float(tenant, 2))
		h.Tenant = tenant
		w.Heads.Set(head(int32(i), 1, 99, 0), h)
	}
	asking := ""
	w.Store.Fault = func(op storetest.Op) *storetest.Fault {
		shard, _, _ := strings.Cut(op.Key.TenantShard, "~")
		if op.Kind == storetest.Scan && shard != asking {
			t.Errorf("%s asks for %+v", asking, op.Key)
		}
		return nil
	}
	for _, asking = range append(tenants, "acm", "acme~5r", "", "nobody") {
		for _, devices := range [][]string{nil, {"m1"}, {"m1", "acme", "m2"}} {
			q := newQuerier(t, w, nil) // one looks unknown names up once a second only
			rows, _ := ask(t, q, query.Request{Tenant: asking, Devices: devices, Range: always})
			for _, r := range rows {
				require.Equal(t, asking, r.Values[0].Metric)
			}
			require.Len(t, rows, map[string]int{"acme": 2, "acme-2": 2, "a": 2, "globex": 2}[asking])
		}
	}
}

func TestUnknownTenantsCostNothing(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0))
	w.Chunk(record(1, "m1", noon.Add(-time.Minute), float("x", 1)))
	reads := 0
	w.Documents.Fault = func(string, string, string) *storetest.Fault {
		reads++
		return nil
	}
	q, d := elsewhere(t, w)
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	reads = 0
	for i := range 1000 {
		w.Now = w.Now.Add(time.Hour)
		rows, res := ask(t, q, query.Request{Tenant: fmt.Sprintf("nobody-%d", i), Range: always})
		require.Empty(t, rows)
		require.True(t, res.Complete)
	}
	require.Zero(t, reads)
}

// A range that begins before anything was written asks nothing of the map that a shorter one does not ask.
func TestUnboundedRangeReadsNoSnapshot(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0))
	w.Chunk(record(1, "m1", noon.Add(-2*time.Minute), float("x", 2)))
	reads := 0
	w.Documents.Fault = func(string, string, string) *storetest.Fault {
		reads++
		return nil
	}
	q, d := elsewhere(t, w)
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	reads = 0
	for range 100 {
		w.Now = w.Now.Add(10 * time.Millisecond)
		rows, _ := ask(t, q, query.Request{Tenant: "acme", Devices: []string{"m1"},
			Range: telemetry.Range{To: noon.UnixMilli()}, Limit: 1})
		require.Len(t, rows, 1)
	}
	require.Zero(t, reads)
}

func TestSnapshotReadError(t *testing.T) {
	w := querytest.New(t, noon)
	w.Heads.Set(head(0, 1, 9, 0))
	w.Chunk(record(1, "m1", noon.Add(-time.Minute), float("x", 1)))
	q, d := elsewhere(t, w)
	_, err := d.Refresh(t.Context())
	require.NoError(t, err)
	w.Chunk(record(2, "m1", noon.AddDate(0, -1, 0), float("x", 1)))
	w.Chunk(record(3, "m1", noon.AddDate(0, 0, 1), float("x", 1)))
	other := record(4, "m1", noon.Add(-time.Minute), float("x", 1))
	other.Tenant = "globex"
	w.Chunk(other)
	w.Documents.Fault = func(op, _, _ string) *storetest.Fault { return &storetest.Fault{Err: errors.New("gone")} }
	_, _, err = tryAsk(t, q, query.Request{Tenant: "acme", Range: lastHour()})
	require.NoError(t, err, "what is known is enough")
	for _, r := range []query.Request{{Tenant: "acme", Range: always}, {Tenant: "globex", Range: lastHour()}} {
		_, _, err = tryAsk(t, q, r)
		require.ErrorIs(t, err, query.ErrUnavailable)
	}
}
