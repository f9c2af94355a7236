package chunk_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// randomRun is a valid run: instants in any order and repeated, records of several readings, label sets, gaps, all
// kinds.
func randomRun(r *rand.Rand, rows int) chunk.Run {
	n := 1 + r.IntN(rows)
	run := chunk.Run{Sets: []telemetry.Labels{nil}}
	at, offset := telemetry.Day(20_000).Start(), r.Int64N(1<<40)
	disorder := r.IntN(3)
	for range n {
		switch {
		case disorder == 1 && r.IntN(5) == 0:
			at -= r.Int64N(100_000)
		case disorder == 2 && r.IntN(3) == 0:
		default:
			at += 1000 + r.Int64N(50)*int64(r.IntN(2))
		}
		offset += r.Int64N(3) * (1 + r.Int64N(40))
		run.Times, run.Offsets = append(run.Times, at), append(run.Offsets, offset)
	}
	if sets := r.IntN(4); sets > 0 {
		for i := range sets {
			run.Sets = append(run.Sets, telemetry.Labels{{Name: "axle", Value: fmt.Sprint(7-i, "é\x00")},
				{Name: "side", Value: ""}})
		}
		for range n {
			run.Labels = append(run.Labels, uint32(r.IntN(len(run.Sets))))
		}
	}
	for j := range r.IntN(6) {
		run.Columns = append(run.Columns, randomColumns(r, fmt.Sprint("metric ", j), n)...)
	}
	return run
}

// blockOf is a run as a block, read back.
func blockOf(t testing.TB, run chunk.Run, metrics []string) (chunk.Run, []byte) {
	t.Helper()
	b, err := appendBlock(&run)
	require.NoError(t, err)
	got, err := openBlock(b, metrics)
	require.NoError(t, err)
	return got, b
}

func openBlock(b []byte, metrics []string) (chunk.Run, error) {
	schema, rows, err := chunk.SplitBlock(b)
	if err != nil {
		return chunk.Run{}, err
	}
	s, err := chunk.ParseSchema(schema)
	if err != nil {
		return chunk.Run{}, err
	}
	if string(s.Bytes()) != string(schema) {
		return chunk.Run{}, errors.New("a schema is not kept as it was read")
	}
	return s.Rows(rows, metrics)
}

func TestBlockRoundTrip(t *testing.T) {
	const seed = 31
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 1500 {
		run := randomRun(r, []int{1, 3, 64, 300}[i%4])
		got, b := blockOf(t, run, nil)
		require.EqualExportedValues(t, run, got, "seed %d run %d", seed, i)
		again, err := appendBlock(&run)
		require.NoError(t, err)
		require.Equal(t, b, again, "the same run gives the same bytes")

		got, _ = blockOf(t, run, []string{"metric 1", "metric 3"})
		want := run
		want.Columns = nil
		for _, c := range run.Columns {
			if c.Metric == "metric 1" || c.Metric == "metric 3" {
				want.Columns = append(want.Columns, c)
			}
		}
		require.EqualExportedValues(t, want, got, "seed %d run %d", seed, i)
	}
}

func TestEncodeBlockRefusesInvalidRuns(t *testing.T) {
	good := func() chunk.Run {
		return chunk.Run{
			Offsets: []int64{3, 3}, Times: []int64{9, 4}, Sets: []telemetry.Labels{nil, {{Name: "a", Value: "b"}}},
			Labels: []uint32{1, 0},
			Columns: []chunk.Column{{Metric: "a", Kind: telemetry.Int, Bits: []uint64{1, 2}},
				{Metric: "b", Kind: telemetry.Bool, Bits: []uint64{1, 0}}},
		}
	}
	run := good()
	_, err := appendBlock(&run)
	require.NoError(t, err)
	for what, spoil := range map[string]func(r *chunk.Run){
		"offsets fall":       func(r *chunk.Run) { r.Offsets[1] = 2 },
		"an offset below 0":  func(r *chunk.Run) { r.Offsets[0] = -1 },
		"an offset too few":  func(r *chunk.Run) { r.Offsets = r.Offsets[:1] },
		"no rows":            func(r *chunk.Run) { *r = chunk.Run{Sets: r.Sets} },
		"no label set":       func(r *chunk.Run) { r.Sets, r.Labels = nil, nil },
		"an unknown set":     func(r *chunk.Run) { r.Labels[0] = 2 },
		"a set too few":      func(r *chunk.Run) { r.Labels = r.Labels[:1] },
		"labels not sorted":  func(r *chunk.Run) { r.Sets[1] = telemetry.Labels{{Name: "b"}, {Name: "a"}} },
		"time before 1970":   func(r *chunk.Run) { r.Times[0] = -1 },
		"time too late":      func(r *chunk.Run) { r.Times[0] = telemetry.MaxMillis },
		"columns not sorted": func(r *chunk.Run) { slices.Reverse(r.Columns) },
		"a value too few":    func(r *chunk.Run) { r.Columns[0].Bits = r.Columns[0].Bits[:1] },
		"two kinds at once":  func(r *chunk.Run) { r.Columns[1].Metric = "a" },
		"no bool":            func(r *chunk.Run) { r.Columns[1].Bits[0] = 2 },
		"no name":            func(r *chunk.Run) { r.Columns[0].Metric = "" },
	} {
		run := good()
		spoil(&run)
		_, err := appendBlock(&run)
		require.Error(t, err, what)
	}
	many := chunk.Run{Sets: []telemetry.Labels{nil}, Times: make([]int64, chunk.MaxRows+1),
		Offsets: make([]int64, chunk.MaxRows+1)}
	_, err = appendBlock(&many)
	require.ErrorIs(t, err, chunk.ErrTooLarge)
}

func TestDamagedBlocks(t *testing.T) {
	const seed = 32
	r := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		run := randomRun(r, 100)
		_, b := blockOf(t, run, nil)
		for n := range len(b) {
			readBlock(t, b[:n]) // a Huffman code may go unseen without its last byte: what carries blocks has checksums
		}
		for range 400 {
			damaged := slices.Clone(b)
			for range 1 + r.IntN(3) {
				damaged[r.IntN(len(damaged))] = byte(r.IntN(256))
			}
			readBlock(t, damaged)
		}
	}
}

// readBlock opens bytes as a block: an error is ErrCorrupt, and what they are is a run that makes a block again.
func readBlock(t *testing.T, b []byte) {
	run, err := openBlock(b, nil)
	part, partErr := columnsOf(b, []string{"metric 1"})
	if err != nil {
		require.ErrorIs(t, err, chunk.ErrCorrupt)
		if partErr != nil { // what is wrong may stand in what is not read
			require.ErrorIs(t, partErr, chunk.ErrCorrupt)
		}
		return
	}
	require.NoError(t, partErr)
	want, err := openBlock(b, []string{"metric 1"})
	require.NoError(t, err)
	for i := range want.Offsets {
		want.Offsets[i] = 5
	}
	require.EqualExportedValues(t, want, part)
	if again, err := appendBlock(&run); err == nil {
		got, err := openBlock(again, nil)
		require.NoError(t, err)
		require.EqualExportedValues(t, run, got)
	} else {
		require.ErrorIs(t, err, chunk.ErrTooLarge)
	}
}

// columnsOf is the run of a block's columns that were copied without decoding them, with 5 for all offsets.
func columnsOf(b []byte, metrics []string) (chunk.Run, error) {
	schema, rows, err := chunk.SplitBlock(b)
	if err != nil {
		return chunk.Run{}, err
	}
	s, err := chunk.ParseSchema(schema)
	if err != nil {
		return chunk.Run{}, err
	}
	before := []byte("what is there")
	part := s.Part(metrics)
	out := slices.Clone(before)
	for more := true; more; more = len(rows) > 0 {
		if out, rows, err = part.Append(out, rows, 5); err != nil {
			return chunk.Run{}, err
		}
	}
	if !bytes.HasPrefix(out, before) {
		return chunk.Run{}, errors.New("what was there has changed")
	}
	if s, err = chunk.ParseSchema(part.Schema().Bytes()); err != nil {
		return chunk.Run{}, err
	}
	return s.Rows(out[len(before):], nil)
}

// Columns of a block that are copied as they are have the same values as those that are decoded.
func TestColumnsOfABlock(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 0))
	for range 400 {
		run, b := blockOf(t, randomRun(r, 200), nil)
		for _, metrics := range [][]string{nil, {"metric 0"}, {"metric 4", "metric 1"}, {"metric 3"}, {"none"}} {
			want, err := openBlock(b, metrics)
			require.NoError(t, err)
			for i := range want.Offsets {
				want.Offsets[i] = 5
			}
			got, err := columnsOf(b, metrics)
			require.NoError(t, err)
			require.Equal(t, want, got, "%v of %d columns", metrics, len(run.Columns))
		}
	}
}

func FuzzBlock(f *testing.F) {
	r := rand.New(rand.NewPCG(33, 0))
	for range 40 {
		_, b := blockOf(f, randomRun(r, 40), nil)
		f.Add(b)
	}
	golden, err := filepath.Glob(filepath.Join("testdata", "block*.hex"))
	require.NoError(f, err)
	for _, name := range golden {
		f.Add(unhex(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) { readBlock(t, b) })
}

func unhex(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	return b
}

// exampleRun is a small run of two columns, one of them with gaps.
func exampleRun() chunk.Run {
	gear := chunk.NewBitmap(4)
	gear.Set(0)
	gear.Set(2)
	gear.Set(3)
	bits := make([]uint64, 4)
	for i, v := range []float64{62.5, 62.6, 62.4, 62.4} {
		bits[i] = telemetry.FloatValue(v).Bits()
	}
	return chunk.Run{
		Offsets: []int64{1306001, 1306001, 1306003, 1306004},
		Times:   []int64{1795183200123, 1795183201123, 1795183201123, 1795183199123},
		Sets:    []telemetry.Labels{nil},
		Columns: []chunk.Column{
			{Metric: "gear", Kind: telemetry.Text, Present: gear, Texts: []string{"N", "D", "D"}},
			{Metric: "velocity", Kind: telemetry.Float, Bits: bits},
		},
	}
}

// goldenRuns use every form that a column can take, through goldenFrames, and what only blocks have.
func goldenRuns() map[string]chunk.Run {
	runs := map[string]chunk.Run{"example": exampleRun()}
	n := noise(4)
	for name, f := range map[string]chunk.Frame{"large": goldenLarge(), "small": goldenSmall()} {
		g := f.Groups[0]
		run := chunk.Run{Times: slices.Clone(g.Times), Columns: g.Columns,
			Sets: []telemetry.Labels{{{Name: "side", Value: "left"}}, nil}}
		at := int64(7)
		for i := range run.Times {
			if n.next(8) == 0 && i > 0 {
				run.Times[i] = run.Times[i-1] - int64(n.next(3))*1000
			}
			at += int64(n.next(3))
			run.Offsets = append(run.Offsets, at)
			run.Labels = append(run.Labels, uint32(n.next(2)))
		}
		runs[name] = run
	}
	return runs
}

// dumpRun writes a run as dump writes frames.
func dumpRun(r *chunk.Run) string {
	var b strings.Builder
	for i, at := range r.Times {
		set := r.Sets[0]
		if r.Labels != nil {
			set = r.Sets[r.Labels[i]]
		}
		fmt.Fprintf(&b, "row %d %d %q\n", r.Offsets[i], at, set)
	}
	for i := range r.Columns {
		c := &r.Columns[i]
		fmt.Fprintf(&b, "%s %q\n", c.Kind, c.Metric)
		k := 0
		for row := range r.Times {
			switch {
			case !c.Present.Has(row):
				continue
			case c.Kind == telemetry.Text:
				fmt.Fprintf(&b, "%d %q\n", row, c.Texts[k])
			default:
				fmt.Fprintf(&b, "%d %x\n", row, c.Bits[k])
			}
			k++
		}
	}
	return b.String()
}

// TestGoldenBlocks reads every block in testdata, written by this or an earlier release.
func TestGoldenBlocks(t *testing.T) {
	if *update {
		for name, run := range goldenRuns() {
			_, b := blockOf(t, run, nil)
			lines := regexp.MustCompile(`.{1,96}`).FindAllString(hex.EncodeToString(b), -1)
			writeMissing(t, fmt.Sprintf("block%d-%s.hex", chunk.BlockVersion, name), []byte(strings.Join(lines, "\n")+"\n"))
			writeMissing(t, fmt.Sprintf("block%d-%s.txt", chunk.BlockVersion, name), []byte(dumpRun(&run)))
		}
	}
	blocks, err := filepath.Glob(filepath.Join("testdata", "block*.hex"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(blocks), len(goldenRuns()))
	for _, name := range blocks {
		run, err := openBlock(unhex(t, name), nil)
		require.NoError(t, err, name)
		want, err := os.ReadFile(strings.TrimSuffix(name, ".hex") + ".txt")
		require.NoError(t, err)
		require.Equal(t, string(want), dumpRun(&run), name)
	}
}

// Integers of all lengths, few of them far from the others, gaps and steps: whatever codes their residuals get.
func TestBlockKeepsEveryInteger(t *testing.T) {
	const seed = 35
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 4000 {
		n, usual, far := 1+r.IntN(150), r.IntN(65), r.IntN(65)
		rare, step := 1+r.IntN(40), int64(1+r.IntN(3)*r.IntN(2000))
		column, at := chunk.Column{Metric: "m", Kind: telemetry.Int}, int64(0)
		for range n {
			x := r.Uint64() >> 1 >> (63 - min(usual, 63))
			if usual == 0 {
				x = 0
			}
			if r.IntN(rare) == 0 && far > 0 {
				x = r.Uint64() >> (64 - far)
			}
			if x *= uint64(step); i%2 == 0 {
				at += int64(x)
				x = uint64(at)
			}
			column.Bits = append(column.Bits, x)
		}
		run := chunk.Run{Times: make([]int64, n), Offsets: make([]int64, n), Sets: []telemetry.Labels{nil},
			Columns: []chunk.Column{column}}
		got, _ := blockOf(t, run, nil)
		require.EqualExportedValues(t, run, got, "seed %d run %d", seed, i)
	}
}

// The rows of blocks of one schema that are read one behind the other are those of one block.
func TestRowsOfSeveralBlocks(t *testing.T) {
	const seed = 36
	r := rand.New(rand.NewPCG(seed, 0))
	several := 0
	for i := range 600 {
		whole := randomRun(r, 200)
		schema, err := chunk.ParseSchema(chunk.AppendSchema(nil, &whole))
		require.NoError(t, err)
		part, skipping := schema.Part(nil), schema.Part(nil)
		skipping.SkipOffsets = true
		var got, unnumbered chunk.Run
		var joined []byte
		alike := true
		for from := 0; from < whole.Rows() && alike; {
			to := from + 1 + r.IntN(80)
			some := whole.Where(func(k int) bool { return k >= from && k < to })
			alike = string(chunk.AppendSchema(nil, &some)) == string(schema.Bytes())
			data, err := chunk.AppendRows(nil, &some)
			require.NoError(t, err)
			if alike {
				require.Equal(t, some.Rows(), chunk.RowsOf(data))
				joined = append(joined, data...)
				require.NoError(t, part.AppendTo(&got, r.IntN(100), data))
				require.NoError(t, skipping.AppendTo(&unnumbered, r.IntN(100), data))
			}
			if from = to; alike && from < whole.Rows() {
				several++
			}
		}
		if alike {
			require.EqualExportedValues(t, whole, got, "seed %d run %d", seed, i)
			atOnce, err := schema.Rows(joined, nil)
			require.NoError(t, err)
			require.EqualExportedValues(t, whole, atOnce, "seed %d run %d", seed, i)
			require.Equal(t, whole.Ascends(), got.Ascends(), "seed %d run %d", seed, i)
			require.Nil(t, unnumbered.Offsets)
			unnumbered.Offsets = whole.Offsets
			require.EqualExportedValues(t, whole, unnumbered, "seed %d run %d", seed, i)
		}
	}
	require.Greater(t, several, 100)
}

// Whether instants ascend is known of blocks in steps without a look at each, and of others by one.
func TestRunsAscend(t *testing.T) {
	blocks, schema := map[string][]byte{}, (*chunk.Schema)(nil)
	for name, times := range map[string][]int64{
		"up": {10, 20, 30}, "late": {40, 50}, "odd": {55, 70, 80}, "down": {90, 80}, "same": {7, 7},
	} {
		run := chunk.Run{Offsets: make([]int64, len(times)), Times: times, Sets: []telemetry.Labels{nil},
			Columns: []chunk.Column{{Metric: "a", Kind: telemetry.Int, Bits: make([]uint64, len(times))}}}
		var err error
		blocks[name], err = chunk.AppendRows(nil, &run)
		require.NoError(t, err)
		schema, err = chunk.ParseSchema(chunk.AppendSchema(nil, &run))
		require.NoError(t, err)
	}
	for order, want := range map[string]bool{
		"up": true, "odd": true, "down": false, "same": false, "up late": true, "up late odd": true, "late odd": true,
		"late up": false, "up up": false, "odd late": false, "up odd late": false, "same up": false, "up late up": false,
	} {
		var run chunk.Run
		part := schema.Part(nil)
		for _, name := range strings.Fields(order) {
			require.NoError(t, part.AppendTo(&run, 0, blocks[name]), order)
		}
		require.Equal(t, want, run.Ascends(), order)
	}
}

// A column is read whatever the others are: that is why a head copies one of ten, and decodes none.
func TestColumnsStandApart(t *testing.T) {
	run := exampleRun()
	_, b := blockOf(t, run, nil)
	damaged := bytes.Replace(b, []byte{0x85, 0x01, 0x00, 0x02}, []byte{0xff, 0xff, 0xff, 0xff}, 1)
	require.NotEqual(t, b, damaged)
	_, err := openBlock(damaged, nil)
	require.ErrorIs(t, err, chunk.ErrCorrupt)
	for _, read := range []func([]byte, []string) (chunk.Run, error){openBlock, columnsOf} {
		got, err := read(damaged, []string{"velocity"})
		require.NoError(t, err)
		require.Equal(t, run.Columns[1:], got.Columns)
	}
}

// A block of another layout is refused by its version: a journal of such blocks is not whole.
func TestBlocksOfAnotherVersion(t *testing.T) {
	run := exampleRun()
	_, b := blockOf(t, run, nil)
	require.Equal(t, byte(chunk.BlockVersion), b[1])
	b[1] = 1
	_, err := openBlock(b, nil)
	require.ErrorIs(t, err, chunk.ErrCorrupt)
	require.ErrorContains(t, err, "version 1")
}

// appendBlock returns the schema and the rows of a run in one.
func appendBlock(r *chunk.Run) ([]byte, error) {
	rows, err := chunk.AppendRows(nil, r)
	return chunk.AppendSplit(nil, chunk.AppendSchema(nil, r), rows), err
}
