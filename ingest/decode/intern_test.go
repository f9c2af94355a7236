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
	d := decode.New(decode.Options{Tenant: "acme"})
	one := func(device string) {
		r := d.Decode(decode.Record{Value: fmt.Appendf(nil, `{"device":%q,"ts":1,"values":{"a":1},"tags":{"d":%[1]q}}`, device)})
		if got := r.Readings; len(got) != 1 || got[0].Device != device || got[0].Tags[0].Value != device {
			require.Equal(t, device, got)
		}
	}
	for range 2 {
		for i := range 50_000 {
			one(fmt.Sprintf("truck-%08d", i))
		}
		n, _ := d.Devices()
		require.Equal(t, 50_000, n)
	}
	long := strings.Repeat("x", 180)
	for i := range 200_000 {
		one(fmt.Sprintf("%s-%08d", long, i))
		if _, bytes := d.Devices(); bytes > decode.MostDeviceBytes {
			require.LessOrEqual(t, bytes, decode.MostDeviceBytes)
		}
	}
	n, _ := d.Devices()
	require.Greater(t, n, 60_000, "most are of the first kind")
	for i := range 310_000 {
		one(fmt.Sprintf("%s-%08d", long, i%20_000))
	}
	n, _ = d.Devices()
	require.Equal(t, 20_000, n, "now of the other")
	one("truck-00000000")
}
