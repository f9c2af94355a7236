package binning_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// takenOf is random readings of a device: gaps, kinds that change, and by disorder also late ones, instants again, and
// label sets.
func takenOf(r *rand.Rand, n int, disorder bool) *binning.Rows {
	var rows binning.Rows
	at, offset := int64(1795183200000), int64(0)
	for range n {
		at += 1000
		reading := telemetry.Reading{Time: at}
		if disorder {
			reading.Time -= r.Int64N(4) * 1000 * int64(r.IntN(2))
			if i := r.IntN(3); i > 0 {
				reading.Labels = telemetry.Labels{{Name: "axle", Value: fmt.Sprint(i)}}
			}
		}
		empty := r.IntN(50) / 49 // a reading without values
		for m := range 5 {
			switch r.IntN(8) + 8*empty {
			case 0, 8, 9, 10, 11, 12, 13, 14, 15:
			case 1:
				reading.Fields = append(reading.Fields, telemetry.Field{Metric: fmt.Sprint("m", m),
					Value: telemetry.TextValue(fmt.Sprint(r.IntN(3)))})
			default:
				reading.Fields = append(reading.Fields, telemetry.Field{Metric: fmt.Sprint("m", m),
					Value: telemetry.FloatValue(float64(r.IntN(100)) / 10)})
			}
		}
		rows.Append(offset, reading)
		offset += r.Int64N(3)
	}
	return &rows
}

// Rows that went through blocks are what they were: as readings, and as the columns of a chunk.
func TestRowsThroughBlocks(t *testing.T) {
	const seed = 41
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 200 {
		rows := takenOf(r, 1+r.IntN(300), i%2 == 0)
		var runs []chunk.Run
		var back binning.Rows
		for from := 0; from < rows.Readings(); {
			to := min(rows.Readings(), from+1+r.IntN(80))
			run := rows.Run(from, to, nil)
			two := []string{"m1", "m3"}
			of, some := run.Of(two), rows.Run(from, to, two)
			require.Equal(t, of.Where(of.Valued), some.Where(some.Valued), "seed %d", seed)
			own, err := chunk.AppendRows(nil, &run)
			require.NoError(t, err)
			b := chunk.AppendSplit(nil, chunk.AppendSchema(nil, &run), own)
			schema, data, err := chunk.SplitBlock(b)
			require.NoError(t, err)
			s, err := chunk.ParseSchema(schema)
			require.NoError(t, err)
			got, err := s.Rows(data, nil)
			require.NoError(t, err)
			require.EqualExportedValues(t, run, got, "seed %d", seed)
			runs = append(runs, got)
			back.AppendRun(&got)
			from = to
		}
		type taken struct {
			offset  int64
			reading string
		}
		list := func(rows *binning.Rows) (all []taken) {
			for offset, reading := range rows.Each() {
				all = append(all, taken{offset, fmt.Sprint(*reading)})
			}
			return all
		}
		require.Equal(t, list(rows), list(&back), "seed %d", seed)
		require.Equal(t, rows.Frame(binning.All, nil), binning.FrameOf(runs), "seed %d", seed)
	}
}
