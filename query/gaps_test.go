package query_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/gaps"
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
	c, _, err := q.Evidence(t.Context(), query.GapsRequest{Tenant: "acme", Device: "m1", Range: r})
	require.NoError(t, err)
	return gaps.Diagnose(c).Gaps
}

// A chunk that is not answered is an alarm where its readings must lie, wherever in its chain it stands, and blames the
// device for no other hole of that day.
func TestGapsMissingChunk(t *testing.T) {
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

// Expired days are not a gap, nor is what is missing before a device was there.
func TestGapsExpiredDays(t *testing.T) {
	w := querytest.New(t, noon)
	w.Directory = control.NewDirectory(control.DirectoryConfig{Documents: w.Documents, Retention: 24 * time.Hour,
		Now: func() time.Time { return w.Now }})
	w.Tenant("acme")
	begins := trail(w, 2)
	known := storetest.Entry("m1", nil, "v")
	known.First, known.Last = begins[0]-10*telemetry.DayMillis, begins[1]
	w.Catalog.AddPage("acme", known)
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

// What is in Kafka when the question is asked and no ingester has read yet is not the device's fault, also where the
// ingester has run for long and is behind; nor is anybody blamed where nobody knows how far the log reaches.
func TestGapsUnreadLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is waited for
		w := querytest.New(t, noon)
		w.Tenant("acme")
		begins := trail(w, 2)
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		r := telemetry.Range{From: begins[0], To: noon.UnixMilli()}
		told := func() (out []gaps.Verdict, complete bool) {
			c, res, err := q.Evidence(t.Context(), query.GapsRequest{Tenant: "acme", Device: "m1", Range: r})
			require.NoError(t, err)
			for _, g := range gaps.Diagnose(c).Gaps {
				out = append(out, g.Verdict)
			}
			return out, res.Complete
		}
		got, complete := told()
		require.Equal(t, []gaps.Verdict{gaps.Never, gaps.Never}, got)
		require.True(t, complete)
		w.Log.Set(1001)
		got, complete = told()
		require.Equal(t, []gaps.Verdict{gaps.Replaying, gaps.Replaying}, got)
		require.False(t, complete)
		w.Log.Fail(errors.New("the broker is away"))
		got, complete = told()
		require.Equal(t, []gaps.Verdict{gaps.Replaying, gaps.Replaying}, got)
		require.False(t, complete)
	})
}

// theHeads is what heads are called that are a part of others.
type theHeads = querytest.Heads

// brokenOff are heads without their rows.
type brokenOff struct{ *theHeads }

func (h brokenOff) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	all, err := h.theHeads.Heads(ctx, r)
	for i := range all {
		all[i].Rows = func(yield func(store.HeadRows, error) bool) {
			yield(store.HeadRows{}, errors.New("the connection broke off"))
		}
	}
	return all, err
}

// What an ingester holds and does not answer is not the device's fault either.
func TestGapsHeadError(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	begins := trail(w, 1)
	q := newQuerier(t, w, func(c *query.Config) { c.Log, c.Heads = w.Log, brokenOff{w.Heads} })
	all := verdicts(t, q, telemetry.Range{From: begins[0], To: noon.UnixMilli()})
	require.Len(t, all, 1)
	require.Equal(t, gaps.Replaying, all[0].Verdict)
	require.Contains(t, all[0].Detail, "some rows in memory of partition telemetry/0 are missing")
}

// A gap that reaches into the range is judged as a whole, from the reading before it, however long ago: a refusal or a
// missing chunk before the range is its cause too.
func TestGapsThatBeginBeforeTheRange(t *testing.T) {
	for _, silent := range []time.Duration{20 * time.Minute, 5 * 24 * time.Hour} {
		w := querytest.New(t, noon)
		w.Tenant("acme")
		begins := trail(w, 1)
		last := begins[0] + 590_000
		w.Now = noon.Add(silent)
		known := storetest.Entry("m1", nil, "v")
		known.First, known.Last = begins[0], last
		w.Catalog.AddPage("acme", known)
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		r := telemetry.Range{From: w.Now.Add(-10 * time.Minute).UnixMilli(), To: w.Now.UnixMilli()}

		spent := &store.Meter{}
		ctx := store.WithMeter(t.Context(), spent)
		c, res, err := q.Evidence(ctx, query.GapsRequest{Tenant: "acme", Device: "m1", Range: r})
		require.NoError(t, err)
		require.Equal(t, spent.Read().RUs, res.Stats.RequestUnits, "what looks further back counts once")
		require.Equal(t, telemetry.Range{From: last, To: r.To}, c.Judged(), "%s", silent)
		d := gaps.Diagnose(c)
		require.Zero(t, d.Readings)
		require.Equal(t, 10*time.Second, d.Expect, "learnt from its last readings")
		require.Equal(t, []gaps.Gap{{Range: r, Began: last, Missing: int((r.To-last+5000)/10_000) - 1, Verdict: gaps.Never,
			Detail: d.Gaps[0].Detail}}, d.Gaps)

		c.Refusals = []gaps.Refusal{{Time: last + 10_000, Published: last + 10_000, Reason: "limit"}}
		d = gaps.Diagnose(c)
		require.Len(t, d.Gaps, 1)
		require.Equal(t, last+10_000, d.Gaps[0].Began, "what was refused before it is no part of the silence")
		c.Refusals, c.Breaks = nil, []gaps.Break{{Range: telemetry.Range{From: last + 1, To: last + 60_000},
			Day: telemetry.DayOf(last), Detail: "lacks a chunk"}}
		d = gaps.Diagnose(c)
		require.Equal(t, gaps.Damaged, d.Gaps[0].Verdict)
		require.Equal(t, r, d.Gaps[0].Range)
	}
}

// The evidence counts in the memory of its query, with what a diagnosis makes of it, until the diagnosis is made.
func TestEvidenceCountsAsMemory(t *testing.T) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	trail(w, 20)
	for bytes, fails := range map[int64]bool{100 << 10: true, 400 << 10: false} {
		q := newQuerier(t, w, func(c *query.Config) { c.Log, c.MemoryBytes, c.TotalMemoryBytes = w.Log, bytes, bytes })
		diagnosed := false
		_, _, err := q.Evidence(t.Context(), query.GapsRequest{Tenant: "acme", Device: "m1", Sequence: "v",
			Range: telemetry.Range{From: noon.Add(-12 * time.Hour).UnixMilli(), To: noon.UnixMilli()},
			Diagnose: func(gaps.Evidence) {
				diagnosed = true
				rest := q.Memory(bytes)
				defer rest.Close()
				require.ErrorIs(t, rest.Take(bytes-20*60*100), query.ErrBusy)
			}})
		if fails {
			require.ErrorAs(t, err, new(*query.LimitError))
			continue
		}
		require.NoError(t, err)
		require.True(t, diagnosed)
		rest := q.Memory(bytes)
		require.NoError(t, rest.Take(bytes), "it gives back what it held")
		rest.Close()
	}
}
