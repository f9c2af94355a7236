package query_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// lastsOf is the newest sample of each series, a line each.
func lastsOf(curves []flatCurve) (lines []string) {
	for _, c := range curves {
		n := len(c.times) - 1
		lines = append(lines, fmt.Sprintf("%s %s %s %d %v %x", c.device, c.labels, c.metric, c.times[n],
			c.values[n].Kind(), bitsOf(c.values[n])))
	}
	return lines
}

func bitsOf(v telemetry.Value) any {
	if v.Kind() == telemetry.Text {
		return v.Text()
	}
	return v.Bits()
}

// asked is the newest values that an endpoint answers, as lastsOf has them.
func asked(into *[]string) func(query.Last) error {
	return func(l query.Last) error {
		*into = append(*into, fmt.Sprintf("%s %s %s %d %v %x", l.Device, l.Labels.AppendKey(nil), l.Metric, l.Time,
			l.Value.Kind(), bitsOf(l.Value)))
		return nil
	}
}

// The newest values are the last ones of the series, however these are cut, resent and overlapped.
func TestLatestMatchesModel(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 55))
			w, truth := randomWorld(t, rnd)
			q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
			for range 40 {
				r := randomRequest(rnd, w.Now)
				r.Descending, r.Limit = false, 0
				var got []string
				res, err := q.Latest(t.Context(), r, asked(&got))
				require.NoError(t, err)
				require.True(t, res.Complete, "%v", res.Incomplete)
				require.Equal(t, lastsOf(truth.curves(r)), got, "%+v", r)
			}
		})
	}
}

// Nearest finds each metric of each device that has a value in the longest look, and none but newest values.
func TestNearestLooksBackStepwise(t *testing.T) {
	found := 0
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 56))
		w, truth := randomWorld(t, rnd)
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		for range 30 {
			r := randomRequest(rnd, w.Now)
			if r.Devices == nil {
				r.Devices = []string{"m1"}
			}
			r.Descending, r.Limit = false, 0
			r.Range.To = modelStart.UnixMilli() + rnd.Int64N((modelDays+5)*telemetry.DayMillis)
			r.Range.From = max(0, r.Range.To-31*telemetry.DayMillis)
			var got []string
			_, err := q.Nearest(t.Context(), r, asked(&got))
			require.NoError(t, err)
			want := truth.curves(r)
			require.Subset(t, lastsOf(want), got, "seed %d, %+v", seed, r)
			pairs := func(curves []flatCurve, lines []string) map[string]bool {
				out := make(map[string]bool)
				for i, line := range lastsOf(curves) {
					for _, l := range lines {
						of := curves[i].device
						if r.Metrics != nil {
							of += " " + curves[i].metric
						}
						out[of] = out[of] || l == line
					}
				}
				return out
			}
			for of, there := range pairs(want, got) {
				require.True(t, there, "seed %d: %s of %+v", seed, of, r)
				found++
			}
		}
	}
	require.Greater(t, found, 100)
}

// The newest value of a few devices that report costs a query for each key, and decodes one chunk for each.
func TestLatestDecodesFewChunks(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 20, 50)
	q := newQuerier(t, w, func(c *query.Config) { c.CacheBytes = -1 })
	r := query.Request{Tenant: "acme", Devices: []string{"m1", "m2"}, Metrics: []string{"x"},
		Range: telemetry.Range{To: noon.UnixMilli()}}
	var got []string
	res, err := q.Nearest(t.Context(), r, asked(&got))
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, 2, w.Store.Calls(storetest.Scan))
	require.Equal(t, 6, res.Stats.Documents, "those of an hour")
	r.Range.To = noon.Add(5 * time.Hour).UnixMilli()
	got = nil
	res, err = q.Nearest(t.Context(), r, asked(&got))
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, 2+4, w.Store.Calls(storetest.Scan), "an hour, then a day, and not a month")

	res, err = q.Readings(t.Context(), query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: always,
		Descending: true, Limit: 1}, func(query.Row) error { return nil })
	require.NoError(t, err)
	require.LessOrEqual(t, res.Stats.Documents, 6, "of sixty: those of the last day, and what is read ahead")
}
