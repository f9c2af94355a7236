package ingest_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/internal/heat"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// The forecast has each open bin in the hour in which its device's phase has it cut, under the key of its next chunk.
func TestForecastOfOpenBins(t *testing.T) {
	const hold = 12 * time.Hour
	r := newRig(t, 2)
	in := r.ingester(func(c *ingest.Config, _ *ingest.Stores) { c.Hold = hold })
	const devices = 8
	for d := range devices {
		r.publish(d%2, r.message(fmt.Sprintf("d%d", d), past+int64(d), 1))
	}
	r.run(in)
	require.Eventually(t, func() bool {
		held, err := in.Bins(t.Context(), ingest.BinsRequest{})
		require.NoError(t, err)
		return len(held.Tenants) == 1 && held.Tenants[0].Bins == devices
	}, patience, 10*time.Millisecond)

	day := telemetry.DayOf(past)
	now := time.UnixMilli(day.End())
	var want [heat.ForecastHours]int
	for d := range devices {
		want[binning.FirstHold(fmt.Sprintf("d%d", d), hold)/time.Hour]++
	}
	var got [heat.ForecastHours]float64
	for _, e := range in.Forecast(now, nil) {
		require.Equal(t, "acme", e.Tenant())
		require.Equal(t, "chunks-"+day.Month().String(), e.Container)
		for h, rus := range e.RUs {
			got[h] += rus
		}
	}
	for h := range want {
		require.InDelta(t, 7*want[h], got[h], 1.5*float64(want[h]), "hour %d", h)
	}
	short := r.ingester(func(c *ingest.Config, _ *ingest.Stores) { c.Hold = time.Hour })
	require.Nil(t, short.Forecast(now, nil), "short holds say nothing about the next hours")
}
