package heat_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"binnacle/internal/heat"

	"github.com/stretchr/testify/require"
)

// fleetDay is what the cuts of one day of a fleet take, by minute from midnight until noon of the next day, folded into
// one day as days follow each other.
type fleetDay struct {
	rus    float64
	minute [24 * 60]float64
}

// wave returns the RU of the busiest window of so many minutes over the mean.
func (d *fleetDay) wave(minutes int) float64 {
	most := 0.0
	for from := 0; from+minutes <= len(d.minute); from += minutes {
		sum := 0.0
		for _, m := range d.minute[from : from+minutes] {
			sum += m
		}
		most = max(most, sum)
	}
	return most * float64(len(d.minute)) / float64(minutes) / d.rus
}

// cutDay cuts a day of a fleet. Of devices with at least some full chunks a day (fromChunks; 0 for none) the first bin
// ends at a part of the target, by the device's phase: at the least at a fraction of it.
func cutDay(f *fleet, fromChunks, least float64) (out fleetDay) {
	count := func(at int64, bytes float64) {
		rus := charged(bytes)
		out.rus += rus
		out.minute[at/heat.Minute%(24*60)] += rus
	}
	for i := range f.devices {
		d := &f.devices[i]
		activity, noise := f.activity(d), rand.New(rand.NewPCG(d.noise, 2))
		fill, began := 0.0, int64(0)
		next := func() float64 { return target * (1 + sizeError*noise.NormFloat64()) }
		most := next()
		if fromChunks > 0 && d.pace*float64(heat.Day) >= fromChunks*target {
			most *= least + (1-least)*d.phase
		}
		for at := int64(0); at < heat.Day; {
			until := (at/heat.Minute + 1) * heat.Minute
			rate := d.pace * activity[heat.Pieces+at*heat.Pieces/heat.Day]
			if fill+rate*float64(until-at) < most {
				fill += rate * float64(until-at)
				at = until
				continue
			}
			at += max(1, int64((most-fill)/max(rate, 1e-12)))
			if most < alone*0.99 && began > 0 && most/float64(at-began)*float64(heat.Day-began) <= alone {
				fill, most = most, alone
				continue
			}
			count(at, most)
			fill, began, most = 0, at, next()
		}
		if fill > 0 {
			count(heat.Day+int64(d.phase*float64(holdMs)), fill)
		}
	}
	return out
}

// TestFirstBins weighs a first bin of a day that ends at a part of the target by the device's phase: what it costs, and
// what it takes from the waves of devices of one pace. Record 7 of docs/internals/adr decides.
func TestFirstBins(t *testing.T) {
	seeds, devices := 3, 1500
	if os.Getenv("BINNACLE_BALANCE_SEEDS") != "" {
		seeds, devices = 11, 50_000
	}
	rows := []struct {
		name              string
		fromChunks, least float64
	}{{"as it is", 0, 0}, {"from 3 chunks a day on, any part", 3, 0}, {"from 8 chunks a day on, any part", 8, 0},
		{"from 8 chunks a day on, half at least", 8, 0.5}}
	var base []float64
	for _, row := range rows {
		var cost, minute, ten, hour []float64
		for seed := range seeds {
			r := rand.New(rand.NewPCG(uint64(seed), 19))
			f := newFleet(devices, behavior{name: "steady"}, heat.Day, r)
			d := cutDay(&f, row.fromChunks, row.least)
			if len(base) < seeds {
				base = append(base, d.rus)
			}
			cost = append(cost, d.rus/base[seed]-1)
			minute, ten, hour = append(minute, d.wave(1)), append(ten, d.wave(10)), append(hour, d.wave(60))
		}
		for _, all := range [][]float64{cost, minute, ten, hour} {
			slices.Sort(all)
		}
		t.Logf("%-40s RU %+5.1f %%; busiest over mean: minute %.2f, 10 minutes %.2f, hour %.2f", row.name,
			cost[seeds/2]*100, minute[seeds/2], ten[seeds/2], hour[seeds/2])
		require.GreaterOrEqual(t, cost[0], -0.01, "smaller chunks are never cheaper")
	}
}
