package binning_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

type cell struct {
	labels, metric string
	time           int64
}

// taken is a reading with the offset of its record.
type taken struct {
	offset int64
	telemetry.Reading
}

func random(rnd *rand.Rand, n int) []taken {
	var out []taken
	offset := int64(0)
	for range n {
		if rnd.IntN(3) > 0 {
			offset += 1 + rnd.Int64N(3)
		}
		r := telemetry.Reading{Time: 1000 + rnd.Int64N(20)}
		if rnd.IntN(2) == 0 {
			r.Labels = telemetry.Labels{{Name: "fleet", Value: fmt.Sprint(rnd.IntN(2))}}
		}
		for m := range 4 {
			if rnd.IntN(3) == 0 {
				continue
			}
			v := []telemetry.Value{telemetry.FloatValue(rnd.Float64()), telemetry.IntValue(rnd.Int64N(9)),
				telemetry.BoolValue(true), telemetry.TextValue(fmt.Sprint(rnd.IntN(99)))}[rnd.IntN(4)]
			r.Fields = append(r.Fields, telemetry.Field{Metric: fmt.Sprintf("m%d", m), Value: v})
		}
		if len(r.Fields) > 0 {
			out = append(out, taken{offset, r})
		}
	}
	return out
}

func rowsOf(readings []taken) (r binning.Rows) {
	for _, x := range readings {
		r.Append(x.offset, x.Reading)
	}
	return r
}

// plain is what a map makes of the readings: the last value of each series and instant.
func plain(readings []taken, span telemetry.Range, metrics []string) map[cell]telemetry.Value {
	out := map[cell]telemetry.Value{}
	for _, r := range readings {
		for _, f := range r.Fields {
			if span.Contains(r.Time) && (metrics == nil || slices.Contains(metrics, f.Metric)) {
				out[cell{string(r.Labels.AppendKey(nil)), f.Metric, r.Time}] = f.Value
			}
		}
	}
	return out
}

func cells(t *testing.T, f chunk.Frame) map[cell]telemetry.Value {
	out := map[cell]telemetry.Value{}
	for i, g := range f.Groups {
		if i > 0 {
			require.Negative(t, f.Groups[i-1].Labels.Compare(g.Labels))
		}
		for j := range g.Times[1:] {
			require.Less(t, g.Times[j], g.Times[j+1])
		}
		for _, c := range g.Columns {
			k := 0
			for row, at := range g.Times {
				if c.Present != nil && !c.Present.Has(row) {
					continue
				}
				key := cell{string(g.Labels.AppendKey(nil)), c.Metric, at}
				require.NotContains(t, out, key, "one value per metric and instant")
				out[key] = c.Value(k)
				k++
			}
			require.Equal(t, c.Len(), k)
		}
	}
	return out
}

func TestFrameAgreesWithMap(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		readings := random(rnd, 1+rnd.IntN(60))
		if len(readings) == 0 {
			continue
		}
		rows := rowsOf(readings)
		require.Equal(t, plain(readings, binning.All, nil), cells(t, rows.Frame(binning.All, nil)))
		span := telemetry.Range{From: 1000 + rnd.Int64N(20), To: 1000 + rnd.Int64N(20)}
		metrics := []string{"m1", "m3", "none"}
		require.Equal(t, plain(readings, span, metrics), cells(t, rows.Frame(span, metrics)))
	}
}

func TestCutsFallBetweenRecords(t *testing.T) {
	const seed = 12
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		readings := random(rnd, 2+rnd.IntN(60))
		if len(readings) == 0 {
			continue
		}
		rows := rowsOf(readings)
		head, tail := rows.SplitAt(1 + rnd.IntN(len(readings)))
		require.Positive(t, head.Readings())
		require.Equal(t, rows.Readings(), head.Readings()+tail.Readings())
		require.Equal(t, rows.First(), head.First())
		if tail.Readings() > 0 {
			require.Less(t, head.Through(), tail.First())
			require.Equal(t, rows.Records(), head.Records()+tail.Records())
		}
		again := head.Concat(&tail)
		require.Equal(t, cells(t, rows.Frame(binning.All, nil)), cells(t, again.Frame(binning.All, nil)))

		at := rnd.Int64N(rows.Through() + 2)
		rest := rows.After(at)
		var want []taken
		for _, r := range readings {
			if r.offset > at {
				want = append(want, r)
			}
		}
		require.Equal(t, len(want), rest.Readings())
		require.Equal(t, plain(want, binning.All, nil), cells(t, rest.Frame(binning.All, nil)))
	}
}

// However rows are cut, appended to and cut again, what is left is what a plain list holds, and so is its size.
func TestBinIsCutPieceByPiece(t *testing.T) {
	const seed = 13
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 40 {
		var rows binning.Rows
		var list []taken
		for range 30 {
			base := int64(0)
			if len(list) > 0 {
				base = list[len(list)-1].offset + 1
			}
			for _, x := range random(rnd, rnd.IntN(12)) {
				x.offset += base
				rows.Append(x.offset, x.Reading)
				list = append(list, x)
			}
			if len(list) == 0 {
				continue
			}
			snapshot, before := rows, cells(t, rows.Frame(binning.All, nil))
			if rnd.IntN(2) == 0 {
				head, tail := rows.SplitAt(1 + rnd.IntN(len(list)))
				require.Equal(t, plain(list[:head.Readings()], binning.All, nil), cells(t, head.Frame(binning.All, nil)))
				rows, list = tail, list[head.Readings():]
			} else {
				at := list[0].offset + rnd.Int64N(4) - 1
				n := rows.RowsThrough(at)
				rows, list = rows.After(at), list[n:]
			}
			require.Equal(t, before, cells(t, snapshot.Frame(binning.All, nil)), "a snapshot stays")
			require.Equal(t, len(list), rows.Readings())
			if len(list) == 0 {
				continue
			}
			require.Equal(t, plain(list, binning.All, nil), cells(t, rows.Frame(binning.All, nil)))
			anew := rowsOf(list)
			require.Equal(t, anew.Values(), rows.Values())
			require.Equal(t, anew.First(), rows.First())
			require.LessOrEqual(t, rows.Bytes(), 3*anew.Bytes()+1024, "what a cut leaves idle is bounded")
		}
	}
}

// A long bin goes out in pieces: the time that takes must follow its length, not the square of it.
func TestManyPiecesOfALongBin(t *testing.T) {
	allocated := func(n int) uint64 {
		var rows binning.Rows
		for i := range n {
			rows.Append(int64(i), telemetry.Reading{Time: int64(i), Fields: []telemetry.Field{{Metric: "a",
				Value: telemetry.IntValue(int64(i))}}})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for rows.Readings() > 0 {
			_, rows = rows.SplitAt(100)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := allocated(5_000), allocated(40_000)
	require.Less(t, large, 2*8*small)
}

// A query reads a copy while the worker goes on; the race detector watches.
func TestCopyIsUnchanged(t *testing.T) {
	var rows binning.Rows
	at := func(i int) telemetry.Reading {
		return telemetry.Reading{Time: int64(i), Fields: []telemetry.Field{{Metric: fmt.Sprintf("m%d", i%7),
			Value: telemetry.TextValue(fmt.Sprint(i))}}}
	}
	for i := range 100 {
		rows.Append(int64(i), at(i))
	}
	snapshot := rows
	done := make(chan map[cell]telemetry.Value)
	go func() {
		f := snapshot.Frame(binning.All, nil)
		out := map[cell]telemetry.Value{}
		for _, g := range f.Groups {
			for _, c := range g.Columns {
				for k := range c.Len() {
					out[cell{metric: c.Metric + c.Value(k).Text()}] = c.Value(k)
				}
			}
		}
		done <- out
	}()
	for i := 100; i < 2000; i++ {
		rows.Append(int64(i), at(i))
	}
	require.Len(t, <-done, 100)
	require.Equal(t, 2000, rows.Readings())
}

func TestFirstHoldSpreadsAFleet(t *testing.T) {
	const hold = time.Hour
	late := 0
	for i := range 1000 {
		h := binning.FirstHold(fmt.Sprintf("truck-%04d", i), hold)
		require.Positive(t, h)
		require.LessOrEqual(t, h, hold)
		if h > hold/2 {
			late++
		}
	}
	require.InDelta(t, 500, late, 80)
}
