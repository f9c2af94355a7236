package heat_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"binnacle/internal/heat"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// The bar of the forecast: of the RU by hour and physical partition, where an hour has that many chunks and more.
const (
	leastChunks = 50
	medianError = 0.05
	p95Error    = 0.18
)

var leads = []int{1, 3, 6} // hours ahead

// trial makes one forecast of a fleet and returns its relative errors by lead. Of a device it knows what a restart
// leaves: its open bins, and the span of the chunk before. Between the forecast and what it is about there is another
// restart, which changes nothing: cuts follow from devices and days.
func trial(f fleet, layouts [][]float64) (errs [][][]float64) {
	shapes := make([]heat.Shape, f.tenants)
	for t, came := range f.yesterday() {
		shapes[t] = heat.NewShape(came)
	}
	const hours = 8
	type sums struct {
		was, said [hours]float64
		chunks    [hours]int
	}
	by := make([][]sums, len(layouts))
	for l, starts := range layouts {
		by[l] = make([]sums, len(starts))
	}
	for i := range f.devices {
		d := &f.devices[i]
		activity := f.activity(d)
		cuts, open := f.run(d, &activity)
		one := heat.NewForecaster(f.now, charged)
		for _, b := range open {
			b.Keys = []heat.Key{{Container: "c", Shard: "k"}}
			b.Tomorrow, b.Cutting = b.Keys, heat.Cutting{Target: target, Alone: alone}
			one.Add(&b, &shapes[d.tenant])
		}
		said := one.Forecast()
		for l, starts := range layouts {
			s := &by[l][partitionAt(starts, d.place)]
			for _, c := range cuts {
				if h := (c.at - f.now) / heat.Hour; h < hours {
					s.was[h] += c.rus
					s.chunks[h]++
				}
			}
			for _, e := range said.Cells {
				for h := range hours {
					s.said[h] += e.RUs[h]
				}
			}
		}
	}
	errs = make([][][]float64, len(layouts))
	for l := range layouts {
		errs[l] = make([][]float64, len(leads))
		for _, s := range by[l] {
			for i, h := range leads {
				if s.chunks[h] >= leastChunks {
					errs[l][i] = append(errs[l][i], math.Abs(s.said[h]-s.was[h])/s.was[h])
				}
			}
		}
	}
	return errs
}

// TestForecastBar holds the forecast to its bar, over fleets, partitions and seeds. BINNACLE_BALANCE_SEEDS sets the
// number of seeds: make balance runs 100.
func TestForecastBar(t *testing.T) {
	seeds, devices := 4, []int{6000}
	if text := os.Getenv("BINNACLE_BALANCE_SEEDS"); text != "" {
		_, err := fmt.Sscan(text, &seeds)
		require.NoError(t, err)
		devices = []int{5000, 20_000}
	}
	for _, b := range []behavior{{"steady", false, false}, {"diurnal", true, false}, {"partly silent", false, true},
		{"diurnal, partly silent", true, true}} {
		shapes := []struct{ n, splits int }{{5, 0}, {10, 0}, {20, 0}, {5, 3}, {10, 3}, {20, 3}}
		all := make([][][]float64, len(shapes))
		for l := range all {
			all[l] = make([][]float64, len(leads))
		}
		for seed := range uint64(seeds) {
			r := rand.New(rand.NewPCG(seed, 18))
			midnight := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).UnixMilli()
			now := midnight + int64(seed*7%24)*heat.Hour
			f := newFleet(devices[seed%uint64(len(devices))], b, now, r)
			var layouts [][]float64
			for _, s := range shapes {
				layouts = append(layouts, layout(s.n, s.splits, r))
			}
			for l, byLead := range trial(f, layouts) {
				for i, errs := range byLead {
					all[l][i] = append(all[l][i], errs...)
				}
			}
		}
		for l, s := range shapes {
			for i, lead := range leads {
				errs := all[l][i]
				if len(errs) < 30 {
					continue // too few hours with so many chunks
				}
				slices.Sort(errs)
				median, p95 := errs[len(errs)/2], errs[len(errs)*95/100]
				t.Logf("%-24s %2d partitions + %d splits, %d h ahead: median %.1f %%, p95 %.1f %% of %d", b.name, s.n, s.splits,
					lead, median*100, p95*100, len(errs))
				require.LessOrEqual(t, median, medianError)
				require.LessOrEqual(t, p95, p95Error)
			}
		}
	}
}

// All that is expected of a bin within the forecast is in some hour, and the rests of a day under the key of their
// number.
func TestForecastOfABin(t *testing.T) {
	cutting := heat.Cutting{Target: 1000, Alone: 1250}
	charge := func(bytes float64) float64 { return bytes }
	even := heat.NewShape([heat.Pieces]float64{})
	midnight := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).UnixMilli()
	now := midnight + 14*heat.Hour
	keys := []heat.Key{{Container: "c", Shard: "a", Slot: sharding.Slot(1)}, {Container: "c", Shard: "b"}}

	f := heat.NewForecaster(now, charge)
	f.Add(&heat.OpenBin{Keys: keys, Cutting: cutting, DayEnd: midnight, Due: now + 2*heat.Hour + 1,
		Began: midnight - heat.Hour, Bytes: 300}, &even)
	got := f.Forecast()
	require.Len(t, got.Cells, 1)
	require.InDelta(t, 300, got.Cells[0].RUs[2], 1e-9, "size and due time of a day that is over are known")

	f = heat.NewForecaster(now, charge) // 100 bytes an hour: full at 16:00, of the rest of the day 800 are left
	f.Add(&heat.OpenBin{Keys: keys, Cutting: cutting, DayEnd: midnight + heat.Day, Due: midnight + heat.Day + heat.Hour,
		Began: now - 8*heat.Hour, Bytes: 800}, &even)
	got = f.Forecast()
	require.Len(t, got.Cells, 2)
	require.InDelta(t, 1000, got.Cells[0].RUs[1]+got.Cells[0].RUs[2], 1e-9)
	require.InDelta(t, 800, got.Cells[1].RUs[11], 1e-6)

	f = heat.NewForecaster(now, charge) // 10 bytes an hour: the whole day is one document, due after midnight
	f.Add(&heat.OpenBin{Keys: keys, Cutting: cutting, Tomorrow: keys, DayEnd: midnight + heat.Day,
		Due: midnight + heat.Day + heat.Hour, Began: midnight, Bytes: 140}, &even)
	got = f.Forecast()
	require.Len(t, got.Cells, 1)
	require.InDelta(t, 240, got.Cells[0].RUs[11], 1e-6)
}
