package binning_test

import (
	"testing"

	"binnacle/binning"
	"binnacle/internal/ru"

	"github.com/stretchr/testify/require"
)

func TestSizerFindsTheTarget(t *testing.T) {
	var s binning.Sizer
	require.False(t, s.Full(1000, 10))
	s.Observe(10_000, 10, 11_500, 1500)
	require.False(t, s.Full(34_000, 10))
	require.True(t, s.Full(35_000, 10))
	require.Equal(t, 500, s.ReadingsFor(500, 40_000, 10), "a little over the target is no reason to split")
	n := s.ReadingsFor(1000, 100_000, 10)
	require.InDelta(t, binning.TargetBytes, s.Estimate(n*100, 10), 400)
	s.Observe(3, 10, 1600, 1590)
	require.False(t, s.Full(34_000, 10), "few values don't tell what one takes")
}

// The charge for a chunk's terms in the index comes on top of its size, so a document a little above the size that is
// cheapest by itself is cheaper to write, and next to as cheap to read.
func TestTheTargetCountsTheIndex(t *testing.T) {
	const terms, cheapest = 6, 32 << 10 // both levels of the key, from, to, id and _ts
	write := func(bytes int) float64 { return ru.TableT.Write(bytes, terms) / float64(bytes) }
	read := func(bytes int) float64 { return ru.TableT.Read(bytes) / float64(bytes) }
	require.Less(t, write(binning.TargetBytes), 0.99*write(cheapest))
	require.LessOrEqual(t, read(binning.TargetBytes), 1.02*read(cheapest))
}

// RU per value are a write's RU over the bytes that are left for values. A target comes within a tenth of what is
// lowest of all sizes, and no smaller size does.
func TestTargetsFollowTheWidth(t *testing.T) {
	before := 0
	for _, overhead := range []int{400, 1500, 3000, 6000, 12_000, 25_000, 50_000, 100_000, 200_000} {
		var s binning.Sizer
		s.Observe(1, 1000, overhead, overhead)
		target := s.Target(1000)
		require.GreaterOrEqual(t, target, max(before, binning.TargetBytes))
		require.LessOrEqual(t, target, 512<<10)
		require.LessOrEqual(t, s.Max(1000), 544<<10)
		require.Greater(t, s.Max(1000), target)
		before = target

		perValue := func(bytes int) float64 { return ru.TableT.Write(bytes, 0) / float64(bytes-overhead) }
		lowest := perValue(512 << 10)
		for bytes := max(binning.TargetBytes, overhead+1024); bytes < 512<<10; bytes += 1024 {
			lowest = min(lowest, perValue(bytes))
		}
		t.Logf("overhead %6d: target %d KB, %.2f times the lowest RU per value", overhead, target>>10,
			perValue(target)/lowest)
		require.LessOrEqual(t, perValue(target), 1.12*lowest)
		if target > binning.TargetBytes && target-(16<<10) > overhead {
			require.Greater(t, perValue(target-16<<10), 1.09*lowest)
		}
	}
	require.GreaterOrEqual(t, before, 400<<10)
}
