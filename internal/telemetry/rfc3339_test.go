package telemetry_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// The examples of RFC 3339, 5.8, and the edges of its grammar.
func TestParseRFC3339(t *testing.T) {
	for text, want := range map[string]string{
		"1985-04-12T23:20:50.52Z":               "1985-04-12T23:20:50.52Z",
		"1996-12-19T16:39:57-08:00":             "1996-12-20T00:39:57Z",
		"1990-12-31T23:59:60Z":                  "1991-01-01T00:00:00Z",
		"1990-12-31T15:59:60-08:00":             "1991-01-01T00:00:00Z",
		"1937-01-01T12:00:27.87+00:20":          "1937-01-01T11:40:27.87Z",
		"2016-12-31t23:59:60.25z":               "2017-01-01T00:00:00.25Z",
		"2015-07-01T01:59:60+02:00":             "2015-07-01T00:00:00Z",
		"2024-02-29T23:59:59-00:00":             "2024-02-29T23:59:59Z",
		"2026-11-27T08:00:00+23:59":             "2026-11-26T08:01:00Z",
		"0000-01-01T00:00:00Z":                  "0000-01-01T00:00:00Z",
		"9999-12-31T23:59:59.999999999Z":        "9999-12-31T23:59:59.999999999Z",
		"2026-11-27T08:00:00.0000000000000001z": "2026-11-27T08:00:00.000000001Z",
		"2026-11-27T08:00:00.9999999999999999Z": "2026-11-27T08:00:00.999999999Z",
	} {
		got, ok := telemetry.ParseRFC3339(text)
		require.True(t, ok, text)
		require.Equal(t, want, got.Format(time.RFC3339Nano), text)
		got, ok = telemetry.ParseRFC3339([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got.Format(time.RFC3339Nano), text)
	}
	for _, text := range []string{
		"", "Z", "2026-11-27", "2026-11-27T08:00:00", "2026-11-27T08:00Z", "2026-11-27T8:00:00Z", "2026-11-27T08:0:00Z",
		"2026-11-27T08:00:00,5Z", "2026-11-27T08:00:00.Z", "2026-11-27T08:00:00+24:00", "2026-11-27T08:00:00+02:60",
		"2026-11-27T08:00:00+0200", "2026-11-27T08:00:00+02", "2026-11-27T08:00:00 Z", "2026-11-27T08:00:00ZZ",
		"2026-11-27 08:00:00Z", "2026-11-27T24:00:00Z", "2026-11-27T08:60:00Z", "2026-11-27T08:00:61Z",
		"2026-11-27T08:00:60Z", "2026-11-27T23:59:60Z", "2016-12-31T23:59:60+01:00", "2016-12-31T22:59:60Z",
		"2026-00-27T08:00:00Z", "2026-13-27T08:00:00Z", "2026-11-00T08:00:00Z", "2026-11-31T08:00:00Z",
		"2025-02-29T08:00:00Z", "02026-11-27T08:00:00Z", "+2026-11-27T08:00:00Z", "2026-11-27T08:00:00+-2:00",
		"2026-11-27T08:00:00\u221202:00", "2026-11-27T08:00:00.1+", "２026-11-27T08:00:00Z", "20261127T080000Z",
	} {
		_, ok := telemetry.ParseRFC3339(text)
		require.False(t, ok, text)
	}
}

// What the standard library writes is read back.
func TestParseRFC3339ReadsWhatIsWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 39))
	for range 5000 {
		zone := time.FixedZone("", 60*(r.IntN(2*1439+1)-1439))
		at := time.Unix(r.Int64N(253402300800)-62135596800/2, r.Int64N(1e9)).In(zone)
		if y := at.Year(); y < 0 || y > 9999 {
			continue
		}
		text := at.Format(time.RFC3339Nano)
		got, ok := telemetry.ParseRFC3339(text)
		require.True(t, ok && got.Equal(at), "%s gives %s: seed 33, 39", text, got)
	}
}
