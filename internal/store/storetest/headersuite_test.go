package storetest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// headers returns what a scan of headers yields, as shard/device/id, sorted.
func headers(t *testing.T, f fixture, s store.HeaderScan) (out []string) {
	t.Helper()
	charged := 0.0
	s.Charge = func(rus float64) error { charged += rus; return nil }
	usage, err := f.Headers.Headers(t.Context(), s, func(header []byte) error {
		var p struct{ ID, TenantShard, Device string }
		require.NoError(t, json.Unmarshal(header, &p), "%s", header)
		out = append(out, p.TenantShard+"/"+p.Device+"/"+p.ID)
		var all map[string]any
		require.NoError(t, json.Unmarshal(header, &all))
		if !s.Whole {
			for name := range all {
				require.Contains(t, store.HeaderProperties(), name)
			}
			require.Contains(t, all, "through")
		} else {
			require.Contains(t, all, "data")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, len(out), usage.Documents)
	require.InDelta(t, usage.RUs, charged, 1e-6)
	slices.Sort(out)
	return out
}

// headersOfADay finds the chunks of a day under whatever key.
func headersOfADay(t *testing.T, f fixture) {
	f.CreateContainer(container)
	key := func(shard, device string) sharding.Key {
		return sharding.Key{Container: container, TenantShard: shard, Device: device}
	}
	put := func(k sharding.Key, of telemetry.Day, n uint32, from int64) string {
		id := chunk.ID{Day: of, Stream: 1, Partition: 3, Number: n}
		_, err := f.Writer.Create(t.Context(), k, id.String(), document(k, id, from, from+5, 3000))
		require.NoError(t, err)
		return fmt.Sprintf("%s/%s/%s", k.TenantShard, k.Device, id)
	}
	a := put(key("acme~4r", "m1"), day, 0, 0)
	b := put(key("acme~0", "m1"), day, 0, 0)
	c := put(key("acme~0", "m2"), day, 0, telemetry.DayMillis-6)
	d := put(key("acme-two~0", "m1"), day, 0, 0)
	put(key("globex~1", "m3"), day+1, 0, telemetry.DayMillis)
	put(key("globex~1", "m3"), day-1, 0, -6)

	require.Equal(t, []string{d, b, c, a}, headers(t, f, store.HeaderScan{Container: container,
		Day: day}))
	require.Equal(t, []string{b, c, a}, headers(t, f, store.HeaderScan{Container: container, Day: day, Tenant: "acme"}))
	require.Equal(t, []string{b, a}, headers(t, f, store.HeaderScan{Container: container, Day: day, Tenant: "acme",
		Device: "m1", Whole: true}))
	require.Empty(t, headers(t, f, store.HeaderScan{Container: container, Day: day, Tenant: "acm"}))
	require.Empty(t, headers(t, f, store.HeaderScan{Container: container, Day: day + 5}))

	stop := errors.New("enough")
	_, err := f.Headers.Headers(t.Context(), store.HeaderScan{Container: container, Day: day},
		func([]byte) error { return stop })
	require.Equal(t, stop, err, "as it is")
	_, err = f.Headers.Headers(t.Context(), store.HeaderScan{Container: container, Day: day,
		Charge: func(float64) error { return stop }}, func([]byte) error { return nil })
	require.Equal(t, stop, err, "as it is")
	_, err = f.Headers.Headers(t.Context(), store.HeaderScan{Container: "chunks-2026-12", Day: day},
		func([]byte) error { return nil })
	require.ErrorIs(t, err, store.ErrNoContainer)
}
