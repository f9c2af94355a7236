package prom_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query/prom"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
)

var bucketCases = flag.Int("prom.buckets", 400, "random cases of each function of TestBucketsAreTheSameInAllBits")

// curves are kinds of samples, each of which a value comes after another.
var curves = []func(c chance, before float64) float64{
	func(c chance, before float64) float64 { // a counter with one decimal
		if c.IntN(400) == 0 {
			return 0
		}
		return math.Round((before+float64(c.IntN(300))/10)*10) / 10
	},
	func(c chance, before float64) float64 { // one that falls often
		if c.IntN(6) == 0 {
			return c.Float64()
		}
		return before + c.Float64()
	},
	func(c chance, _ float64) float64 { return float64(c.IntN(1000) - 300) },
	func(c chance, _ float64) float64 { return float64(c.IntN(1000)) / 10 },
	func(c chance, before float64) float64 { return before + c.NormFloat64() },
	func(c chance, _ float64) float64 { return c.NormFloat64() * math.Pow(10, float64(c.IntN(20)-10)) },
	func(c chance, _ float64) float64 { return (c.Float64() - 0.3) * math.MaxFloat64 },
	func(c chance, _ float64) float64 { return math.Float64frombits(c.Uint64()) },
	func(c chance, _ float64) float64 {
		return pick(c, math.NaN(), 0, math.Copysign(0, -1), 1, -1, 2, math.Float64frombits(value.StaleNaN), 5, math.Inf(1),
			math.Inf(-1), math.Float64frombits(0x7ff8_0000_0000_1234))
	},
	func(c chance, _ float64) float64 {
		if c.IntN(20) == 0 {
			return math.Float64frombits(value.StaleNaN)
		}
		return float64(c.IntN(1000)) / 10
	},
	func(c chance, _ float64) float64 { return pick(c, math.Copysign(0, -1), 0) },
}

// samples is a few hours of a series, from a time on, regular or not, with gaps.
func (c chance) samples(from time.Time, next func(chance, float64) float64) (times []int64, values []float64) {
	every := pick(c, 500, 1000, 7000, 10_000, 10_000, 30_000, 60_000, 150_000, int64(900_000))
	jitter := pick(c, 0, 0, 1, int64(300))
	t, v := from.UnixMilli()+pick(c, 0, 0, 1, -1, int64(777)), c.Float64()*1000
	for len(times) < 1000 && t < from.Add(4*time.Hour).UnixMilli() {
		at := t + c.Int64N(2*jitter+1) - jitter
		if n := len(times); n == 0 || at > times[n-1] {
			if value.IsStaleNaN(v) || math.IsNaN(v) {
				v = 0
			}
			v = next(c, v)
			times, values = append(times, at), append(values, v)
		}
		t += every
		if c.IntN(200) == 0 {
			t += c.Int64N((40 * time.Minute).Milliseconds())
		}
	}
	return times, values
}

// window is a leaf of a function over some of the hours after a time, which fits its grid.
func (c chance) window(function string, from time.Time) prom.Window {
	minute := time.Minute.Milliseconds()
	grid := pick(c, minute, minute, 30*minute)
	w := prom.Window{Function: function, Grid: grid, N: 1 + c.IntN(40), Step: int64(1+c.IntN(10)) * grid,
		Range: int64(1+c.IntN(30)) * minute}
	w.First = from.UnixMilli() + (int64(c.IntN(60))-5)*grid
	if grid > minute {
		w.N, w.Range = 1+c.IntN(8), int64(1+c.IntN(4))*grid
	}
	switch function {
	case "", "last_over_time", "present_over_time":
		w.Range = pick(c, w.Range, 5*minute, 97_001)
	}
	if c.IntN(3) == 0 {
		w.Offset = (int64(c.IntN(40)) - 10) * grid
	}
	return w
}

// From buckets pushdowns have the values that they have from samples, in all bits, or they say that they don't know.
// Sums and averages may be off by one unit in the last place.
func TestBucketsEqualSamplesBitForBit(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-prom.seed %d", seed)
	day := telemetry.DayOf(noon.UnixMilli())
	for _, function := range prom.FromBuckets() {
		c := chance{rand.New(rand.NewPCG(seed, 0))}
		points, other, unsure, sums := 0, 0, 0, strings.HasPrefix(function, "sum") || strings.HasPrefix(function, "avg")
		for i := range *bucketCases {
			times, values := c.samples(noon, curves[i%len(curves)])
			w := c.window(function, noon)
			require.True(t, w.Fits(), "%+v", w)
			same := func(what string, got []float64, certain bool) {
				if !certain {
					unsure++
					return
				}
				for k, want := range w.FromSamples(times, values) {
					if !value.IsStaleNaN(want) {
						points++
					}
					if math.Float64bits(want) == math.Float64bits(got[k]) {
						continue
					}
					require.True(t, sums && math.Nextafter(want, got[k]) == got[k], "%+v, case %d from %s, step %d: %v, %v", w,
						i, what, k, want, got[k])
					other++
				}
			}
			got, certain := w.FromBuckets(times, values)
			same("samples", got, certain)
			got, certain = w.FromRollups(day, times, values)
			same("rollups", got, certain)
		}
		t.Logf("%-18s %d cases, %d points, %d of them not the same, %d cases unsure", function, *bucketCases, points, other,
			unsure)
		require.Greater(t, points, *bucketCases)
		if sums { // of twice as many
			require.Less(t, unsure, *bucketCases)
		} else {
			require.Zero(t, unsure)
		}
	}
}

// What does not fall on the grid, and what buckets do not tell, is not computed from them.
func TestWindowsOffTheGrid(t *testing.T) {
	minute := time.Minute.Milliseconds()
	fits := prom.Window{Function: "rate", First: noon.UnixMilli(), Step: 5 * minute, N: 3, Range: 5 * minute, Grid: minute}
	require.True(t, fits.Fits())
	for name, change := range map[string]func(*prom.Window){
		"start":       func(w *prom.Window) { w.First++ },
		"step":        func(w *prom.Window) { w.Step += 30_000 },
		"range":       func(w *prom.Window) { w.Range += 1000 },
		"offset":      func(w *prom.Window) { w.Offset = 1 },
		"grid":        func(w *prom.Window) { w.Grid = 30 * minute },
		"before 1970": func(w *prom.Window) { w.Offset = 100 * 365 * 24 * 60 * minute },
		"two years":   func(w *prom.Window) { w.Range = 730 * 24 * 60 * minute },
		"irate":       func(w *prom.Window) { w.Function = "irate" },
		"idelta":      func(w *prom.Window) { w.Function = "idelta" },
		"changes":     func(w *prom.Window) { w.Function = "changes" },
	} {
		w := fits
		change(&w)
		require.False(t, w.Fits(), name)
	}
	months := fits
	months.Range = 720 * 24 * 60 * minute
	require.True(t, months.Fits())
	instant := prom.Window{First: noon.UnixMilli(), Step: 77, N: 1, Range: 90_001, Grid: 30 * minute}
	require.True(t, instant.Fits(), "one instant has no step, and a last sample may be of any age")
}

// Sums and averages are certain, but for those that nearly vanish, beside what is not finite.
func TestBucketSumsKnowTheirError(t *testing.T) {
	minute := time.Minute.Milliseconds()
	of := func(function string, value func(i int) float64) bool {
		var times []int64
		var values []float64
		for i := range 360 {
			times, values = append(times, noon.UnixMilli()+int64(i)*10_000), append(values, value(i))
		}
		w := prom.Window{Function: function, First: noon.Add(10 * time.Minute).UnixMilli(), Step: 5 * minute, N: 10,
			Range: 5 * minute, Grid: minute}
		_, certain := w.FromBuckets(times, values)
		return certain
	}
	alternating := func(rest float64) func(i int) float64 { // 30 values that add up to 15 rests
		return func(i int) float64 { return float64(1-i%2*2)*0.1 + float64(i%2)*rest }
	}
	for _, kind := range []struct {
		name    string
		value   func(i int) float64
		certain bool
	}{
		{"integers", func(i int) float64 { return float64(i*i%1000 - 300) }, true},
		{"decimals", func(i int) float64 { return float64(i*i%1000) / 10 }, true},
		{"beyond 2^32", func(i int) float64 { return math.Ldexp(float64(i), 33) }, true},
		{"beyond 2^53 in their sum", func(i int) float64 { return math.Ldexp(float64(i), 40) }, true},
		{"integers that vanish", func(i int) float64 { return float64(1 - i%2*2) }, true},
		{"vanishing", func(i int) float64 { return float64(1-i%30/15*2) * float64(i%15+1) / 10 }, false},
		{"nearly vanishing", alternating(0x1p-36), false}, // 30³ × 0.1 > 2^41 × 15 × 2^-36
		{"not quite vanishing", alternating(0x1p-33), true},
		{"zeros", func(i int) float64 { return math.Copysign(0, float64(i%2)-0.5) }, true},
		{"tiny", func(i int) float64 { return math.Ldexp(float64(i)+0.3, -1040) }, false},
		{"infinite", func(i int) float64 { return math.Inf(1 - i%2*2) }, false},
		{"not a number", func(i int) float64 { return math.NaN() }, false},
		{"overflowing", func(i int) float64 { return math.MaxFloat64 / 2 }, false},
	} {
		require.Equal(t, kind.certain, of("sum_over_time", kind.value), fmt.Sprint("sum of ", kind.name))
		require.Equal(t, kind.certain, of("avg_over_time", kind.value), fmt.Sprint("average of ", kind.name))
	}
}

// What is between windows counts for the bound of their values: a NaN there does not hide the infinities before it.
func TestBoundKeepsNaN(t *testing.T) {
	minute := time.Minute.Milliseconds()
	var times []int64
	var values []float64
	for i := range 180 {
		v := 0.1
		if i <= 60 {
			v = math.Inf(1)
		} else if i == 66 {
			v = math.NaN()
		}
		times, values = append(times, noon.UnixMilli()+int64(i)*10_000), append(values, v)
	}
	w := prom.Window{Function: "avg_over_time", First: noon.Add(10 * time.Minute).UnixMilli(), Step: 10 * minute, N: 2,
		Range: 5 * minute, Grid: minute}
	_, certain := w.FromBuckets(times, values)
	require.False(t, certain)
}

// A window's value does not depend on those beside it, of which the first or the last sample may stand at the same
// place, with more samples or fewer between them.
func TestSumsOfWindowsAreIndependent(t *testing.T) {
	const start, length = int64(1_795_176_000_000), int64(300_000)
	var times []int64
	spans := []struct{ last, every int64 }{{290_000, 10_000}, {290_000, 95_000}, {290_000, 19_000}, {290_000, 19_000},
		{200_000, 10_000}}
	for k, s := range spans {
		for at := int64(100_000); at <= s.last; at += s.every {
			times = append(times, start+int64(k)*length+at)
		}
	}
	values := make([]float64, len(times))
	for i := range values {
		values[i] = 1e6 + float64(i)*0.7 - float64(i/40)*20
	}
	for _, function := range []string{"rate", "increase", "delta"} {
		w := prom.Window{Function: function, First: start + length, Step: length, N: len(spans), Range: length, Grid: 60_000}
		together := w.FromSamples(times, values)
		buckets, certain := w.FromBuckets(times, values)
		require.True(t, certain)
		for k := range together {
			one := w
			one.First, one.N = w.First+int64(k)*length, 1
			want := one.FromSamples(times, values)[0]
			require.NotZero(t, want)
			require.Equal(t, math.Float64bits(want), math.Float64bits(together[k]), "%s, window %d", function, k)
			require.Equal(t, math.Float64bits(want), math.Float64bits(buckets[k]), "%s, window %d of buckets", function, k)
		}
	}
}
