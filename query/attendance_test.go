package query_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// What is stored in chunks of one hour and of many, and what is in memory, is there; nothing else is.
func TestAttendanceMatchesModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := querytest.New(t, noon)
	w.Tenant("acme")
	r := telemetry.Range{From: noon.Add(-24 * time.Hour).UnixMilli(), To: noon.UnixMilli()}
	hour := time.Hour.Milliseconds()
	want := map[string][]bool{}
	offset := int64(0)
	var open []querytest.Record
	for i := range 30 {
		device := fmt.Sprintf("m%02d", i)
		at := r.From - hour
		for range random.IntN(8) {
			var chunk []querytest.Record
			for range 1 + random.IntN(5) {
				offset++
				chunk = append(chunk, querytest.Record{Position: telemetry.Position{Stream: 1, Offset: offset},
					Reading: telemetry.Reading{Tenant: "acme", Device: device, Time: at,
						Fields: []telemetry.Field{{Metric: "v", Value: telemetry.FloatValue(1)}}}})
				if r.Contains(at) {
					if want[device] == nil {
						want[device] = make([]bool, 24)
					}
					want[device][(at-r.From)/hour] = true
				}
				if next := at + 1 + random.Int64N(2*hour); telemetry.DayOf(next) == telemetry.DayOf(at) {
					at = next
				} else {
					break
				}
			}
			if random.IntN(4) == 0 {
				open = append(open, chunk...)
			} else {
				w.Chunk(chunk...)
			}
			at += 1 + random.Int64N(4*hour)
		}
	}
	w.Log.Set(100_000)
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 100_000, CaughtUp: 50}, open...)
	q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
	ask := query.AttendanceRequest{Tenant: "acme", Range: r, Step: time.Hour, Limit: 1000}
	found, res, err := q.Attendance(t.Context(), ask)
	require.NoError(t, err)
	require.True(t, res.Complete, res.Incomplete)
	got := map[string][]bool{}
	for _, d := range found {
		for _, present := range d.Present {
			if present {
				got[d.Device] = d.Present
			}
		}
	}
	require.Equal(t, want, got)
	ask.Prefix = "m1"
	some, _, err := q.Attendance(t.Context(), ask)
	require.NoError(t, err)
	for _, d := range some {
		require.Regexp(t, "^m1", d.Device)
	}
	ask.Prefix = "nobody"
	none, res, err := q.Attendance(t.Context(), ask)
	require.NoError(t, err)
	require.Empty(t, none, "devices that were not asked for")
	require.Zero(t, res.Stats.Documents+res.Stats.Cached)
	require.True(t, res.Complete)
	other, _, err := q.Attendance(t.Context(), query.AttendanceRequest{Tenant: "globex", Range: r, Step: time.Hour,
		Limit: 10})
	require.NoError(t, err)
	require.Empty(t, other)
}

// A fleet is one answer.
func TestAttendanceOfAFleet(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	const n = 1000
	for i := range int64(n) {
		at := noon.Add(-time.Duration(i%24)*time.Hour).UnixMilli() - 1
		w.Chunk(querytest.Record{Position: telemetry.Position{Stream: 1, Offset: i},
			Reading: telemetry.Reading{Tenant: "acme", Device: fmt.Sprintf("m%05d", i), Time: at,
				Fields: []telemetry.Field{{Metric: "v", Value: telemetry.FloatValue(1)}}}})
	}
	w.Log.Set(n)
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: n, CaughtUp: 0})
	q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
	found, res, err := q.Attendance(t.Context(), query.AttendanceRequest{Tenant: "acme", Step: time.Hour, Limit: n,
		Range: telemetry.Range{From: noon.Add(-24 * time.Hour).UnixMilli(), To: noon.UnixMilli()}})
	require.NoError(t, err)
	require.True(t, res.Complete, res.Incomplete)
	require.Len(t, found, n)
	for i, d := range found {
		require.True(t, d.Present[23-i%24], d.Device)
	}
}

// silentOfNews are heads that tell their rows, and not which devices are new.
type silentOfNews struct{ *theHeads }

func (silentOfNews) CatalogUpdates(context.Context, string) (store.HeadUpdates, error) {
	return store.HeadUpdates{}, errors.New("away")
}

// Where the list of devices may lack some, the answer that goes by it is not complete.
func TestAttendanceWithIncompleteCatalog(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	w.Log.Set(10)
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 10, CaughtUp: 0})
	q := newQuerier(t, w, func(c *query.Config) { c.Log, c.Heads = w.Log, silentOfNews{w.Heads} })
	_, res, err := q.Attendance(t.Context(), query.AttendanceRequest{Tenant: "acme", Step: time.Hour, Limit: 10,
		Prefix: "m", Range: telemetry.Range{From: noon.Add(-time.Hour).UnixMilli(), To: noon.UnixMilli()}})
	require.NoError(t, err)
	require.False(t, res.Complete)
	require.Equal(t, []string{"new devices may be missing: not all ingesters answer and are caught up"}, res.Incomplete)
	_, gaps, err := q.Evidence(t.Context(), query.GapsRequest{Tenant: "acme", Device: "m1",
		Range: telemetry.Range{From: noon.Add(-time.Hour).UnixMilli(), To: noon.UnixMilli()}})
	require.NoError(t, err)
	require.Equal(t, res.Incomplete, gaps.Incomplete, "it is not known when the device was there first")
}
