package telemetry_test

import (
	"math"
	"strings"
	"testing"

	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

func TestValuesKeepAllBits(t *testing.T) {
	nan := math.Float64frombits(0x7FF8000000000123)
	require.Equal(t, uint64(0x7FF8000000000123), telemetry.FloatValue(nan).Bits())
	require.NotEqual(t, telemetry.FloatValue(0), telemetry.FloatValue(math.Copysign(0, -1)))
	require.NotEqual(t, telemetry.FloatValue(1), telemetry.IntValue(1))
	require.Equal(t, "9223372036854775807", telemetry.IntValue(math.MaxInt64).String())
	require.Equal(t, "74.93588199999998", telemetry.FloatValue(74.93588199999998).String())
	for k := telemetry.Float; k <= telemetry.Text; k++ {
		got, ok := telemetry.ParseKind(k.String())
		require.True(t, ok)
		require.Equal(t, k, got)
	}
	_, ok := telemetry.ParseKind("double")
	require.False(t, ok)
}

func TestLabels(t *testing.T) {
	l := telemetry.NewLabels([]telemetry.Label{{"b", "1"}, {"a", "2"}, {"b", "3"}})
	require.Equal(t, telemetry.Labels{{"a", "2"}, {"b", "3"}}, l)
	require.Equal(t, l, telemetry.LabelsOf(l.Map()))
	require.Nil(t, telemetry.NewLabels([]telemetry.Label{}))
	require.Negative(t, telemetry.Labels(nil).Compare(l))
	require.Negative(t, telemetry.Labels{{"a", "2"}}.Compare(l))
	require.NotEqual(t, telemetry.Labels{{"a", "b"}, {"c", "d"}}.AppendKey(nil),
		telemetry.Labels{{"a", "bc"}, {"", "d"}}.AppendKey(nil))
}

func TestCalendar(t *testing.T) {
	for _, v := range []struct {
		millis     int64
		day, month string
	}{
		{0, "19700101", "1970-01"},
		{1795183200123, "20261120", "2026-11"},
		{1709164800000 - 1, "20240228", "2024-02"},
		{1709164800000, "20240229", "2024-02"},
		{telemetry.MaxMillis - 1, "99991231", "9999-12"},
	} {
		d := telemetry.DayOf(v.millis)
		require.Equal(t, v.day, d.String())
		require.Equal(t, v.month, d.Month().String())
		back, err := telemetry.ParseDay(v.day)
		require.NoError(t, err)
		require.Equal(t, d, back)
		m := telemetry.MonthOf(v.millis)
		require.Equal(t, v.month, m.String())
		require.True(t, m.Range().Contains(v.millis))
		require.Equal(t, m, telemetry.MonthOf(m.Range().To-1))
		require.Equal(t, m+1, telemetry.MonthOf(m.Range().To))
	}
	for _, bad := range []string{"", "2026112", "20261301", "19691231", "202611200"} {
		_, err := telemetry.ParseDay(bad)
		require.Error(t, err, bad)
	}
}

func TestNames(t *testing.T) {
	for _, ok := range []string{"a", "acme", "0-9", strings.Repeat("x", 63)} {
		require.NoError(t, telemetry.CheckTenant(ok), ok)
	}
	for _, bad := range []string{"", "-a", "Acme", "a_b", "dlq", "a b", strings.Repeat("x", 64), "é"} {
		require.Error(t, telemetry.CheckTenant(bad), bad)
	}
	for _, ok := range []string{"m1", "truck 42", "Gerät:7", strings.Repeat("é", 200)} {
		require.NoError(t, telemetry.CheckDevice(ok), ok)
	}
	for _, bad := range []string{"", "a/b", `a\b`, "a?", "#", "a\tb", "😀", "a\x7f", "\xff", strings.Repeat("x", 201)} {
		require.Error(t, telemetry.CheckDevice(bad), bad)
	}
	require.NoError(t, telemetry.CheckName("metric", "fuel/😀"))
	require.ErrorContains(t, telemetry.CheckName("metric", "a\nb"), "metric")
	require.Error(t, telemetry.CheckName("label", ""))
}
