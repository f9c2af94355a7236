package query_test

import (
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/gaps"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// trail stores chunks of m1 with a reading every ten seconds, ten minutes each, with twenty minutes between, and
// answers when each begins.
func trail(w *querytest.World, n int) (begins []int64) {
	offset := int64(0)
	for i := range n {
		var all []querytest.Record
		begin := noon.Add(time.Duration(i-n) * 30 * time.Minute)
		for k := range 60 {
			offset++
			all = append(all, querytest.Record{Position: telemetry.Position{Stream: 1, Offset: offset},
				Reading: telemetry.Reading{Tenant: "acme", Device: "m1",
					Time:   begin.Add(time.Duration(k) * 10 * time.Second).UnixMilli(),
					Fields: []telemetry.Field{{Metric: "v", Value: telemetry.FloatValue(1)}}}})
		}
		w.Chunk(all...)
		begins = append(begins, begin.UnixMilli())
	}
	w.Log.Set(1000)
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 1000, CaughtUp: 500})
	return begins
}

func verdicts(t *testing.T, q *query.Querier, r telemetry.Range) []gaps.Gap {
	t.Helper()
	c, _, err := q.Case(t.Context(), query.GapsRequest{Tenant: "acme", Device: "m1", Range: r})
	require.NoError(t, err)
	return gaps.Judge(c).Gaps
}

// A chunk that is not answered is an alarm where its readings must lie, wherever in its chain it stands, and blames the
// device for no other hole of that day.
func TestAMissingChunkIsNotTheDevicesFault(t *testing.T) {
	for missing := range uint32(4) {
		w := querytest.New(t, noon)
		w.Tenant("acme")
		begins := trail(w, 4)
		q := without(t, w, missing)
		r := telemetry.Range{From: begins[0] - 3600_000, To: noon.UnixMilli()}
		all := verdicts(t, q, r)
		damaged, others := 0, 0
		for _, g := range all {
			switch g.Verdict {
			case gaps.Damaged:
				damaged++
				require.Contains(t, g.Detail, "audit")
				require.LessOrEqual(t, g.From, begins[missing], "chunk %d", missing)
				require.GreaterOrEqual(t, g.To, begins[missing]+590_000, "chunk %d", missing)
			case gaps.Unknown:
				others++
			default:
				require.Fail(t, "blames the device", "chunk %d: %+v", missing, g)
			}
		}
		require.Equal(t, 1, damaged, "chunk %d: %+v", missing, all)
		require.Positive(t, others)
	}
}

// Days whose retention is over are not held against anybody, nor is what is missing before a device was there.
func TestGapsOfDaysThatHaveExpired(t *testing.T) {
	w := querytest.New(t, noon)
	w.Directory = control.NewDirectory(control.DirectoryConfig{Documents: w.Documents, Retention: 24 * time.Hour,
		Now: func() time.Time { return w.Now }})
	w.Tenant("acme")
	begins := trail(w, 2)
	known := controltest.Said("m1", nil, "v")
	known.First, known.Last = begins[0]-10*telemetry.DayMillis, begins[1]
	w.Catalog.Tell("acme", known)
	q := newQuerier(t, w, func(c *query.Config) { c.Log, c.Directory = w.Log, w.Directory })
	all := verdicts(t, q, telemetry.Range{From: noon.UnixMilli() - 4*telemetry.DayMillis, To: noon.UnixMilli()})
	require.Equal(t, gaps.Expired, all[0].Verdict)
	today := telemetry.DayOf(noon.UnixMilli())
	require.Equal(t, (today - 1).Start(), all[0].To, "yesterday is kept still")
	for _, g := range all[1:] {
		require.Equal(t, gaps.Never, g.Verdict)
	}
	require.Len(t, all, 4)
}
