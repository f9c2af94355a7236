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

// newestNumbers returns a line for each series, with the newest number of the series.
func newestNumbers(t *testing.T, q *query.Querier, r query.Request) (lines []string) {
	_, err := q.Series(t.Context(), r, func(c query.Curve) error {
		var newest string
		for i := range c.Stretches {
			if s := &c.Stretches[i]; s.Kind != telemetry.Text {
				n := len(s.Times) - 1
				newest = fmt.Sprintf("%s %s %s %d %v %x", c.Device, c.Labels, c.Metric, s.Times[n], s.Kind, s.Bits[n])
			}
		}
		if newest != "" {
			lines = append(lines, newest)
		}
		return nil
	})
	require.NoError(t, err)
	return lines
}

// Where only the newest numbers are asked for they are those of the whole series, bit for bit: also where a text that
// was sent later takes the place of a chunk's last number.
func TestNewestNumbersAreThoseOfSeries(t *testing.T) {
	w := querytest.New(t, noon.Add(time.Hour))
	q := newQuerier(t, w, func(c *query.Config) { c.CacheBytes = -1 })
	w.Chunk(record(1, "m1", noon, float("a", 1)), record(2, "m1", noon.Add(time.Minute), float("a", 2)))
	late := record(3, "m1", noon.Add(time.Minute), telemetry.Field{Metric: "a", Value: telemetry.TextValue("off")})
	w.Chunk(late, record(4, "m1", noon.Add(2*time.Minute), float("b", 3)))
	w.Chunk(record(5, "m2", noon, float("a", 4)), record(6, "m2", noon.Add(3*time.Minute), float("a", 5)))
	r := query.Request{Tenant: "acme", Metrics: []string{"a"}, Range: telemetry.Range{To: noon.UnixMilli() + 150_000}}
	want := newestNumbers(t, q, r)
	require.Len(t, want, 2)
	for _, line := range want {
		require.Contains(t, line, fmt.Sprint(noon.UnixMilli()))
	}
	r.Newest = true
	require.Equal(t, want, newestNumbers(t, q, r))

	for seed := range seeds(6) {
		rnd := rand.New(rand.NewPCG(seed, 57))
		w, _ := randomWorld(t, rnd)
		q := newQuerier(t, w, func(c *query.Config) { c.Log = w.Log })
		for range 40 {
			r := randomRequest(rnd, w.Now)
			r.Descending, r.Limit = false, 0
			want := newestNumbers(t, q, r)
			r.Newest = true
			require.Equal(t, want, newestNumbers(t, q, r), "seed %d, %+v", seed, r)
		}
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

// The newest value of a few devices that report costs a query for each key, and decodes no chunk.
func TestLatestDecodesNoChunk(t *testing.T) {
	w := querytest.New(t, noon)
	days(w, []string{"m1", "m2"}, 20, 50)
	q := newQuerier(t, w, func(c *query.Config) { c.CacheBytes, c.Limits.Samples = -1, 1 })
	r := query.Request{Tenant: "acme", Devices: []string{"m1", "m2"}, Metrics: []string{"y"},
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

	r.Newest = true
	require.Len(t, newestNumbers(t, q, r), 2)

	q = newQuerier(t, w, func(c *query.Config) { c.CacheBytes = -1 })
	res, err = q.Readings(t.Context(), query.Request{Tenant: "acme", Devices: []string{"m1"}, Range: always,
		Descending: true, Limit: 1}, func(query.Row) error { return nil })
	require.NoError(t, err)
	require.LessOrEqual(t, res.Stats.Documents, 6, "of sixty: those of the last day, and what is read ahead")
}
