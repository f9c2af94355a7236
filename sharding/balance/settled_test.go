package balance_test

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"binnacle/sharding/epk"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

func equal(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1 / float64(n)
	}
	return out
}

func zipf(n int) []float64 {
	out, sum := make([]float64, n), 0.0
	for i := range out {
		out[i] = math.Pow(float64(i+1), -1.1)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

type mix struct {
	name   string
	shares []float64
	device float64 // part of the load that one device takes
}

var mixes = []mix{
	{"whale of 80 %", append([]float64{0.8}, slices.Repeat([]float64{0.2 / 9}, 9)...), 0},
	{"ten equal", equal(10), 0},
	{"200 by Zipf", zipf(200), 0},
	{"1,000 by Zipf", zipf(1000), 0},
	{"a device of 20 %", equal(10), 0.2},
}

var (
	seeds  = flag.Int("balance.seeds", 0, "seeds of each mix of TestSettled and TestSeason; 0 is a few of some mixes")
	tables = flag.String("balance.tables", "", "file that the tables of TestSettled and TestSeason are appended to")
)

// settled lets a world settle, and returns hottest over mean of the days after.
func settled(m mix, seed uint64, devices, n, splits int, others float64) (ratios []float64) {
	w := newWorld(seed, m.shares, devices, others)
	if m.device > 0 {
		sum := 0.0
		for _, t := range w.tenants {
			for _, d := range t.devices {
				sum += d.rate
			}
		}
		w.tenants[0].devices[0].rate = sum * m.device / (1 - m.device)
	}
	w.ranges = epk.Split(n)
	w.split(splits)
	for day := range 7 {
		ratio, known := w.live()
		if day >= 4 {
			ratios = append(ratios, ratio)
		}
		w.decide(known)
	}
	return ratios
}

func quantile(values []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// bars are the bounds of hottest over mean, once settled: of the median, and of the 95th percentile of seeds and days.
var bars = map[int]struct{ median, p95 float64 }{1000: {1.2, 1.3}, 5000: {1.10, 1.15}, 50_000: {1.055, 1.10}}

// Physical partitions are evenly loaded once a container has settled, whatever the mix, the number of partitions and
// their ranges, and whether chunks or readers make the load.
func TestSettled(t *testing.T) {
	run, few := 1, *seeds == 0
	if !few {
		run = *seeds
	}
	for _, m := range mixes {
		for _, devices := range []int{1000, 5000, 50_000} {
			var lines []string
			for _, n := range []int{5, 10, 20} {
				for _, splits := range []int{0, 3} {
					var cells []string
					for _, others := range []float64{0, 0.65} {
						if few && (devices != 5000 || (splits > 0) != (others > 0) || n != 5+5*splits) {
							continue
						}
						var all []float64
						for seed := range run {
							all = append(all, settled(m, uint64(seed), devices, n, splits, others)...)
						}
						middle, p95 := quantile(all, 0.5), quantile(all, 0.95)
						at := fmt.Sprintf("%s, %d devices, %d partitions and %d splits, %.0f %% readers, seeds 0 to %d", m.name,
							devices, n, splits, 100*others, run-1)
						median := bars[devices].median
						if m.device > 0 {
							median = max(median, 1.07) // few keys, each a large part of a partition
						}
						if !few {
							assert.LessOrEqual(t, middle, median, at)
						}
						assert.LessOrEqual(t, p95, bars[devices].p95, at)
						cells = append(cells, fmt.Sprintf("%.2f %.2f %.2f", middle, p95, quantile(all, 1)))
					}
					name := fmt.Sprint(n)
					if splits > 0 {
						name = fmt.Sprintf("%d+%d", n, splits)
					}
					lines = append(lines, fmt.Sprintf("| %s | %d | %s | %s |", m.name, devices, name, strings.Join(cells, " | ")))
				}
			}
			table(t, lines)
		}
	}
}

// table appends lines to the file of the tables, if there is one.
func table(t *testing.T, lines []string) {
	if *tables == "" {
		return
	}
	f, err := os.OpenFile(*tables, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = fmt.Fprintln(f, strings.Join(lines, "\n"))
	require.NoError(t, errors.Join(err, f.Close()))
}

// Devices with several keys have no rollups, so there must be few of them: docs/internals/adr has what they cost.
func TestSpreadDevicesAreFew(t *testing.T) {
	for _, c := range []struct{ devices, n, most int }{{1000, 20, 130}, {5000, 10, 0}, {5000, 20, 1}, {20_000, 20, 0}} {
		w := newWorld(1, mixes[0].shares, c.devices, 0)
		w.ranges = epk.Split(c.n)
		for range 4 {
			_, known := w.live()
			w.decide(known)
		}
		spread, load, whole := 0, 0.0, 0.0
		for _, x := range w.tenants {
			heavy := x.placement.EpochOn(w.day).Heavy
			for _, d := range x.devices {
				if whole += d.rate; len(heavy[d.name]) > 1 {
					spread, load = spread+1, load+d.rate
				}
			}
		}
		t.Logf("%d devices, %d partitions: %d have several keys, with %.0f %% of the chunks", c.devices, c.n, spread,
			100*load/whole)
		require.LessOrEqual(t, spread, c.most, "%d devices, %d partitions", c.devices, c.n)
	}
}
