package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// reading returns a message of one value of a device, at an instant, published then.
func reading(offset int64, device string, at time.Time) admit.Record {
	ms := at.UnixMilli()
	value := fmt.Appendf(nil, `{"tenant":"acme","device":%q,"ts":%d,"values":{"a":%d}}`, device, ms, offset%97)
	return admit.Record{Offset: offset, Time: ms, Value: value}
}

// A record, a tick, relief and the floor cost what the logarithm of the number of open bins says, at most: what is
// counted is how often two chains or devices are compared or one is looked at.
func TestWorkDoesNotDependOnHowManyBinsAreOpen(t *testing.T) {
	// rounds has each device report so many times, and returns the looks per record of the last time.
	rounds := func(devices, rounds int, memory int64) (perRecord float64, l *ingest.Local, stored int) {
		w, ctx := newWorld(t, nil), context.Background()
		discard, l := w.alone(func(c *ingest.Config) {
			c.Hold, c.CommitEvery, c.CatalogEvery, c.MemoryBytes = time.Hour, time.Second, time.Minute, memory
		})
		var count func() int
		for i := range devices * rounds {
			if i == devices*(rounds-1) {
				count = worker.CountWork(l.Worker)
			}
			require.NoError(t, l.Take(ctx, reading(int64(i), fmt.Sprintf("d%d", i%devices), w.now)))
			if i%100 == 0 {
				w.now = w.now.Add(300 * time.Millisecond)
				require.NoError(t, l.Step(ctx))
				l.Floor()
			}
		}
		return float64(count()) / float64(devices), l, discard.Chunks
	}
	work := func(devices int) float64 {
		_, l, _ := rounds(devices, 2, 1<<40)
		perRecord, _, stored := rounds(devices, 5, l.Held()) // memory is short from the second time on
		require.Greater(t, stored, devices/2)
		return perRecord
	}
	few, many := work(200), work(4000)
	t.Logf("looks per record: %.1f with 200 devices, %.1f with 4,000", few, many)
	require.Less(t, many, 3*few+10)
}

// A query for positions, or for a tenant that is not here, visits no device, nor does a device among many.
func TestHeadReadVisitsRequestedDevices(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	for i := range int64(2000) {
		require.NoError(t, l.Take(ctx, reading(i, fmt.Sprintf("d%d", i), w.now)))
	}
	day, some := telemetry.DayOf(w.now.UnixMilli()), []string{"d3", "d77", "none"}
	today := telemetry.Range{From: day.Start(), To: day.End()}
	for name, c := range map[string]struct {
		request store.HeadRequest
		looks   int
	}{
		"positions alone":   {store.HeadRequest{Tenant: "acme"}, 0},
		"another tenant":    {store.HeadRequest{Tenant: "other", Range: binning.All}, 0},
		"some devices":      {store.HeadRequest{Tenant: "acme", Devices: some, Range: binning.All}, 2},
		"all of a tenant":   {store.HeadRequest{Tenant: "acme", Range: binning.All}, 2000},
		"a day of a tenant": {store.HeadRequest{Tenant: "acme", Range: today}, 2000},
	} {
		count := worker.CountWork(l.Worker)
		head := l.HeadRead(c.request)
		require.Equal(t, c.looks, count(), name)
		require.EqualValues(t, 2000, head.Position, name)
	}
}

// A fleet with days that begin at midnight does not come due together, neither then nor a hold later: in the first
// hold, when each device has two bins to write, no minute has more than three times the mean.
func TestMidnightDoesNotSynchronizeFleet(t *testing.T) {
	const devices, hold = 300, 20 * time.Minute
	w := newWorld(t, nil)
	w.Chunks.CreateContainer("chunks-2026-12")
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	w.now = midnight.Add(-2 * hold)
	l := w.worker(func(c *ingest.Config) { c.Hold, c.CommitEvery, c.CatalogEvery = hold, time.Second, time.Hour })
	ctx := context.Background()
	perMinute := map[int]int{}
	offset, before := int64(0), 0
	for ; w.now.Before(midnight.Add(4 * hold)); w.now = w.now.Add(20 * time.Second) {
		for d := range devices {
			require.NoError(t, l.Take(ctx, reading(offset, fmt.Sprintf("truck-%04d", d), w.now)))
			offset++
		}
		require.NoError(t, l.Step(ctx))
		stored := len(w.Chunks.Documents())
		perMinute[int(w.now.Sub(midnight).Minutes())] += stored - before
		before = stored
	}
	mean := devices / hold.Minutes()
	for minute := 1; minute < int(4*hold.Minutes()); minute++ {
		require.LessOrEqual(t, float64(perMinute[minute]), 3*mean+5, "minute %d after midnight", minute)
	}
	quiet := 0
	for minute := 1; minute < int(hold.Minutes()); minute++ {
		if perMinute[minute] == 0 {
			quiet++
		}
	}
	require.LessOrEqual(t, quiet, 2, "minutes without a create")
}

// A fleet that was away, for longer than a hold or shorter, and returns within a minute is written as evenly as before.
func TestReturnDoesNotSynchronizeFleet(t *testing.T) {
	const devices, hold = 200, 20 * time.Minute
	for _, away := range []time.Duration{hold / 2, 5 * hold / 2} {
		w := newWorld(t, nil)
		w.now = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		discard, l := w.alone(func(c *ingest.Config) { c.Hold, c.CommitEvery, c.CatalogEvery = hold, time.Second, time.Hour })
		returns := w.now.Add(5*hold/2 + away)
		offset, before := int64(0), 0
		for ; w.now.Before(returns.Add(3 * hold)); w.now = w.now.Add(time.Minute) {
			for d := 0; d < devices && !(w.now.Before(returns) && w.now.Add(away).After(returns)); d++ {
				require.NoError(t, l.Take(t.Context(), reading(offset, fmt.Sprintf("truck-%04d", d), w.now)))
				offset++
			}
			require.NoError(t, l.Step(t.Context()))
			if minute := int(w.now.Sub(returns).Minutes()); minute > 0 {
				require.LessOrEqual(t, float64(discard.Chunks-before), 3*devices/hold.Minutes(),
					"minute %d after %s away", minute, away)
			}
			before = discard.Chunks
		}
	}
}
