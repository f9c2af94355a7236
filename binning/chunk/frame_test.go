package chunk_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

func TestBitmap(t *testing.T) {
	var all chunk.Bitmap
	require.True(t, all.Has(0))
	require.True(t, all.Has(1_000_000))
	b := chunk.NewBitmap(130)
	for _, i := range []int{0, 63, 64, 129} {
		require.False(t, b.Has(i))
		b.Set(i)
		require.True(t, b.Has(i))
	}
	require.Equal(t, 4, b.Count())
	require.False(t, b.Has(1))
	require.False(t, b.Has(1000))
}

func TestFrameCounts(t *testing.T) {
	f := labelled()
	require.Equal(t, 4, f.Rows())
	require.Equal(t, 3+2+1+3+3+1, f.Values())
	require.Equal(t, telemetry.TextValue("empty \"so\" \\ \x00"), f.Groups[0].Columns[2].Value(0))
	require.Equal(t, telemetry.IntValue(5), f.Groups[0].Columns[3].Value(2))
}

func TestEncodeRefuses(t *testing.T) {
	for _, v := range []struct {
		name   string
		change func(h *chunk.Header, f *chunk.Frame)
		says   string
	}{
		{"no rows", func(_ *chunk.Header, f *chunk.Frame) { f.Groups = nil }, "without rows"},
		{"an empty group", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[1].Times = nil }, "without rows"},
		{"no columns", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[1].Columns = nil }, "without columns"},
		{"times out of order", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Times[1] = f.Groups[0].Times[0] },
			"stands after"},
		{"another day", func(h *chunk.Header, _ *chunk.Frame) { h.ID.Day++ }, "leave the day 20261121"},
		{"labels twice", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[1].Labels = nil }, "stand after"},
		{"labels out of order", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[1].Labels[1].Name = "a" }, "not in order"},
		{"a label that is not UTF-8", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[1].Labels[0].Value = "\xff" },
			"not UTF-8"},
		{"columns out of order", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[0].Metric = "z" },
			"stands after"},
		{"two kinds at one instant", func(_ *chunk.Header,
			f *chunk.Frame) {
			f.Groups[0].Columns[2].Present = f.Groups[0].Columns[1].Present
		}, "1 texts"},
		{"two kinds overlap", func(_ *chunk.Header, f *chunk.Frame) {
			f.Groups[0].Columns[2].Present = chunk.NewBitmap(3)
			f.Groups[0].Columns[2].Present.Set(0)
		}, "a float and a text at one instant"},
		{"two kinds in every row", func(_ *chunk.Header, f *chunk.Frame) {
			f.Groups[0].Columns[1].Present, f.Groups[0].Columns[1].Bits = nil, make([]uint64, 3)
			f.Groups[0].Columns[2].Present, f.Groups[0].Columns[2].Texts = nil, make([]string, 3)
		}, "a float and a text at one instant"},
		{"too few values", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[0].Bits = []uint64{1, 0} },
			"3 present rows, but 2 values"},
		{"a bitmap too long", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[1].Present = chunk.NewBitmap(100) },
			"bitmap"},
		{"a row beyond the last", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[1].Present.Set(3) }, "bitmap"},
		{"no metric", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[0].Metric = "" }, "empty"},
		{"no kind", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[0].Kind = 0 }, "unknown"},
		{"half a bool", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[0].Bits[0] = 2 }, "bool"},
		{"text with bits", func(_ *chunk.Header, f *chunk.Frame) { f.Groups[0].Columns[2].Bits = []uint64{1} }, "texts"},
		{"no device", func(h *chunk.Header, _ *chunk.Frame) { h.Device = "" }, "must both be there"},
		{"an offset beyond 2^53", func(h *chunk.Header, _ *chunk.Frame) { h.Through = 1<<53 + 1 },
			"through 9007199254740993"},
		{"offsets backwards", func(h *chunk.Header, _ *chunk.Frame) { h.Through = h.First - 1 }, "through"},
		{"a negative ttl", func(h *chunk.Header, _ *chunk.Frame) { h.TTL = -1 }, "ttl -1"},
		{"a device that is not UTF-8", func(h *chunk.Header, _ *chunk.Frame) { h.Device = "\xff" }, "not UTF-8"},
	} {
		t.Run(v.name, func(t *testing.T) {
			f := labelled()
			h := headerOf(f)
			v.change(&h, &f)
			_, err := chunk.Encode(h, f)
			require.ErrorContains(t, err, v.says)
			require.NotErrorIs(t, err, chunk.ErrTooLarge)
			require.ErrorContains(t, err, "encode chunk "+h.ID.String())
		})
	}
}

func TestTooLargeForOneChunk(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	noise := make([]uint64, 10_000)
	for i := range noise {
		noise[i] = r.Uint64()
	}
	rows := make([]uint64, chunk.MaxRows+1)
	long := frameOf([]point{{1795183200000, "x", telemetry.TextValue(string(randomText(r, 60_000)))}})

	many := oneColumn(telemetry.Int, rows[:chunk.MaxRows]...)
	first := many.Groups[0].Columns[0]
	for i := range chunk.MaxValues / chunk.MaxRows {
		c := first
		c.Metric = strings.Repeat("y", i+1)
		many.Groups[0].Columns = append(many.Groups[0].Columns, c)
	}
	many.Groups[0].Columns[0].Metric = "a"

	for what, f := range map[string]chunk.Frame{
		"noise": oneColumn(telemetry.Int, noise...), "rows": oneColumn(telemetry.Int, rows...), "text": long, "values": many,
	} {
		f.Groups[0].Times = everyMillisecond(len(f.Groups[0].Times))
		_, err := chunk.Encode(headerOf(f), f)
		require.ErrorIs(t, err, chunk.ErrTooLarge, what)
	}

	// What is just within the limits is read again.
	most := oneColumn(telemetry.Int, rows[:chunk.MaxRows]...)
	most.Groups[0].Times = everyMillisecond(chunk.MaxRows)
	requireSame(t, most, encode(t, most))
	many.Groups[0].Times = everyMillisecond(chunk.MaxRows)
	many.Groups[0].Columns = many.Groups[0].Columns[1:]
	requireSame(t, many, encode(t, many))
}

func everyMillisecond(n int) []int64 {
	times := make([]int64, n)
	for i := range times {
		times[i] = 1795132800000 + int64(i)
	}
	return times
}

func randomText(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(math.MaxUint8))
	}
	return b
}
