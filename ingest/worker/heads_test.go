package worker_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// A list of devices makes no rows: what it costs is that of the devices it names, not of what is held.
func TestDeviceListMakesNoRows(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.Hold = time.Hour }), ingesttest.Deadline(t)
	const devices, readings = 300, 30
	offset := int64(0)
	for range readings {
		for d := range devices {
			require.NoError(t, l.Take(ctx, one(offset, fmt.Sprintf("d%03d", d))))
			offset++
		}
	}
	request := store.ListRequest{Tenant: "acme", Devices: []string{"d000", "d001"}}
	require.Len(t, l.Bins().ListDevices(request), 2)
	require.Less(t, testing.AllocsPerRun(10, func() { l.Bins().ListDevices(request) }), 60.0)
	many := testing.AllocsPerRun(3, func() { l.Bins().ListDevices(store.ListRequest{Tenant: "acme"}) })
	require.Less(t, many, 12.0*devices, "whatever the readings")
}
