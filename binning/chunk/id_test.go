package chunk_test

import (
	"math"
	"slices"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

func TestID(t *testing.T) {
	for _, v := range []struct {
		id   chunk.ID
		text string
	}{
		{chunk.ID{Day: 20777, Stream: 1, Partition: 3, Number: 17}, "20261120.1.00003.000017"},
		{chunk.ID{}, "19700101.0.00000.000000"},
		{chunk.ID{Day: 20777, Stream: math.MaxUint32, Partition: math.MaxInt32, Number: math.MaxUint32},
			"20261120.4294967295.2147483647.4294967295"},
		{chunk.ID{Day: 20777, Stream: 12, Partition: 99999, Number: 999999}, "20261120.12.99999.999999"},
	} {
		require.Equal(t, v.text, v.id.String())
		back, err := chunk.ParseID(v.text)
		require.NoError(t, err)
		require.Equal(t, v.id, back)
	}
	for _, bad := range []string{
		"", "20261120", "20261120.1.00003", "20261120.1.00003.000017.1", "20261320.1.00003.000017",
		"20261120.01.00003.000017",
		"20261120.1.3.000017", "20261120.1.00003.17", "20261120.1.-0003.000017", "20261120.+1.00003.000017",
		"20261120.1.00003.0000017", "20261120.1.00003.4294967296", "20261120.1.2147483648.000017", " 20261120.1.00003.000017",
	} {
		_, err := chunk.ParseID(bad)
		require.Error(t, err, bad)
	}
}

func TestIDsSortInTheOrderOfTheirParts(t *testing.T) {
	var text []string
	for _, day := range []telemetry.Day{0, 20777, 20788} {
		for _, partition := range []int32{0, 9, 10, 99999} {
			for _, number := range []uint32{0, 9, 10, 999, 999999} {
				text = append(text, chunk.ID{Day: day, Stream: 7, Partition: partition, Number: number}.String())
			}
		}
	}
	require.True(t, slices.IsSorted(text))
}
