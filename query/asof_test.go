package query_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/merge"
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

// Changes between two moments are what two maps differ by.
func TestChangesMatchModel(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 34))
			w, all := pastWorld(t, rnd)
			q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
			found := make(map[merge.How]int)
			for range 30 {
				i := rnd.IntN(len(all) - 1)
				then, now := all[i], all[i+rnd.IntN(len(all)-i)]
				r := query.Request{Tenant: "acme", AsOf: now.at,
					Range: telemetry.Range{From: noon.Add(-25 * time.Minute).UnixMilli(), To: noon.UnixMilli()}}
				if rnd.IntN(2) == 0 {
					r.Metrics = []string{"y"}
				}
				want := differences(then, now, r)
				var got []string
				res, err := q.Changes(t.Context(), r, then.at, func(c query.Change) error {
					found[c.How]++
					got = append(got, changeText(c.How, c.Device, string(c.Labels.AppendKey(nil)), c.Metric, c.Time, c.Was, c.Value))
					return nil
				})
				require.NoError(t, err)
				require.True(t, res.Complete, "%v", res.Incomplete)
				require.Equal(t, want, got)
			}
			for _, how := range merge.Hows {
				require.Positive(t, found[how], how)
			}
		})
	}
}

func changeText(how merge.How, device, labels, metric string, at int64, was, is telemetry.Value) string {
	return fmt.Sprintf("%s %s %q %s %d: %d %v, %d %v", how, device, labels, metric, at, was.Kind(), was, is.Kind(), is)
}

func differences(then, now past, r query.Request) (out []string) {
	keys := slices.SortedFunc(maps.Keys(now.truth), func(a, b instant) int {
		return cmp.Or(strings.Compare(a.device, b.device), now.truth[a].labels.Compare(now.truth[b].labels),
			strings.Compare(a.metric, b.metric), cmp.Compare(a.time, b.time))
	})
	for _, at := range keys {
		if !r.Range.Contains(at.time) || r.Metrics != nil && !slices.Contains(r.Metrics, at.metric) {
			continue
		}
		is, was := now.truth[at], then.truth[at]
		how := merge.New
		switch {
		case was.value == is.value:
			continue
		case was.value.Kind() != 0:
			how = merge.Corrected
		case at.time <= then.newest[at.device]:
			how = merge.Late
		}
		out = append(out, changeText(how, at.device, at.labels, at.metric, at.time, was.value, is.value))
	}
	return out
}

// Of devices of which nothing was stored nothing is decoded.
func TestChangesDecodeWhatWasStored(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 3, 50)
	q := newQuerier(t, w, func(c *query.Config) {
		c.Reader = &altered{w.Store, func(doc []byte) []byte { return spoil(t, doc) }}
	})
	none := func(query.Change) error { return nil }
	_, err := q.Changes(t.Context(), query.Request{Tenant: "acme", Range: always}, noon.UnixMilli(), none)
	require.NoError(t, err)
	_, err = q.Changes(t.Context(), query.Request{Tenant: "acme", Range: always}, noon.UnixMilli()-1, none)
	require.Error(t, err, "it was")
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
		r.AsOf = 0
		res, err := q.Changes(t.Context(), r, c.asOf.UnixMilli(), func(query.Change) error { return nil })
		require.NoError(t, err)
		require.Equal(t, c.forgoten, len(res.Incomplete) > 0 && strings.Contains(strings.Join(res.Incomplete, ""), "expired"))
	}
}
