package telemetry_test

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

func TestParseEpoch(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1795381023": 1795381023000, "1795381023.1239": 1795381023123, "-1": -1000, "-0.0001": -1, "0.001": 1,
		"1795381023000": 1795381023000, "1795381023000.9": 1795381023000, "1.795381023e9": 1795381023000,
		"1795381023000999": 1795381023000, "1795381023000999999": 1795381023000, "+5": 5000,
		"-1795381023000999": -1795381023001,
		"99999999999.9":     99999999999900, "100000000000": 100000000000, "253402300799999": telemetry.MaxMillis - 1,
		"253402300800000": 253402300800, "253402300800000000": 253402300800,
	} {
		got, ok := telemetry.ParseEpoch(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			require.Equal(t, want, telemetry.EpochMillis(n), text)
		}
	}
	for _, text := range []string{"", "-", ".", "1.2.3", "x", "1e400", "2026-11-20", "0x10", "nan", "1_0", "1e30"} {
		_, ok := telemetry.ParseEpoch(text)
		require.False(t, ok, text)
	}
	require.Equal(t, int64(math.MinInt64/1000000-1), telemetry.EpochMillis(math.MinInt64))
}

// Whole numbers and their texts give the same, and what EpochPlaces says, rounded down.
func FuzzParseEpoch(f *testing.F) {
	f.Add(int64(1795381023), 0)
	f.Add(int64(-179538102312345), 3)
	f.Fuzz(func(t *testing.T, n int64, decimals int) {
		if decimals < 0 || decimals > 18 {
			return
		}
		exact := new(big.Rat).SetFrac(big.NewInt(n), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil))
		text := exact.FloatString(decimals)
		near, _ := exact.Float64()
		want := new(big.Rat).Set(exact)
		scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(3), nil))
		switch places := telemetry.EpochPlaces(near); places {
		case 3:
			want.Mul(want, scale)
		case -3:
			want.Quo(want, scale)
		case -6:
			want.Quo(want, scale).Quo(want, scale)
		}
		floor := new(big.Int).Div(want.Num(), want.Denom()) // Euclidean: rounds down for a positive divisor
		got, ok := telemetry.ParseEpoch(text)
		require.True(t, ok, text)
		require.Equal(t, floor.Int64(), got, text)
		if decimals == 0 {
			require.Equal(t, floor.Int64(), telemetry.EpochMillis(n), text)
		}
	})
}
