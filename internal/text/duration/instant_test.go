package duration_test

import (
	"testing"
	"time"

	"binnacle/internal/text/duration"

	"github.com/stretchr/testify/require"
)

// A day is named by any time in it, in all notations of times, and by its eight digits.
func TestParseDayOf(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"20261118": "20261118", "2026-11-18": "20261118", "2026-11-18T00:00:00Z": "20261118",
		"2026-11-18T02:00:00+02:00": "20261118", "1794960000": "20261118", "1794960000000": "20261118",
	} {
		d, begins, err := duration.ParseDayOf(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, d.String(), text)
		require.True(t, begins, text)
	}
	for text, want := range map[string]string{
		"now": "20261120", "-1d": "20261119", "-13h": "20261119", "-12h": "20261120", "2026-11-18T00:00:00.001Z": "20261118",
		"2026-11-18t23:59:59z": "20261118",
	} {
		d, begins, err := duration.ParseDayOf(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, d.String(), text)
		require.False(t, begins, text)
	}
	for _, text := range []string{"", "yesterday", "-", "--1d", "2026-11-31", "2026-11-18T24:00:00Z", "1d"} {
		_, _, err := duration.ParseDayOf(text, now)
		require.Error(t, err, text)
	}
}
