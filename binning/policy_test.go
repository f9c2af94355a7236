package binning_test

import (
	"math"
	"testing"

	"binnacle/binning"
	"binnacle/internal/charges/ru"

	"github.com/stretchr/testify/require"
)

func TestSizerFindsTheTarget(t *testing.T) {
	var s binning.Sizer
	require.False(t, s.Full(1000, 10))
	s.Observe(binning.Measured{10_000, 10, 11_500, 1500})
	require.False(t, s.Full(29_000, 10))
	require.True(t, s.Full(30_000, 10))
	require.Equal(t, 500, s.ReadingsFor(500, 34_000, 10), "a little over the target is no reason to split")
	n := s.ReadingsFor(1000, 100_000, 10)
	require.InDelta(t, binning.TargetBytes, s.Estimate(n*100, 10), 400)
	s.Observe(binning.Measured{3, 10, 1600, 1590})
	require.False(t, s.Full(29_000, 10), "few values don't tell what one takes")
}

// Nobody knows whether the service charges a document between two rows of its table of sizes as the larger one, or on
// the line between both. A document just below 32 KB is written and read for as much by both rules; one of 36 KB costs
// a few per cent less by one and half as much again by the other.
func TestTheTargetIsRightByBothRules(t *testing.T) {
	const index, system = 5 * ru.Scalar, 250 // key, from, to and id; what the service adds to a document
	write := func(m ru.Model, bytes int) float64 { return m.Write(bytes, index) / float64(bytes) }
	read := func(m ru.Model, bytes int) float64 { return m.Read(bytes) / float64(bytes) }
	const with = binning.TargetBytes + system
	require.Less(t, with, 32<<10*98/100, "and two per cent for an estimate")
	require.InEpsilon(t, write(ru.Stepped, with), write(ru.Sloped, with), 0.02)
	require.InEpsilon(t, read(ru.Stepped, with), read(ru.Sloped, with), 0.02)
	require.Less(t, write(ru.Sloped, with), 1.06*write(ru.Sloped, 36<<10), "the regret if charges slope")
	require.Greater(t, write(ru.Stepped, 36<<10), 1.5*write(ru.Stepped, with), "the regret of 36 KB if they step")
	require.Greater(t, read(ru.Stepped, 36<<10), 1.8*read(ru.Stepped, with))
}

// RU per value are a write's RU over the bytes that are left for values. A target comes within a tenth of what is
// lowest of all sizes, and no smaller size does.
func TestTargetsFollowTheWidth(t *testing.T) {
	before := 0
	for _, overhead := range []int{400, 1500, 3000, 6000, 12_000, 25_000, 50_000, 100_000, 200_000} {
		var s binning.Sizer
		s.Observe(binning.Measured{1, 1000, overhead, overhead})
		target := s.Target(1000)
		require.GreaterOrEqual(t, target, max(before, binning.TargetBytes))
		require.LessOrEqual(t, target, 512<<10)
		require.LessOrEqual(t, s.Max(1000), 544<<10)
		require.Greater(t, s.Max(1000), target)
		before = target

		perValue := func(bytes int) float64 {
			return ru.Stepped.Write(bytes, ru.NoIndex) / float64(bytes-overhead)
		}
		lowest := math.Inf(1)
		for bytes := binning.TargetBytes; bytes <= 512<<10; bytes *= 2 {
			if bytes > overhead {
				lowest = min(lowest, perValue(bytes))
			}
		}
		t.Logf("overhead %6d: target %d KB, %.2f times the lowest RU per value", overhead, target>>10,
			perValue(target)/lowest)
		require.LessOrEqual(t, perValue(target), 1.12*lowest)
		if target > binning.TargetBytes && target/2 > overhead {
			require.Greater(t, perValue(target/2), 1.09*lowest)
		}
	}
	require.GreaterOrEqual(t, before, 400<<10)
}
