package binning_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// memoryShelf keeps blocks in a slice until it is lost.
type memoryShelf struct {
	kept [][]byte
	full bool
	lost bool
	gets int
}

var (
	errShelfFull = errors.New("the shelf is full")
	errShelfLost = errors.New("the shelf is lost")
)

func (s *memoryShelf) Put(data []byte) (binning.Shelved, error) {
	if s.full {
		return nil, errShelfFull
	}
	s.kept = append(s.kept, slices.Clone(data))
	return shelved{s, len(s.kept) - 1}, nil
}

type shelved struct {
	shelf *memoryShelf
	at    int
}

func (s shelved) Get() ([]byte, error) {
	s.shelf.gets++
	if s.shelf.lost {
		return nil, errShelfLost
	}
	return s.shelf.kept[s.at], nil
}

// binOf takes readings into a Bin, with blocks at random.
func binOf(r *rand.Rand, s *binning.Schemas, rows *binning.Rows) binning.Bin {
	b := binning.NewBin(binning.NewNames())
	for offset, reading := range rows.Each() {
		if r.IntN(20) == 0 && b.Ripe(offset, 1) {
			b.Join(-1, b.Through()-r.Int64N(60), 1+r.IntN(30))
			b.Seal(s)
		}
		b.Append(offset, *reading)
	}
	return b
}

type reported struct {
	offset  int64
	reading string
}

func takenFrom(t *testing.T, b *binning.Bin) (all []reported) {
	t.Helper()
	require.NoError(t, b.Each(func(offset int64, reading telemetry.Reading) {
		all = append(all, reported{offset, fmt.Sprint(reading)})
	}))
	return all
}

func rowsTaken(rows *binning.Rows) (all []reported) {
	for offset, reading := range rows.Each() {
		all = append(all, reported{offset, fmt.Sprint(*reading)})
	}
	return all
}

// A Bin is what Rows of the same readings are, whatever is asked of it.
func TestBinAgreesWithRows(t *testing.T) {
	const seed = 77
	r := rand.New(rand.NewPCG(seed, 0))
	s := binning.NewSchemas()
	told, shared := 0, 0
	var framer binning.Framer
	var wanted, shown chunk.Frame // the last ones
	for round := range 300 {
		rows := takenOf(r, 1+r.IntN(200), round%2 == 0)
		bin := binOf(r, s, rows)
		shelf := &memoryShelf{}
		if round%3 == 0 {
			before, free := bin.Bytes(), bin.Shelvable()
			freed, err := bin.Shelve(shelf, int64(round%100))
			require.NoError(t, err)
			require.GreaterOrEqual(t, freed, free)
			require.Equal(t, before-freed, bin.Bytes())
		}
		require.Equal(t, rowsTaken(rows), takenFrom(t, &bin), "seed %d, round %d", seed, round)
		require.Equal(t, []any{rows.Readings(), rows.Values(), rows.First(), rows.Through()},
			[]any{bin.Readings(), bin.Values(), bin.First(), bin.Through()})
		from, to := rows.Span()
		f, u := bin.Span()
		require.Equal(t, []int64{from, to}, []int64{f, u})
		span := binning.All
		if r.IntN(2) == 0 {
			span = telemetry.Range{From: from + r.Int64N(to-from+1), To: to + 1 - r.Int64N(to-from+1)}
		}
		var metrics []string
		if r.IntN(2) == 0 {
			metrics = []string{"m1", "m3"}
		}
		below := rows.Through() + 1
		if r.IntN(2) == 0 {
			below = rows.First() + r.Int64N(rows.Through()-rows.First()+1)
		}
		old := rows.Below(below)
		frame, err := bin.Frame(binning.Selection{Above: -1, Below: below, Span: span, Metrics: metrics})
		require.NoError(t, err)
		require.Equal(t, old.Frame(span, metrics), frame, "seed %d, round %d", seed, round)

		above := int64(-1)
		if r.IntN(2) == 0 {
			above = rows.First() - 1 + r.Int64N(rows.Through()-rows.First()+2)
		}
		frame, err = bin.Frame(binning.Selection{Above: above, Below: below, Span: span, Metrics: metrics})
		require.NoError(t, err)
		later := binning.NewRows(binning.NewNames())
		for offset, reading := range old.Each() {
			if offset > above {
				later.Append(offset, *reading)
			}
		}
		require.Equal(t, later.Frame(span, metrics), frame, "seed %d, round %d, above %d", seed, round, above)
		blocks, err := bin.SelectBlocks(binning.Selection{Above: above, Below: below, Span: span, Metrics: metrics})
		require.NoError(t, err)
		if blocks != nil {
			told++
			got, err := framer.Frame(blocks, span)
			require.NoError(t, err)
			require.Equal(t, frame, got, "seed %d, round %d", seed, round)
			require.Equal(t, wanted, shown, "a frame stays as it is")
			again, err := framer.Frame(blocks, span)
			require.NoError(t, err)
			require.Equal(t, frame, again, "seed %d, round %d", seed, round)
			if len(got.Groups) == 1 {
				shared++
				require.Same(t, &got.Groups[0].Times[0], &again.Groups[0].Times[0], "equal instants are shared")
			}
			wanted, shown = frame, again
		}
	}
	require.Greater(t, told, 100)
	require.Greater(t, shared, 40)
}

// The report of a bin is bounded, whatever the bin holds.
func TestBlockRefusesTooManyReadings(t *testing.T) {
	run := chunk.Run{Sets: []telemetry.Labels{nil}}
	run.Offsets, run.Times = make([]int64, chunk.MaxRows), make([]int64, chunk.MaxRows)
	schema, err := chunk.ParseSchema(chunk.AppendSchema(nil, &run))
	require.NoError(t, err)
	rows, err := chunk.AppendRows(nil, &run)
	require.NoError(t, err)
	blocks := []chunk.Blocks{{Schema: schema, Rows: slices.Repeat([][]byte{rows}, 9)}}
	_, err = new(binning.Framer).Frame(blocks, binning.All)
	require.ErrorContains(t, err, "blocks of more than 1048576 readings")
	blocks[0].Rows = blocks[0].Rows[:8]
	_, err = new(binning.Framer).Frame(blocks, binning.All)
	require.NoError(t, err)
}

// Joined blocks are read as before, and the journal gets their rows as one block. Large blocks stay apart, and blocks
// with rows below the lower offset or above the upper one.
func TestJoinedBlocks(t *testing.T) {
	s := binning.NewSchemas()
	bin := binning.NewBin(binning.NewNames())
	seal := func(above, through int64, rows int) {
		bin.Join(above, through, rows)
		require.True(t, bin.Seal(s))
	}
	for offset := range int64(60) {
		if bin.Ripe(offset, 10) {
			seal(9, offset-21, 30)
		}
		bin.Append(offset, telemetry.Reading{Time: offset,
			Fields: []telemetry.Field{{Metric: "a", Value: telemetry.FloatValue(float64(offset))}}})
	}
	seal(9, 39, 30)
	var rows []int
	for _, b := range bin.Blocks() {
		rows = append(rows, b.Rows)
	}
	require.Equal(t, []int{10, 30, 10, 10}, rows)
	joined := bin.Blocks()[1]
	require.Equal(t, []int64{10, 39, 10, 39}, []int64{joined.First, joined.Through, joined.From, joined.To})
	require.Equal(t, []int{60, 60}, []int{bin.Readings(), bin.Values()})
	want := takenFrom(t, &bin)
	require.Len(t, want, 60)

	bin.Append(60, telemetry.Reading{Time: 60, Fields: []telemetry.Field{{Metric: "b", Value: telemetry.FloatValue(1)}}})
	open := bin.Open().Below(61)
	whole, err := bin.Frame(binning.Selection{Above: -1, Below: 61, Span: binning.All})
	require.NoError(t, err)
	blocks, err := bin.SelectBlocks(binning.Selection{Above: -1, Below: 61, Span: binning.All})
	require.NoError(t, err)
	require.Len(t, blocks[0].Rows, 6, "a head shows them as they were")
	shown, err := new(binning.Framer).Frame(blocks, binning.All)
	require.NoError(t, err)
	require.Equal(t, whole, shown)
	late := telemetry.Range{From: 25, To: 45}
	blocks, err = bin.SelectBlocks(binning.Selection{Above: -1, Below: 61, Span: late})
	require.NoError(t, err)
	require.Len(t, blocks[0].Rows, 3, "what lies before is left out")
	whole, err = bin.Frame(binning.Selection{Above: -1, Below: 61, Span: late})
	require.NoError(t, err)
	shown, err = new(binning.Framer).Frame(blocks, late)
	require.NoError(t, err)
	require.Equal(t, whole, shown)
	want = append(want, rowsTaken(&open)...)

	data, err := joined.Append(nil)
	require.NoError(t, err)
	_, encoded, err := chunk.SplitBlock(data)
	require.NoError(t, err)
	require.Equal(t, 30, chunk.RowsOf(encoded))
	back, err := binning.NewSchemas().Block(joined, data)
	require.NoError(t, err)
	alone := binning.BinOf(binning.NewNames(), []binning.Block{back})
	require.Equal(t, want[10:40], takenFrom(t, &alone))

	shelf := &memoryShelf{}
	_, err = bin.Shelve(shelf, 9)
	require.NoError(t, err)
	require.Len(t, bin.Blocks(), 2, "blocks that lie one behind another on the shelf are one")
	bin.Join(9, 60, 20)
	require.Len(t, bin.Blocks(), 2, "shelved blocks stay as they are")
	require.Equal(t, want, takenFrom(t, &bin))
}

// A block that is one record goes to the head as a whole, and leaves no block without readings behind.
func TestBlockOfOneRecordIsNotDivided(t *testing.T) {
	s, b := binning.NewSchemas(), binning.NewBin(binning.NewNames())
	for i := range int64(4) {
		if i == 3 {
			require.True(t, b.Seal(s))
		}
		b.Append(7+i/3, telemetry.Reading{Time: 1000 + i,
			Fields: []telemetry.Field{{Metric: "a", Value: telemetry.IntValue(i)}}})
	}
	head, rest, err := b.SplitAt(2, s)
	require.NoError(t, err)
	require.Equal(t, []int{3, 1}, []int{head.Readings(), rest.Readings()})
	require.Equal(t, []int64{7, 8}, []int64{head.Through(), rest.First()})
}

// What is cut and put together again is what it was, and no record is divided.
func TestBinIsCutBetweenRecords(t *testing.T) {
	const seed = 78
	r := rand.New(rand.NewPCG(seed, 0))
	s := binning.NewSchemas()
	for round := range 300 {
		rows := takenOf(r, 1+r.IntN(200), true)
		bin := binOf(r, s, rows)
		all := takenFrom(t, &bin)
		var head, rest binning.Bin
		var err error
		if r.IntN(2) == 0 {
			n := 1 + r.IntN(bin.Readings())
			head, rest, err = bin.SplitAt(n, s)
			require.NoError(t, err)
			require.Positive(t, head.Readings())
			h, _ := rows.SplitAt(n)
			require.InDelta(t, h.Readings(), head.Readings(), 60, "about what Rows do")
		} else {
			offset := bin.First() - 1 + r.Int64N(bin.Through()-bin.First()+3)
			head, rest, err = bin.UpTo(offset, s)
			require.NoError(t, err)
			require.Equal(t, rows.RowsThrough(offset), head.Readings())
		}
		require.Equal(t, len(all), head.Readings()+rest.Readings())
		require.Equal(t, bin.Values(), head.Values()+rest.Values())
		require.Equal(t, all, append(takenFrom(t, &head), takenFrom(t, &rest)...), "seed %d, round %d", seed, round)
		if head.Readings() > 0 && rest.Readings() > 0 {
			require.Less(t, head.Through(), rest.First())
		}
		joined, err := head.Concat(&rest, s)
		require.NoError(t, err)
		require.Equal(t, all, takenFrom(t, &joined))
		require.Equal(t, bin.Readings(), joined.Readings())
		require.Equal(t, bin.Values(), joined.Values())
	}
}

// A snapshot is not changed by what becomes of the Bin.
func TestCopyOfBinIsUnchanged(t *testing.T) {
	const seed = 79
	r := rand.New(rand.NewPCG(seed, 0))
	s := binning.NewSchemas()
	bin := binning.NewBin(binning.NewNames())
	type shot struct {
		bin  binning.Bin
		want []reported
	}
	var shots []shot
	var want []reported
	shelf := &memoryShelf{}
	for offset := range int64(2000) {
		if bin.Ripe(offset, 10) {
			require.True(t, bin.Seal(s))
		}
		reading := telemetry.Reading{Time: 1795183200000 + offset,
			Fields: []telemetry.Field{{Metric: "a", Value: telemetry.FloatValue(float64(offset))}}}
		bin.Append(offset, reading)
		want = append(want, reported{offset, fmt.Sprint(reading)})
		switch r.IntN(50) {
		case 0:
			shots = append(shots, shot{bin, slices.Clone(want)})
		case 1:
			_, err := bin.Shelve(shelf, -1)
			require.NoError(t, err)
		case 2:
			shots = append(shots, shot{bin, slices.Clone(want)})
			_, rest, err := bin.SplitAt(1+r.IntN(bin.Readings()), s)
			require.NoError(t, err)
			want = want[len(want)-rest.Readings():]
			bin = rest
		}
	}
	for i := range shots {
		require.Equal(t, shots[i].want, takenFrom(t, &shots[i].bin), "seed %d", seed)
	}
}

// A block goes to the journal and comes back.
func TestBlockIsSelfContained(t *testing.T) {
	const seed = 80
	r := rand.New(rand.NewPCG(seed, 0))
	s := binning.NewSchemas()
	rows := takenOf(r, 150, true)
	bin := binOf(r, s, rows)
	_, err := bin.Shelve(&memoryShelf{}, -1)
	require.NoError(t, err)
	bin.Seal(s)
	other := binning.NewSchemas()
	var back []binning.Block
	for _, b := range bin.Blocks() {
		data, err := b.Append(nil)
		require.NoError(t, err)
		x, err := other.Block(binning.Block{Rows: b.Rows, Values: b.Values, First: b.First, Through: b.Through, From: b.From,
			To: b.To}, data)
		require.NoError(t, err)
		back = append(back, x)
	}
	loaded := binning.BinOf(binning.NewNames(), back)
	require.Equal(t, takenFrom(t, &bin), takenFrom(t, &loaded))
	_, err = other.Block(binning.Block{}, []byte{200})
	require.ErrorIs(t, err, chunk.ErrCorrupt)
}

// What goes to a shelf together is one piece there, and a reader of all of it gets it once.
func TestBlocksShareAPieceOfTheShelf(t *testing.T) {
	s, shelf := binning.NewSchemas(), &memoryShelf{}
	bin := binning.NewBin(binning.NewNames())
	for offset := range int64(500) {
		if bin.Ripe(offset, 10) {
			require.True(t, bin.Seal(s))
		}
		bin.Append(offset, telemetry.Reading{Time: offset,
			Fields: []telemetry.Field{{Metric: "a", Value: telemetry.FloatValue(float64(offset))}}})
	}
	want := takenFrom(t, &bin)
	_, err := bin.Shelve(shelf, bin.Through())
	require.NoError(t, err)
	require.Len(t, bin.Blocks(), 49)
	require.Len(t, shelf.kept, 1)
	require.Zero(t, bin.Shelvable())
	require.Equal(t, want, takenFrom(t, &bin))
	require.Equal(t, 1, shelf.gets)
	_, err = bin.Frame(binning.Selection{Above: -1, Below: bin.Through() + 1, Span: binning.All})
	require.NoError(t, err)
	require.Equal(t, 2, shelf.gets)
	_, err = bin.Shelve(shelf, -1)
	require.NoError(t, err)
	require.Len(t, shelf.kept, 1, "nothing is left")
}

// A shelf that is full leaves everything where it is; one that has lost its blocks returns an error.
func TestShelfFails(t *testing.T) {
	s := binning.NewSchemas()
	rows := takenOf(rand.New(rand.NewPCG(5, 5)), 100, false)
	bin := binOf(rand.New(rand.NewPCG(6, 6)), s, rows)
	all := takenFrom(t, &bin)
	shelf := &memoryShelf{full: true}
	freed, err := bin.Shelve(shelf, -1)
	require.ErrorIs(t, err, errShelfFull)
	require.Zero(t, freed)
	require.Equal(t, all, takenFrom(t, &bin))

	shelf.full = false
	_, err = bin.Shelve(shelf, -1)
	require.NoError(t, err)
	shelf.lost = true
	_, err = bin.Frame(binning.Selection{Above: -1, Below: bin.Through() + 1, Span: binning.All})
	require.ErrorIs(t, err, errShelfLost)
	require.ErrorIs(t, bin.Each(func(int64, telemetry.Reading) {}), errShelfLost)
	_, _, err = bin.UpTo(bin.First(), s)
	require.ErrorIs(t, err, errShelfLost)
	_, err = bin.Blocks()[0].Append(nil)
	require.ErrorIs(t, err, errShelfLost)
}

// Blocks that reach into each other, or say the same twice, become each record once, of those that are asked for.
func TestOverlappingBlocks(t *testing.T) {
	const seed = 81
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 400 {
		s, rows := binning.NewSchemas(), takenOf(r, 1+r.IntN(40), true)
		last := rows.Through()
		var blocks []binning.Block
		for offset := int64(0); offset <= last || r.IntN(4) > 0; offset = r.Int64N(last + 2) {
			some, to := binning.NewBin(binning.NewNames()), offset+1+r.Int64N(last+1)
			if len(blocks) == 0 {
				to = last + 1 // one has all
			}
			for at, reading := range rows.Each() {
				if at >= offset && at < to {
					some.Append(at, *reading)
				}
			}
			if some.Seal(s) {
				blocks = append(blocks, some.Blocks()...)
			}
			if len(blocks) > 6 {
				break
			}
		}
		from := r.Int64N(last + 1)
		below := from + r.Int64N(last-from+3)
		if round%2 == 0 && len(blocks) > 1 {
			blocks = blocks[1:] // of some records there is none
		}
		held := map[int64]bool{}
		for i := range blocks {
			one := binning.BinOf(binning.NewNames(), blocks[i:i+1])
			for _, x := range takenFrom(t, &one) {
				held[x.offset] = true
			}
		}
		want := slices.DeleteFunc(rowsTaken(rows), func(x reported) bool {
			return !held[x.offset] || x.offset < from || x.offset >= below
		})
		merged, err := s.Merge(blocks, from, below)
		require.NoError(t, err)
		all := binning.BinOf(binning.NewNames(), merged)
		require.Equal(t, want, append([]reported{}, takenFrom(t, &all)...), "seed %d, round %d", seed, round)
		for i := 1; i < len(merged); i++ {
			require.Less(t, merged[i-1].Through, merged[i].First, "seed %d, round %d", seed, round)
		}
	}
}

// Join makes one block of several, and a cut inside it decodes only the one where the cut lies. A record on both sides
// of the cut goes to the rest, unless it is the first record.
func TestCutInsideJoinedBlocks(t *testing.T) {
	s, b := binning.NewSchemas(), binning.NewBin(binning.NewNames())
	const rows = 20 * binning.BlockRows
	for i := range int64(rows) {
		offset := i
		if i >= 128 && i < 228 {
			offset = 128 // one record, and a block of its own
		}
		if b.Ripe(offset, binning.BlockRows) {
			b.Join(-1, offset, binning.JoinedRows)
			require.True(t, b.Seal(s))
		}
		b.Append(offset, telemetry.Reading{Time: i, Fields: []telemetry.Field{{Metric: "a", Value: telemetry.IntValue(i)}}})
	}
	require.Less(t, len(b.Blocks()), 10)
	for n, want := range map[int]int{1: 1, 64: 64, 100: 100, 150: 128, 227: 128, 228: 228, 333: 333, rows - 1: rows - 1} {
		head, rest, err := b.SplitAt(n, s)
		require.NoError(t, err)
		require.Equal(t, want, head.Readings(), "%d", n)
		require.Equal(t, rows-want, rest.Readings())
		require.Less(t, head.Open().Readings(), 2*binning.BlockRows)
		next := int64(0)
		for _, x := range []binning.Bin{head, rest} {
			require.NoError(t, x.Each(func(_ int64, r telemetry.Reading) {
				require.Equal(t, next, r.Time)
				next++
			}))
		}
		through, err := b.ReadingsThrough(head.Through())
		require.NoError(t, err)
		require.Equal(t, want, through)
	}
}
