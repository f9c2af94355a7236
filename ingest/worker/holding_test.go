package worker_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/bins"
	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// holdings returns what a worker holds, by device, and in all.
func holdings(l *ingest.Local, tenant string) (by map[string]bins.Holding, readings int) {
	by = map[string]bins.Holding{}
	l.Bins().Holdings(tenant, func(h bins.Holding) {
		by[h.Tenant+"/"+h.Device] = h
		readings += h.Readings
	})
	return by, readings
}

// Held rows are listed by device until they are stored, rows that are blocks with those that are not, and not what
// lingers.
func TestHoldings(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.Hold = time.Hour }), ingesttest.Deadline(t)
	const devices, rows = 300, 100 // more than are looked at at once; a block and open rows
	offset := int64(0)
	for range rows {
		for d := range devices {
			require.NoError(t, l.Take(ctx, one(offset, fmt.Sprintf("d%03d", d))))
			offset++
		}
	}
	by, readings := holdings(l, "")
	require.Len(t, by, devices)
	require.Equal(t, devices*rows, readings)
	h := by["acme/d007"]
	require.Equal(t, bins.Holding{
		Tenant: "acme", Device: "d007", Bins: 1, Readings: rows, Values: rows, Bytes: h.Bytes, First: 7,
		From: start + 7, To: start + 7 + (rows-1)*devices,
	}, h)
	require.Positive(t, h.Bytes)
	none, _ := holdings(l, "nobody")
	require.Empty(t, none)
	require.NoError(t, l.Finish(ctx))
	by, _ = holdings(l, "acme")
	require.Empty(t, by, "stored rows are still listed")
}
