package chunk_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"
)

// binarySize is the number of bytes in a document's base64 strings.
func binarySize(t testing.TB, doc []byte) int {
	t.Helper()
	v, err := fastjson.ParseBytes(doc)
	require.NoError(t, err)
	size := func(v *fastjson.Value, name string) int {
		b, err := base64.StdEncoding.DecodeString(string(v.GetStringBytes(name)))
		require.NoError(t, err)
		return len(b)
	}
	n := size(v, "time") + size(v, "data")
	for _, c := range v.GetArray("columns") {
		n += size(c, "data")
	}
	return n
}

// measured is what chunks of a data set come to.
type measured struct{ values, binary, document, chunks int }

// measure encodes points in chunks of full rows; the last, shorter one of a device or day is left out if there are
// others.
func measure(t testing.TB, points map[string][]point, rows int) (m measured) {
	t.Helper()
	for _, device := range slices.Sorted(maps.Keys(points)) {
		frames := split(points[device], rows)
		for _, f := range frames {
			if f.Rows() < rows && len(frames) > 1 {
				continue
			}
			doc, err := chunk.Encode(headerOf(f), f)
			require.NoError(t, err)
			requireSame(t, f, doc)
			m.values += f.Values()
			m.binary += binarySize(t, doc)
			m.document += len(doc)
			m.chunks++
		}
	}
	return m
}

func (m measured) log(t testing.TB, what string, rows int) float64 {
	b := float64(m.binary) / float64(m.values)
	t.Logf("%s, %d rows: %.3f B/value before base64, %.3f B/value as documents (%d chunks)",
		what, rows, b, float64(m.document)/float64(m.values), m.chunks)
	return b
}

func TestBytesPerValue(t *testing.T) {
	trucks := map[string][]point{}
	for i := range 10 {
		trucks[strconv.Itoa(i)] = truckPoints(i, 2000)
	}
	const rows = 1000
	sets := []struct {
		name  string
		bound float64 // 0: none
		load  func(t testing.TB) map[string][]point
	}{
		{"simulated trucks", 0.76, func(testing.TB) map[string][]point { return trucks }},
		{"tsbs-cpu", 0.33, cpuPoints},
		{"tsbs-iot without capacities", 0, iotPoints},
	}
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) {
			if s.bound == 0 && !testing.Verbose() {
				t.Skip("it prints sizes alone: see -v")
			}
			points := s.load(t)
			if testing.Verbose() {
				for _, n := range []int{30, 100, 360} {
					measure(t, points, n).log(t, s.name, n)
				}
			}
			b := measure(t, points, rows).log(t, s.name, rows)
			if s.bound > 0 {
				require.LessOrEqual(t, b, s.bound)
			}
		})
	}
}

// A day of machine_temperature has 288 rows, a reading every 5 minutes, and the bound is for 1,000. So the instants are
// squeezed to 5 s, which leaves the values and the shape of the clock as they are.
func TestBytesPerValueOfRealData(t *testing.T) {
	points := machinePoints(t)
	for i := range points {
		points[i].time /= 60
	}
	days := map[string][]point{"m1": points}
	b := measure(t, days, 1000).log(t, "machine_temperature, 5 minutes squeezed to 5 s", 1000)
	require.LessOrEqual(t, b, 4.3)
	measure(t, map[string][]point{"m1": machinePoints(t)}, 288).log(t, "machine_temperature, as it is", 288)
}

// TestBlockDensity prints what blocks of so many rows take, beside chunks, and bounds those of 64 rows.
func TestBlockDensity(t *testing.T) {
	trucks := map[string][]point{}
	for i := range 5 {
		trucks[strconv.Itoa(i)] = truckPoints(i, 2000)
	}
	for _, s := range []struct {
		name  string
		bound float64 // of 64 rows, schema included; 0: none
		load  func(t testing.TB) map[string][]point
	}{
		{"simulated trucks", 1.25, func(testing.TB) map[string][]point { return trucks }},
		{"tsbs-cpu", 0.8, cpuPoints},
		{"tsbs-iot without capacities", 0, iotPoints},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.bound == 0 && !testing.Verbose() {
				t.Skip("it prints sizes alone: see -v")
			}
			points := s.load(t)
			sizes := []int{64}
			if testing.Verbose() {
				m := measure(t, points, 1000)
				t.Logf("%s, chunks of 1,000 rows: %.3f B/value before base64, %.3f as documents", s.name,
					float64(m.binary)/float64(m.values), float64(m.document)/float64(m.values))
				sizes = []int{16, 32, 64, 128}
			}
			for _, rows := range sizes {
				each := measureBlocks(t, points, rows)
				t.Logf("%s, blocks of %d rows: %.3f B/value, %.3f with the schema", s.name, rows, each[0], each[1])
				if rows == 64 && s.bound > 0 {
					require.LessOrEqual(t, each[1], s.bound)
				}
			}
		})
	}
}

// measureBlocks is the bytes per value of blocks of full rows, without and with their schemas.
func measureBlocks(t testing.TB, points map[string][]point, rows int) (each [2]float64) {
	values, plain, whole := 0, 0, 0
	for _, device := range slices.Sorted(maps.Keys(points)) {
		for _, f := range split(points[device], rows) {
			if f.Rows() < rows {
				continue
			}
			run := runOf(f)
			b, err := appendBlock(&run)
			require.NoError(t, err)
			_, data, err := chunk.SplitBlock(b)
			require.NoError(t, err)
			values, plain, whole = values+run.Values(), plain+len(data), whole+len(b)
		}
	}
	return [2]float64{float64(plain) / float64(values), float64(whole) / float64(values)}
}

// runOf is a frame without labels as it may have come: other devices' records between its own.
func runOf(f chunk.Frame) chunk.Run {
	g := f.Groups[0]
	run := chunk.Run{Times: g.Times, Columns: g.Columns, Sets: []telemetry.Labels{nil}}
	for i := range g.Times {
		run.Offsets = append(run.Offsets, int64(1_000_000+100*i+i*7919%13))
	}
	return run
}

// What has repeats is packed by zstd's best level, though a faster one decides whether it is asked: messages take 8 %
// less than at the level below, a quantised sine 2 %.
func TestRepeatsGetTheBestLevel(t *testing.T) {
	const seed = 51
	r := rand.New(rand.NewPCG(seed, 0))
	var messages, sine []point
	for i := range 3000 {
		at := int64(1795132800000) + int64(i)*10_000
		message := fmt.Sprintf("%s valve %d %s at %d kPa", []string{"opened", "closed", "failed to open"}[r.IntN(3)],
			r.IntN(40),
			[]string{"by hand", "by controller"}[r.IntN(2)], 100+r.IntN(300))
		messages = append(messages, point{at, "message", telemetry.TextValue(message)})
		sine = append(sine, point{at, "sine", telemetry.FloatValue(math.Round(100*math.Sin(float64(i)/25)) / 10)})
	}
	for _, s := range []struct {
		name   string
		points []point
		bound  float64
	}{{"messages", messages, 5.6}, {"sine", sine, 0.32}} {
		b := measure(t, map[string][]point{"m": s.points}, 1000).log(t, s.name, 1000)
		require.LessOrEqual(t, b, s.bound, "seed %d", seed)
	}
}
