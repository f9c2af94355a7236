package duration_test

import (
	"math"
	"testing"
	"time"

	"binnacle/internal/text/duration"

	"github.com/stretchr/testify/require"
)

func TestParseAndString(t *testing.T) {
	for text, want := range map[string]struct {
		d     time.Duration
		again string // what String makes of it, if that is not text
	}{
		"0s":                          {0, ""},
		"0":                           {0, "0s"},
		"90s":                         {90 * time.Second, "1m30s"},
		"1m":                          {time.Minute, ""},
		"10m":                         {10 * time.Minute, ""},
		"1h":                          {time.Hour, ""},
		"20h":                         {20 * time.Hour, ""},
		"1h30m":                       {90 * time.Minute, ""},
		"1h0m5s":                      {time.Hour + 5*time.Second, ""},
		"500ms":                       {500 * time.Millisecond, ""},
		"1.5s":                        {1500 * time.Millisecond, ""},
		".5h":                         {30 * time.Minute, "30m"},
		"24h":                         {duration.Day, "1d"},
		"2d":                          {2 * duration.Day, ""},
		"1d12h":                       {36 * time.Hour, ""},
		"1.5d":                        {36 * time.Hour, "1d12h"},
		"0d1ns":                       {1, "1ns"},
		"365d":                        {365 * duration.Day, ""},
		"-7d":                         {-7 * duration.Day, ""},
		"-1d12h":                      {-36 * time.Hour, ""},
		"106751d":                     {106751 * duration.Day, ""},
		"106751d23h47m16.854775807s":  {math.MaxInt64, ""},
		"-106751d23h47m16.854775807s": {-math.MaxInt64, ""},
	} {
		d, err := duration.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want.d, d, text)
		if want.again == "" {
			want.again = text
		}
		require.Equal(t, want.again, duration.String(d))
	}
}

func TestParseRefusesInvalid(t *testing.T) {
	for _, text := range []string{
		"", "-", "30", "5x", "d", ".d", "x1d", "1d-1h", "1d+1h", "+1h", "--1h", "1e3d", "-1e9d", "1d 2h", " 1h", "1h1d",
		"1d2d", "NaNd", "Infd", "1_0d",
		"9999999999999999999h", "٣d",
	} {
		_, err := duration.Parse(text)
		require.Error(t, err, text)
		require.Contains(t, err.Error(), text)
	}
}

func TestParseRefusesOverflow(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"106752d": math.MaxInt64, "106751d24h": math.MaxInt64, "-1000000d": -math.MaxInt64,
	} {
		d, err := duration.Parse(text)
		require.ErrorIs(t, err, duration.ErrTooLong)
		require.Equal(t, want, d)
	}
}

// What is printed is read back to the same.
func FuzzString(f *testing.F) {
	for _, d := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, int64(duration.Day), int64(time.Hour),
		int64(time.Minute)} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n)
		text := duration.String(d)
		if n == math.MinInt64 {
			return // printed, but below what is read
		}
		again, err := duration.Parse(text)
		require.NoError(t, err)
		require.Equal(t, d, again, text)
	})
}

// Whatever is read has a text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"1d12h", "-.5h", "106751d23h47m16.9s", "1.5d1.5h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := duration.Parse(s)
		if err != nil {
			return
		}
		again, err := duration.Parse(duration.String(d))
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}
