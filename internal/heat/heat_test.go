package heat_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"binnacle/internal/heat"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// random returns a source of a test's own, and prints its seed.
func random(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 18))
}

func randomCells(r *rand.Rand, n int) []heat.Cell {
	containers := []string{"chunks-2026-11", "rollups-2026-11", "catalog", "chunks-acme-2026-10"}
	var out []heat.Cell
	for range n {
		k := heat.KeyOf(containers[r.IntN(len(containers))], fmt.Sprintf("tenant-%d~%x", r.IntN(1+n/4), r.IntN(500)))
		if r.IntN(10) == 0 {
			k = k.Rest()
		}
		c := heat.Cell{Key: k, Minutes: r.IntN(heat.MaxMinutes + 1)}
		for kind := range c.RUs {
			if r.IntN(3) == 0 {
				c.RUs[kind] = float64(r.IntN(1_000_000)) / 100
			}
		}
		if r.IntN(2) == 0 {
			c.Bytes, c.Throttled = r.Int64N(1<<40), int64(r.IntN(3))
		}
		out = append(out, c)
	}
	return out
}

func randomFrame(r *rand.Rand, cells int) heat.Frame {
	to := (1_795_000_000_000/heat.Minute + r.Int64N(1000)) * heat.Minute
	return heat.Frame{Layer: heat.Minutes, From: to - heat.MaxMinutes*heat.Minute, To: to, Writer: "ingest-1", Of: 1,
		Folded: r.IntN(5), Lost: float64(r.IntN(100)), Cells: randomCells(r, cells)}
}

func TestFrameRoundTrip(t *testing.T) {
	r := random(t, 1)
	for range 60 {
		f := randomFrame(r, r.IntN(400))
		doc, err := f.Encode()
		require.NoError(t, err)
		got, err := heat.DecodeFrame(doc)
		require.NoError(t, err)
		if len(f.Cells) == 0 {
			f.Cells, got.Cells = nil, nil
		}
		require.Equal(t, f, got)
	}
}

// However many keys there are, no document is larger than its target, and the sums by container and slot stay.
func TestDocumentsKeepSumsWithinTheirSize(t *testing.T) {
	r := random(t, 2)
	for _, most := range []int{1, 3} {
		f := randomFrame(r, 9000)
		for i := range f.Cells {
			f.Cells[i].Container = "chunks-2026-11" // the sums of one container's slots fit one document
		}
		docs, err := f.Documents(most)
		require.NoError(t, err)
		require.LessOrEqual(t, len(docs), most)
		var cells []heat.Cell
		folded := 0
		for i, doc := range docs {
			require.LessOrEqual(t, len(doc), heat.TargetBytes)
			part, err := heat.DecodeFrame(doc)
			require.NoError(t, err)
			require.Equal(t, [2]int{i, len(docs)}, [2]int{part.Part, part.Of})
			cells, folded = append(cells, part.Cells...), folded+part.Folded
		}
		require.Positive(t, folded, "the fewest documents do not take all names")
		require.Greater(t, len(cells), 800*most)
		requireSameSums(t, f.Cells, cells)
	}
	few := randomFrame(r, 40)
	docs, err := few.Documents(8)
	require.NoError(t, err)
	require.Len(t, docs, 1)
}

func requireSameSums(t *testing.T, want, got []heat.Cell) {
	t.Helper()
	type place struct {
		container string
		slot      sharding.Slot
	}
	sums := func(cells []heat.Cell) map[place]heat.Amount {
		out := map[place]heat.Amount{}
		for i := range cells {
			at := place{cells[i].Container, cells[i].Slot}
			sum := out[at]
			sum.Add(&cells[i].Amount)
			out[at] = sum
		}
		return out
	}
	a, b := sums(want), sums(got)
	for at, sum := range a {
		other := b[at]
		require.InDelta(t, sum.Total(), other.Total(), 0.01*float64(len(want)), "%v", at)
		require.Equal(t, [2]int64{sum.Bytes, sum.Throttled}, [2]int64{other.Bytes, other.Throttled}, "%v", at)
	}
	require.Len(t, b, len(a)+missing(a, b))
}

func missing[K comparable, V comparable](a, b map[K]V) (n int) {
	var zero V
	for k, v := range a {
		if _, ok := b[k]; !ok && v == zero {
			n--
		}
	}
	return n
}

func TestFoldKeepsTheHeaviest(t *testing.T) {
	r := random(t, 3)
	cells := heat.Sum(randomCells(r, 500))
	kept, folded := heat.Fold(slices.Clone(cells), 100)
	requireSameSums(t, cells, kept)
	named := 0
	for _, c := range kept {
		if c.Shard != "" {
			named++
		}
	}
	total := 0
	for _, c := range cells {
		if c.Shard != "" {
			total++
		}
	}
	require.Equal(t, total, named+folded)
	require.LessOrEqual(t, named, 100)
	same, none := heat.Fold(cells, len(cells))
	require.Equal(t, cells, same)
	require.Zero(t, none)
}

// A grid has what the frames have that lie in it, whatever its step; a cell of several minutes is spread over them.
func TestGridKeepsSums(t *testing.T) {
	r := random(t, 4)
	base := int64(1_795_000_000_000) / heat.Hour * heat.Hour
	var frames []heat.Frame
	var want heat.Amount
	const container = "chunks-2026-11"
	for m := int64(heat.MaxMinutes); m <= 120; m++ {
		f := heat.Frame{Layer: heat.Minutes, From: base + (m-heat.MaxMinutes)*heat.Minute, To: base + m*heat.Minute, Of: 1,
			Cells: randomCells(r, 20)}
		for i := range f.Cells {
			if f.Cells[i].Container == container {
				want.Add(&f.Cells[i].Amount)
			}
		}
		frames = append(frames, f)
	}
	for _, step := range []int64{heat.Minute, 7 * heat.Minute, heat.Hour, heat.Day} {
		g := heat.NewGrid(container, heat.Span{From: base, To: base + 2*heat.Hour, Step: step}, frames)
		var got heat.Amount
		for i := range g.Rows {
			sum := g.Rows[i].Total()
			got.Add(&sum)
			require.Len(t, g.Rows[i].Amounts, g.Columns)
		}
		require.InEpsilon(t, want.Total(), got.Total(), 1e-9)
		require.Equal(t, [2]int64{want.Bytes, want.Throttled}, [2]int64{got.Bytes, got.Throttled})
	}
	cell := heat.Cell{Key: heat.KeyOf(container, "acme~1"), Minutes: 2, Amount: heat.Amount{Bytes: 11, Throttled: 3}}
	cell.RUs[heat.ChunkWrites] = 10
	g := heat.NewGrid(container, heat.Span{From: base, To: base + 5*heat.Minute, Step: heat.Minute},
		[]heat.Frame{{Layer: heat.Minutes, From: base - heat.Minute, To: base + 4*heat.Minute, Cells: []heat.Cell{cell}}})
	for col, want := range []float64{0, 0, 5, 5, 0} {
		require.InDelta(t, want, g.Rows[0].Amounts[col].RUs[heat.ChunkWrites], 1e-9, col)
	}
	half := heat.NewGrid(container, heat.Span{From: base + 3*heat.Minute, To: base + 9*heat.Minute, Step: heat.Minute},
		[]heat.Frame{{Layer: heat.Minutes, From: base - heat.Minute, To: base + 4*heat.Minute, Cells: []heat.Cell{cell}}})
	sum := half.Rows[0].Total()
	require.InDelta(t, 5, sum.Total(), 1e-9, "the part that lies in the grid")
}

func TestKeys(t *testing.T) {
	for shard, tenant := range map[string]string{"acme~1q": "acme", "acme#pages": "acme", "acme": "acme", "": ""} {
		require.Equal(t, tenant, heat.Key{Shard: shard}.Tenant())
	}
	require.Equal(t, sharding.Slot(128), heat.KeyOf("c", "acme~5t").Slot)
}

func FuzzFrame(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 18))
	for range 5 {
		doc, err := randomFrame(r, r.IntN(30)).Encode()
		require.NoError(f, err)
		f.Add(doc)
	}
	f.Add([]byte(`{"v":1,"type":"heat","layer":"day","from":0,"to":86400000,"of":1,"cells":9,"data":""}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		frame, err := heat.DecodeFrame(doc)
		if err != nil {
			require.ErrorIs(t, err, heat.ErrCorrupt)
			return
		}
		again, err := frame.Encode()
		require.NoError(t, err)
		same, err := heat.DecodeFrame(again)
		require.NoError(t, err)
		require.Equal(t, frame.Cells, same.Cells)
	})
}
