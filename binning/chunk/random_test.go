package chunk_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// randomFrame is a valid frame of up to so many rows: several label sets, clocks, kinds, gaps, and metrics with a kind
// that changes.
func randomFrame(r *rand.Rand, rows int) chunk.Frame {
	var f chunk.Frame
	day := telemetry.Day(20_000 + r.IntN(1000))
	for i := range 1 + r.IntN(3) {
		g := chunk.Group{Times: randomTimes(r, day, 1+r.IntN(rows))}
		if i > 0 {
			g.Labels = telemetry.Labels{{Name: "axle", Value: fmt.Sprint(i, "\"\\\x01é😀<")}}
		}
		for j := range 1 + r.IntN(4) {
			g.Columns = append(g.Columns, randomColumns(r, fmt.Sprint("metric ", j), len(g.Times))...)
		}
		f.Groups = append(f.Groups, g)
	}
	return f
}

// randomTimes are n instants of a day on one of several clocks.
func randomTimes(r *rand.Rand, day telemetry.Day, n int) []int64 {
	period := []int64{1, 7, 1000, 10_000}[r.IntN(4)]
	shape := r.IntN(4)
	at := day.Start() + r.Int64N(1000)
	times := make([]int64, n)
	for i := range times {
		times[i] = at
		switch shape {
		case 0:
			at += period
		case 1:
			at += period * (1 + r.Int64N(3)/2)
		case 2:
			at += 1 + r.Int64N(2*period)
		case 3:
			at = max(at+1, day.Start()+int64(i)*period+r.Int64N(period/50+1))
		}
	}
	if times[n-1] >= day.End() {
		return randomTimes(r, day, n)
	}
	return times
}

// randomColumns are one or two columns of a metric, of different kinds and without a common row.
func randomColumns(r *rand.Rand, metric string, rows int) []chunk.Column {
	kinds := r.Perm(4)[:1+r.IntN(2)]
	if rows < 2 {
		kinds = kinds[:1]
	}
	if len(kinds) == 2 && kinds[0] > kinds[1] {
		kinds[0], kinds[1] = kinds[1], kinds[0]
	}
	present := make([]chunk.Bitmap, len(kinds))
	for i := range present {
		present[i] = chunk.NewBitmap(rows)
		present[i].Set(i)
	}
	share := []float64{0, 0.01, 0.5, 1}[r.IntN(4)]
	for row := len(kinds); row < rows; row++ {
		if r.Float64() < share || share == 0 {
			present[r.IntN(len(kinds))].Set(row)
		}
	}
	var out []chunk.Column
	for i, k := range kinds {
		c := chunk.Column{Metric: metric, Kind: telemetry.Kind(k + 1), Present: present[i]}
		n := c.Present.Count()
		if n == rows {
			c.Present = nil
		}
		if c.Kind == telemetry.Text {
			c.Texts = randomTexts(r, n)
		} else {
			c.Bits = randomBits(r, c.Kind, n)
		}
		out = append(out, c)
	}
	return out
}

func randomTexts(r *rand.Rand, n int) []string {
	v := make([]string, n)
	distinct := 1 + r.IntN(2*n)
	for i := range v {
		v[i] = []string{"", "idle", "running \x00\xff", "Störung 😀"}[r.IntN(4)] + fmt.Sprint(r.IntN(distinct))
	}
	return v
}

// randomBits are values of one of many shapes, some with odd ones strewn in.
func randomBits(r *rand.Rand, kind telemetry.Kind, n int) []uint64 {
	v := make([]uint64, n)
	odd := oddFloats()
	strays := []float64{0, 0, 0.05, 1}[r.IntN(4)]
	next := randomShape(r, kind)
	for i := range v {
		switch v[i] = next(i); {
		case kind == telemetry.Bool:
			v[i] &= 1
		case r.Float64() < strays:
			v[i] = odd[r.IntN(len(odd))] // as an int, just as odd
		}
	}
	return v
}

func randomShape(r *rand.Rand, kind telemetry.Kind) func(i int) uint64 {
	value := func(f float64) uint64 {
		if kind == telemetry.Float {
			return math.Float64bits(f)
		}
		return uint64(int64(f))
	}
	at, slope, digits := r.NormFloat64()*1e6, r.NormFloat64()*1e3, math.Pow10(r.IntN(10))
	few := make([]uint64, 1+r.IntN(40))
	for i := range few {
		few[i] = r.Uint64()
	}
	switch r.IntN(9) {
	case 0:
		return func(int) uint64 { return r.Uint64() }
	case 1:
		return func(int) uint64 { return value(at) }
	case 2:
		return func(i int) uint64 { return value(at + slope*float64(i)) }
	case 3:
		return func(i int) uint64 { return value(at + slope*float64(i)*float64(i)) }
	case 4:
		return func(int) uint64 {
			at += slope * r.NormFloat64()
			return value(math.Round(at*digits) / digits)
		}
	case 5:
		return func(int) uint64 { return value(float64(float32(math.Round(r.Float64()*digits) / digits))) }
	case 6:
		return func(int) uint64 { return few[r.IntN(len(few))] }
	case 7:
		return func(i int) uint64 { return uint64(1) << 63 >> (i % 2) >> r.IntN(2) }
	}
	return func(i int) uint64 {
		if r.IntN(20) == 0 {
			at = math.Round(r.Float64() * 5000)
		}
		return value(at)
	}
}
