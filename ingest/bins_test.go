package ingest_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/journal"
	"binnacle/internal/stream/topics"

	"github.com/stretchr/testify/require"
)

// Open bins are listed by partition, tenant and device: what was published and is not stored, and how far each
// partition is. The offset that a bin holds back is that of its first reading.
func TestBins(t *testing.T) {
	r := newRig(t, 2)
	in := r.ingester(longHold)
	const devices, readings = 6, 5
	for i := range readings {
		for d := range devices {
			at := past + int64(d)*1000 + int64(i)
			r.publish(d%2, r.message(fmt.Sprintf("d%d", d), at, float64(i)))
		}
	}
	r.run(in)
	var held ingest.Bins
	require.Eventually(t, func() bool {
		var err error
		held, err = in.Bins(t.Context(), ingest.BinsRequest{Devices: 4, By: ingest.ByAge})
		require.NoError(t, err)
		all := len(held.Partitions) == 2 && len(held.Tenants) == 1 && held.Tenants[0].Readings == devices*readings
		for _, p := range held.Partitions {
			all = all && p.Bins == devices/2 && p.End == p.Position && p.Unjournaled() == 0
		}
		return all
	}, patience, 10*time.Millisecond)

	require.Equal(t, topic+","+topic+topics.BackfillSuffix, held.Topics)
	require.InDelta(t, 3600, held.HoldSeconds, 0)
	require.Positive(t, held.Memory.Held)
	for i, p := range held.Partitions {
		require.EqualValues(t, i, p.Partition)
		require.EqualValues(t, devices/2*readings, p.End)
		require.Zero(t, p.Floor)
		require.True(t, p.CaughtUp)
		require.Zero(t, p.Unread())
		require.Equal(t, p.End, p.Unstored())
		require.Equal(t, p.End, p.Replay.Without)
		require.Zero(t, p.Replay.Records)
		require.GreaterOrEqual(t, p.Replay.Blocks, int64(devices/2))
	}
	acme := held.Tenants[0]
	require.Equal(t, ingest.BinsSummary{
		Tenant: "acme", Devices: devices, Bins: devices, Readings: devices * readings, Values: devices * readings,
		Bytes: acme.Bytes, From: time.UnixMilli(past).UTC(),
		To: time.UnixMilli(past + (devices-1)*1000 + readings - 1).UTC(), Behind: devices / 2 * readings,
	}, acme)
	require.Positive(t, acme.Bytes)
	require.Len(t, held.Devices, 4)
	for i, d := range held.Devices {
		require.Equal(t, fmt.Sprintf("d%d", i), d.Device, "the oldest first")
		require.Equal(t, readings, d.Readings)
		require.EqualValues(t, devices/2*readings-i/2, d.Behind)
	}

	none, err := in.Bins(t.Context(), ingest.BinsRequest{Tenant: "globex"})
	require.NoError(t, err)
	require.Empty(t, none.Tenants)
	require.Empty(t, none.Devices)
	require.Len(t, none.Partitions, 2)
}

// With a journal a restart loads blocks and reads what is behind them; without one it reads all that is not stored.
func TestReplayEstimate(t *testing.T) {
	require.Equal(t, ingest.Replay{Records: 900, Without: 900}, ingest.ReplayOf(1000, 100, journal.Commit{}, 0))
	require.Equal(t, ingest.Replay{Records: 900, Without: 900, Seconds: 9, SecondsWithout: 9},
		ingest.ReplayOf(1000, 100, journal.Commit{}, 100))
	counted := journal.Commit{Stream: 1, F: 900, From: 30, To: 50}
	require.Equal(t, ingest.Replay{Blocks: 20, Records: 100, Without: 900, Seconds: 2, SecondsWithout: 9},
		ingest.ReplayOf(1000, 100, counted, 100), "800 rows are loaded in an eighth of the time")
}

// A hold that is not set is 12 hours with a journal.
func TestBinsShowTheDefaultHold(t *testing.T) {
	in := newRig(t, 1).ingester(func(c *ingest.Config, _ *ingest.Stores) { c.Hold = 0 })
	held, err := in.Bins(t.Context(), ingest.BinsRequest{By: ingest.ByAge})
	require.NoError(t, err)
	require.InDelta(t, 12*3600, held.HoldSeconds, 0)
}
