package ru_test

import (
	"math/rand/v2"
	"testing"

	"binnacle/internal/charges/ru"

	"github.com/stretchr/testify/require"
)

// Whatever is done, and by whatever model and factors, the interval holds both models, and is a charge where nothing is
// assumed.
func TestTheIntervalHoldsBothModels(t *testing.T) {
	const seed = 17
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	for range 1000 {
		m := []ru.Model{ru.Stepped, ru.Sloped}[r.IntN(2)].Corrected(ru.Factors{Read: r.Float64() * 2, Write: r.Float64() * 2})
		size, old, index := r.IntN(3<<20), r.IntN(3<<20), r.IntN(20)-1
		w := ru.QueryWork{Seeks: r.IntN(5), Columns: r.IntN(3), Docs: r.IntN(100), Scattered: r.IntN(100),
			ExtraKB: 50 * r.Float64(), Counted: r.IntN(4) == 0}
		sum := ru.Certain(ru.Refused)
		for _, charge := range []func(ru.Model) float64{
			func(m ru.Model) float64 { return m.Read(size) },
			func(m ru.Model) float64 { return m.Write(size, m.Levels(index+5, 2)) },
			func(m ru.Model) float64 { return m.Replace(old, size, index) },
			func(m ru.Model) float64 { return m.Delete(old, index) + m.Patch(2) },
			func(m ru.Model) float64 { return m.Query(w) },
			func(m ru.Model) float64 { return m.Feed(w) },
		} {
			i := m.Interval(charge)
			require.InDelta(t, charge(m), i.Likely, 1e-9)
			require.InDelta(t, charge(m.Other()), i.Other, 1e-9)
			require.LessOrEqual(t, i.Low, min(i.Likely, i.Other))
			require.GreaterOrEqual(t, i.High, max(i.Likely, i.Other))
			require.Equal(t, m.Other().Interval(charge).Low, i.Low)
			require.Equal(t, m.Other().Interval(charge).High, i.High)
			sum = sum.Plus(i.Times(2))
		}
		require.LessOrEqual(t, sum.Low, sum.Likely)
		require.GreaterOrEqual(t, sum.High, sum.Likely)
	}
	small := ru.Stepped.Interval(func(m ru.Model) float64 { return m.Write(300, 8) + m.Query(ru.QueryWork{Docs: 9}) })
	require.Equal(t, ru.Certain(small.Likely), small, "all of it is recorded")
}

// The interval of a chunk just below a row is narrow; one above it is charged as twice as large, or not.
func TestTheIntervalOfAChunk(t *testing.T) {
	chunk := func(bytes int) ru.Interval {
		return ru.Stepped.Interval(func(m ru.Model) float64 { return m.Write(bytes, m.Levels(5*ru.Scalar, 2)) })
	}
	below, above := chunk(31*kb), chunk(36*kb)
	require.InDelta(t, 70*ru.Unit, below.Likely, 1e-9)
	require.InDelta(t, below.Likely, below.High, 1e-9)
	require.InDelta(t, 66*ru.Unit, below.Low, 1e-9)
	require.InDelta(t, 130*ru.Unit, above.High, 1e-9)
	require.InDelta(t, 78*ru.Unit, above.Other, 1e-9)
	require.InDelta(t, 74*ru.Unit, above.Low, 1e-9)
}
