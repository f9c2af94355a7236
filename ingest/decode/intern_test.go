package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// What is remembered of devices is bounded by bytes. Those of a large partition fit, those that come when it is full
// are read like others, and when they go on coming they are remembered.
func TestDeviceInterningIsBounded(t *testing.T) {
	var d *decode.Decoder
	one := func(device string) {
		r := d.Decode(decode.Record{Value: fmt.Appendf(nil, `{"device":%q,"ts":1,"values":{"a":1},"tags":{"d":%[1]q}}`, device)})
		if got := r.Readings; len(got) != 1 || got[0].Device != device || got[0].Tags[0].Value != device {
			require.Equal(t, device, got)
		}
		if _, bytes := d.Devices(); bytes > decode.MostDeviceBytes {
			require.LessOrEqual(t, bytes, decode.MostDeviceBytes)
		}
	}
	devices := func(from, to int, name string) (n int) {
		for i := from; i < to; i++ {
			one(fmt.Sprintf(name, i))
		}
		n, _ = d.Devices()
		return n
	}
	d = decode.New(decode.Options{Tenant: "acme"})
	for range 2 {
		require.Equal(t, 20_000, devices(0, 20_000, "truck-%08d"))
	}

	// Of names of 189 bytes fewer fit, so fewer fill it.
	long, other := strings.Repeat("x", 180)+"-%08d", strings.Repeat("y", 180)+"-%08d"
	d = decode.New(decode.Options{Tenant: "acme"})
	full := devices(0, 32_000, long)
	require.InDelta(t, decode.MostDeviceBytes/(189+80), full, 1)
	require.Equal(t, full, devices(0, 3*full, other), "those of the first kind stay")
	for range 2 {
		devices(0, 20_000, other)
	}
	require.Equal(t, 20_000, devices(0, 20_000, other), "now of the other")
	one("truck-00000000")
}
