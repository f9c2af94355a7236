package query_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// past is a world at a moment.
type past struct {
	at     int64
	truth  truth
	newest map[string]int64 // instant of each device
}

// pastWorld stores chunks one by one, among them corrections and late ones, and remembers what was stored when. What is
// in the head is in the last state alone.
func pastWorld(t *testing.T, rnd *rand.Rand) (*querytest.World, []past) {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	w.Log.Set(1000, 1000)
	now := past{truth: make(truth), newest: make(map[string]int64)}
	var all []past
	var offsets [2]int64
	take := func(device string, n int, known bool) (records []querytest.Record) {
		partition := rnd.Int32N(2)
		for range n {
			at := noon.Add(-time.Duration(rnd.IntN(30)) * time.Minute)
			r := record(offsets[partition], device, at, float("x", float64(rnd.IntN(3))))
			r.Labels = modelLabels[rnd.IntN(2)]
			if rnd.IntN(3) == 0 {
				r.Fields = append(r.Fields, telemetry.Field{Metric: "y", Value: tameValue(rnd)})
			}
			r.Position.Partition = partition
			offsets[partition]++
			now.truth.take(r)
			if known {
				now.newest[device] = max(now.newest[device], r.Time)
			}
			records = append(records, r)
		}
		return records
	}
	for range 12 {
		w.Now = w.Now.Add(time.Duration(1+rnd.IntN(60)) * time.Second)
		w.Chunk(take([]string{"m1", "m2", "m3"}[rnd.IntN(3)], 1+rnd.IntN(20), true)...)
		all = append(all, past{w.Now.UnixMilli(), maps.Clone(now.truth), maps.Clone(now.newest)})
	}
	w.Now = w.Now.Add(time.Minute)
	var open [2][]querytest.Record
	for _, r := range take("m1", 5, false) {
		open[r.Position.Partition] = append(open[r.Position.Partition], r)
	}
	w.Heads.Set(head(0, 1, 900, 0), open[0]...)
	w.Heads.Set(head(1, 1, 900, 0), open[1]...)
	return w, append(all, past{0, maps.Clone(now.truth), maps.Clone(now.newest)})
}

// What is asked as of a moment is what a map would hold of the chunks that were cut by then.
func TestAsOfMatchesModel(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 33))
			w, all := pastWorld(t, rnd)
			q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
			for i, then := range all {
				r := query.Request{Tenant: "acme", AsOf: then.at, Descending: rnd.IntN(2) == 0,
					Range: telemetry.Range{From: noon.Add(-25 * time.Minute).UnixMilli(), To: noon.UnixMilli()}}
				if rnd.IntN(2) == 0 {
					r.Devices = []string{"m1", "m2"}
				}
				if then.at > 0 && i+1 < len(all)-1 {
					r.AsOf += rnd.Int64N(all[i+1].at - then.at) // up to when the next one was cut
				}
				want, _ := then.truth.answer(r)
				rows, res := ask(t, q, r)
				sameRows(t, want, rows)
				require.True(t, res.Complete, "%v", res.Incomplete)
				n := 0
				_, err := q.Latest(t.Context(), r, func(l query.Last) error { n++; return nil })
				require.NoError(t, err)
				require.Equal(t, len(want) > 0, n > 0)
			}
			require.NotEmpty(t, w.Heads.Requests(), "for the present")
		})
	}
}

// An answer says that what was known may have expired since, and only then.
func TestAsOfBeyondRetentionIsIncomplete(t *testing.T) {
	w := querytest.New(t, noon)
	w.Directory = control.NewDirectory(control.DirectoryConfig{Documents: w.Documents,
		Now: func() time.Time { return w.Now }, Retention: 10 * 24 * time.Hour})
	w.Tenant("acme")
	days(w, []string{"m1"}, 3, 50)
	w.Now = noon.AddDate(0, 0, 9)
	_, err := w.Directory.Refresh(t.Context())
	require.NoError(t, err)
	q := newQuerier(t, w, nil)
	for _, c := range []struct {
		asOf     time.Time
		from     time.Time
		forgoten bool
	}{
		{noon, noon.AddDate(0, 0, -3), true},
		{noon, noon, false},
		{w.Now.Add(-time.Second), noon.AddDate(0, 0, -3), false},
	} {
		r := query.Request{Tenant: "acme", AsOf: c.asOf.UnixMilli(),
			Range: telemetry.Range{From: c.from.UnixMilli(), To: w.Now.UnixMilli()}}
		_, res := ask(t, q, r)
		require.Equal(t, c.forgoten, !res.Complete, "%+v: %v", c, res.Incomplete)
		if c.forgoten {
			require.Contains(t, res.Incomplete[0], "readings of days up to")
		}
	}
}
