package chunk_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// point is one value, the unit that test data is put together from.
type point struct {
	time   int64
	metric string
	value  telemetry.Value
}

// frameOf makes a frame without labels; of two values at one place the later wins, whatever its kind.
func frameOf(points []point) chunk.Frame {
	slices.SortStableFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.time, b.time))
	})
	kept := points[:0]
	for i, p := range points {
		if i+1 == len(points) || points[i+1].metric != p.metric || points[i+1].time != p.time {
			kept = append(kept, p)
		}
	}
	g := chunk.Group{}
	rows := map[int64]int{}
	for _, p := range kept {
		g.Times = append(g.Times, p.time)
	}
	slices.Sort(g.Times)
	g.Times = slices.Compact(g.Times)
	for i, t := range g.Times {
		rows[t] = i
	}
	slices.SortStableFunc(kept, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.value.Kind(), b.value.Kind()))
	})
	for i := 0; i < len(kept); {
		c := chunk.Column{Metric: kept[i].metric, Kind: kept[i].value.Kind(), Present: chunk.NewBitmap(len(g.Times))}
		for ; i < len(kept) && kept[i].metric == c.Metric && kept[i].value.Kind() == c.Kind; i++ {
			c.Present.Set(rows[kept[i].time])
			if c.Kind == telemetry.Text {
				c.Texts = append(c.Texts, kept[i].value.Text())
			} else {
				c.Bits = append(c.Bits, kept[i].value.Bits())
			}
		}
		if c.Len() == len(g.Times) {
			c.Present = nil
		}
		g.Columns = append(g.Columns, c)
	}
	return chunk.Frame{Groups: []chunk.Group{g}}
}

// split cuts points into frames of at most rows instants that stay within their day.
func split(points []point, rows int) []chunk.Frame {
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.time, b.time) })
	var out []chunk.Frame
	for from := 0; from < len(points); {
		day, instants, to := telemetry.DayOf(points[from].time), 0, from
		for ; to < len(points) && telemetry.DayOf(points[to].time) == day; to++ {
			if to == from || points[to].time != points[to-1].time {
				if instants == rows {
					break
				}
				instants++
			}
		}
		out = append(out, frameOf(slices.Clone(points[from:to])))
		from = to
	}
	return out
}

// headerOf is a header under which f can be encoded.
func headerOf(f chunk.Frame) chunk.Header {
	return chunk.Header{
		ID:          chunk.ID{Day: telemetry.DayOf(f.Groups[0].Times[0]), Stream: 1, Partition: 3, Number: 17},
		TenantShard: "acme~cg", Device: "truck-0042",
		Readings: f.Rows(), First: 1234567, Through: 1306000, After: 1234501, Cut: 1795186791000, TTL: 7808400,
	}
}

const fleetSeed = 7

// truckPoints are rows of one truck of the simulated fleet, 10 s apart, from an hour after midnight.
func truckPoints(index, rows int) []point {
	start := time.Date(2026, 11, 20, 1, 0, 0, 0, time.UTC)
	truck := fleet.NewTruck(fleetSeed, index, start)
	var out []point
	for i := range rows {
		at := start.Add(time.Duration(i) * 10 * time.Second)
		for _, f := range truck.Next(at) {
			out = append(out, point{at.UnixMilli(), f.Metric, f.Value})
		}
	}
	return out
}

// shared is a file of the data that lies beside the repository; the test is skipped where it is absent.
func shared(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not beside the repository: %v", name, err)
	}
	return path
}

// lines are the data lines of a gzipped file of line protocol as TSBS writes it: nothing in it is escaped.
func lines(t testing.TB, name string, each func(tags map[string]string, fields []point)) {
	t.Helper()
	file, err := os.Open(shared(t, name))
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	scanner := bufio.NewScanner(unzipped)
	for scanner.Scan() {
		parts := strings.Split(scanner.Text(), " ")
		require.Len(t, parts, 3)
		tags := map[string]string{}
		for _, tag := range strings.Split(parts[0], ",")[1:] {
			k, v, _ := strings.Cut(tag, "=")
			tags[k] = v
		}
		ns, err := strconv.ParseInt(parts[2], 10, 64)
		require.NoError(t, err)
		var fields []point
		for _, field := range strings.Split(parts[1], ",") {
			k, v, _ := strings.Cut(field, "=")
			p := point{time: ns / 1e6, metric: k}
			if digits, isInt := strings.CutSuffix(v, "i"); isInt {
				i, err := strconv.ParseInt(digits, 10, 64)
				require.NoError(t, err)
				p.value = telemetry.IntValue(i)
			} else {
				f, err := strconv.ParseFloat(v, 64)
				require.NoError(t, err)
				p.value = telemetry.FloatValue(f)
			}
			fields = append(fields, p)
		}
		each(tags, fields)
	}
	require.NoError(t, scanner.Err())
}

// machinePoints is machine_temperature.csv.
func machinePoints(t testing.TB) []point {
	t.Helper()
	file, err := os.Open(shared(t, "machine_temperature.csv"))
	require.NoError(t, err)
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	var out []point
	for _, r := range records[1:] {
		at, err := time.Parse(time.DateTime, r[0])
		require.NoError(t, err)
		v, err := strconv.ParseFloat(r[1], 64)
		require.NoError(t, err)
		out = append(out, point{at.UnixMilli(), "value", telemetry.FloatValue(v)})
	}
	return out
}

// cpuPoints are the ten ints of each host of tsbs-cpu-10x3h.
func cpuPoints(t testing.TB) map[string][]point {
	hosts := map[string][]point{}
	lines(t, "tsbs-cpu-10x3h.lp.gz", func(tags map[string]string, fields []point) {
		hosts[tags["hostname"]] = append(hosts[tags["hostname"]], fields...)
	})
	return hosts
}

// iotPoints are the ten metrics of readings and diagnostics of each truck of tsbs-iot-20x6h, joined by instant; the
// capacities that the generator repeats in every line are left out.
func iotPoints(t testing.TB) map[string][]point {
	trucks := map[string][]point{}
	capacities := []string{"load_capacity", "fuel_capacity", "nominal_fuel_consumption"}
	lines(t, "tsbs-iot-20x6h.lp.gz", func(tags map[string]string, fields []point) {
		name := tags["name"]
		if name == "" {
			return
		}
		for _, f := range fields {
			if !slices.Contains(capacities, f.metric) {
				trucks[name] = append(trucks[name], f)
			}
		}
	})
	return trucks
}

// oddFloats are doubles that a decimal scale can't hold, among ordinary ones.
func oddFloats() []uint64 {
	out := []uint64{
		0, 1 << 63, 1, 1<<63 | 1, 0x000FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
		0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000001, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF,
		0xFFF8DEADBEEF0001,
	}
	for _, f := range []float64{1, -1, 0.1, -0.1, 1e22, 1e23, 5e-324, 9007199254740991, 9007199254740993, math.Pi,
		74.93588199999998, 31.799999237060547, 1e300, -1e-300, 20.6333333333333, 123456.789} {
		out = append(out, math.Float64bits(f))
	}
	return out
}
