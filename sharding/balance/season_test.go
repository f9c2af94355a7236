package balance_test

import (
	"fmt"
	"math"
	"testing"

	"binnacle/internal/telemetry"
	"binnacle/sharding/epk"

	"github.com/stretchr/testify/assert"
)

// season lets 90 days pass in which tenants grow, rest at weekends, double and halve, and come. Each month has a new
// container, and one range of it splits in the middle of the month.
func season(m mix, seed uint64, devices, n int, others float64) (ratios []float64, epochs int) {
	w := newWorld(seed, m.shares, devices, others)
	w.ranges = epk.Split(n)
	growth := make([]float64, len(w.tenants))
	turn := make([]float64, len(w.tenants))
	born := make([]int, len(w.tenants))
	level := make([]float64, len(w.tenants))
	for i, t := range w.tenants {
		growth[i], turn[i], level[i] = math.Log(1.05)+0.15*w.rnd.NormFloat64(), w.rnd.Float64(), 1
		if w.rnd.Float64() < 0.5 {
			t.weekend = 0.6
		}
		if w.rnd.Float64() < 0.1 && i > 0 {
			born[i] = w.rnd.IntN(90)
		}
	}
	const settle, length = 3, 90
	for day := -settle; day < length; day++ {
		at := telemetry.Day(w.day)
		if at == telemetry.DayOf(at.Month().Range().From) {
			w.ranges = epk.Split(n)
			w.split(0)
		}
		if int(at-telemetry.DayOf(at.Month().Range().From)) == 15 {
			w.split(1)
		}
		for i, t := range w.tenants {
			if day >= 0 && w.rnd.Float64() < 0.005 {
				level[i] *= math.Pow(2, float64(1-2*w.rnd.IntN(2)))
			}
			year := 1 + 0.2*math.Sin(2*math.Pi*(float64(day)/90+turn[i]))
			t.level = level[i] * math.Exp(growth[i]*float64(day)/30) * year * math.Exp(0.05*w.rnd.NormFloat64())
			if born[i] > 0 && day < born[i] {
				t.level = 0
			}
		}
		ratio, known := w.live()
		if day >= 0 {
			ratios = append(ratios, ratio)
		}
		if day == 0 {
			w.epochs = 0
		}
		if day < length-1 {
			w.decideAhead(known, n)
		}
	}
	return ratios, w.epochs
}

// Over 90 days with growth, weekends, doublings, new tenants and splits, most days are even, and few epochs are made.
func TestSeason(t *testing.T) {
	devices, run := 20_000, *seeds
	if run == 0 {
		devices, run = 5000, 1
	}
	var lines []string
	for _, m := range mixes[:3] {
		for _, n := range []int{5, 10, 20} {
			for _, others := range []float64{0, 0.65} {
				if *seeds == 0 && (n != 10 || others == 0 || len(m.shares) == 10 && m.shares[0] > 0.5) {
					continue
				}
				var all []float64
				good, epochs := 0, 0
				for seed := range run {
					r, e := season(m, uint64(seed), devices, n, others)
					all, epochs = append(all, r...), epochs+e
				}
				for _, r := range all {
					if r <= 1.15 {
						good++
					}
				}
				const months = 3
				even, least := float64(good)/float64(len(all)), 0.93
				if n == 20 {
					least = 0.85
				}
				rate, most := float64(epochs)/float64(run*months*len(m.shares)), 3.0
				if len(m.shares) > 100 {
					most = 0.3
				}
				at := fmt.Sprintf("%s, %d partitions, %.0f %% readers, seeds 0 to %d", m.name, n, 100*others, run-1)
				if *seeds > 0 { // few devices are as uneven as few are
					assert.GreaterOrEqual(t, even, least, at)
				}
				assert.GreaterOrEqual(t, even, 0.8, at)
				assert.LessOrEqual(t, rate, most, at)
				lines = append(lines, fmt.Sprintf("| %s | %d | %.0f %% | %.2f %.2f %.2f | %.1f %% | %.2f |", m.name, n, 100*others,
					quantile(all, 0.5), quantile(all, 0.95), quantile(all, 1), 100*even, rate))
			}
		}
	}
	table(t, lines)
}
