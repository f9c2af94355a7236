package chunk_test

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// requireSame holds a document against the frame that it was made of.
func requireSame(t testing.TB, f chunk.Frame, doc []byte) {
	t.Helper()
	c, err := chunk.Parse(doc)
	require.NoError(t, err)
	got, err := c.Frame(nil)
	require.NoError(t, err)
	require.Equal(t, f, got)
}

func encode(t testing.TB, f chunk.Frame) []byte {
	t.Helper()
	doc, err := chunk.Encode(headerOf(f), f)
	require.NoError(t, err)
	return doc
}

// oneColumn is a frame of one column without gaps, a value a second.
func oneColumn(kind telemetry.Kind, bits ...uint64) chunk.Frame {
	g := chunk.Group{Columns: []chunk.Column{{Metric: "x", Kind: kind, Bits: bits}}}
	for i := range bits {
		g.Times = append(g.Times, 1795183200000+int64(i)*1000)
	}
	return chunk.Frame{Groups: []chunk.Group{g}}
}

func TestRandomFrameRoundTrip(t *testing.T) {
	const seed = 20261121
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range 1500 {
		f := randomFrame(r, []int{3, 30, 300}[i%3])
		doc := encode(t, f)
		c, err := chunk.Parse(doc)
		require.NoError(t, err, "seed %d, frame %d", seed, i)
		got, err := c.Frame(nil)
		require.NoError(t, err, "seed %d, frame %d", seed, i)
		require.Equal(t, f, got, "seed %d, frame %d", seed, i)

		want := map[int64]bool{}
		for _, g := range f.Groups {
			for _, at := range g.Times {
				want[at] = true
			}
		}
		times, err := c.Times()
		require.NoError(t, err, "seed %d, frame %d", seed, i)
		require.Equal(t, slices.Sorted(maps.Keys(want)), times, "seed %d, frame %d", seed, i)
	}
}

func TestOddFloatRoundTrip(t *testing.T) {
	odd := oddFloats()
	for n := 1; n <= len(odd); n++ {
		for _, ordinary := range []int{0, 50, 2000} {
			bits := slices.Clone(odd[:n])
			for i := range ordinary {
				bits = append(bits, math.Float64bits(20+float64(i%37)/10))
			}
			f := oneColumn(telemetry.Float, bits...)
			requireSame(t, f, encode(t, f))
		}
	}
}

func TestEveryScaleIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for exp := range 23 {
		for _, single := range []bool{false, true} {
			bits := make([]uint64, 200)
			for i := range bits {
				v := float64(r.IntN(1_000_000)) / math.Pow10(exp)
				if single {
					v = float64(float32(v))
				}
				bits[i] = math.Float64bits(v)
			}
			f := oneColumn(telemetry.Float, bits...)
			doc := encode(t, f)
			requireSame(t, f, doc)
			if !single || exp < 10 { // a float32 sensor's own digits, found again
				require.Less(t, binarySize(t, doc), 200*3+60, "10^%d float32 %t", exp, single)
			}
		}
	}
}

func TestIntRoundTripAtEdges(t *testing.T) {
	edge := []uint64{1 << 63, math.MaxInt64, 0, math.MaxUint64, 1, 1 << 62, 1<<63 + 1}
	for _, a := range edge {
		for _, b := range edge {
			for _, c := range edge {
				f := oneColumn(telemetry.Int, a, b, c, a, a, c, b)
				requireSame(t, f, encode(t, f))
			}
		}
	}
}

func TestConstantAndRegularColumnsTakeNothing(t *testing.T) {
	steady, ramp, quadratic := make([]uint64, 1000), make([]uint64, 1000), make([]uint64, 1000)
	for i := range steady {
		steady[i] = math.Float64bits(21.5)
		ramp[i] = uint64(500 + 25*i)
		quadratic[i] = uint64(i*i*3 - 7*i)
	}
	for _, f := range []chunk.Frame{
		oneColumn(telemetry.Float, steady...), oneColumn(telemetry.Int, ramp...), oneColumn(telemetry.Int, quadratic...),
	} {
		doc := encode(t, f)
		requireSame(t, f, doc)
		require.LessOrEqual(t, binarySize(t, doc), 32)
	}
}

func TestEncodeIsDeterministicAndReentrant(t *testing.T) {
	frames := []chunk.Frame{frameOf(truckPoints(1, 1000)), frameOf(truckPoints(2, 50)),
		randomFrame(rand.New(rand.NewPCG(3, 4)), 300)}
	var want [][]byte
	for _, f := range frames {
		want = append(want, encode(t, f))
	}
	var wg sync.WaitGroup
	var wrong atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			for j := range 9 {
				k := (i + j) % len(frames)
				doc, err := chunk.Encode(headerOf(frames[k]), frames[k])
				if err != nil || !bytes.Equal(doc, want[k]) {
					wrong.Add(1)
					continue
				}
				c, err := chunk.Parse(doc)
				if err != nil {
					wrong.Add(1)
					continue
				}
				if _, err := c.Frame(nil); err != nil {
					wrong.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, wrong.Load(), "documents that differ from the first, or don't read")
}

func TestFrameOfSomeMetrics(t *testing.T) {
	for _, rows := range []int{40, 1000} { // one string, a string per column
		f := frameOf(truckPoints(1, rows))
		g := f.Groups[0]
		second := chunk.Group{Labels: telemetry.Labels{{Name: "trailer", Value: "2"}}, Times: g.Times[:20],
			Columns: []chunk.Column{
				{Metric: "velocity", Kind: telemetry.Int, Bits: make([]uint64, 20)},
			}}
		f.Groups = append(f.Groups, second)
		c, err := chunk.Parse(encode(t, f))
		require.NoError(t, err)

		got, err := c.Frame([]string{"velocity", "grade", "absent"})
		require.NoError(t, err)
		want := chunk.Frame{Groups: []chunk.Group{{Times: g.Times, Columns: []chunk.Column{g.Columns[4], g.Columns[9]}},
			second}}
		require.Equal(t, want, got)

		got, err = c.Frame([]string{"grade"})
		require.NoError(t, err)
		require.Equal(t, chunk.Frame{Groups: []chunk.Group{{Times: g.Times, Columns: []chunk.Column{g.Columns[4]}}}}, got)

		got, err = c.Frame([]string{})
		require.NoError(t, err)
		require.Empty(t, got.Groups)
	}
}
