package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// day runs a fleet over some time, each device every so often, and returns how many chunks each hour has brought.
func (w *world) day(t *testing.T, l *ingest.Local, devices int, every, during time.Duration, values string,
	chunks *int) (hours []int) {
	t.Helper()
	ctx := context.Background()
	before, offset := *chunks, int64(0)
	for end := w.now.Add(during); w.now.Before(end); {
		for d := range devices {
			at := w.now.Add(time.Duration(d) * every / time.Duration(devices)).UnixMilli()
			body := fmt.Sprintf(`{"tenant":"acme","device":"d%03d","ts":%d,"values":%s}`, d, at, values)
			require.NoError(t, l.Take(ctx, admit.Record{Offset: offset, Time: at, Value: []byte(body)}))
			offset++
		}
		w.now = w.now.Add(every)
		require.NoError(t, l.Step(ctx))
		if w.now.Truncate(time.Hour).Equal(w.now) {
			hours, before = append(hours, *chunks-before), *chunks
		}
	}
	return hours
}

func halfADay(c *ingest.Config) {
	c.Hold, c.CatalogEvery, c.CommitEvery = 12*time.Hour, 6*time.Hour, time.Second
}

// With a hold of half a day a device that reports seldom has one chunk a day: its bin waits until the day is over. Then
// a fleet is written evenly, neither at midnight nor at the end of the hold.
func TestLongHoldCutsAfterDayEnd(t *testing.T) {
	const devices = 240
	w := newWorld(t, nil)
	w.now = time.UnixMilli(telemetry.DayOf(start).End())
	discard, l := w.alone(halfADay)
	hours := w.day(t, l, devices, 10*time.Minute, 37*time.Hour, `{"a":1.5,"b":2,"c":3.25}`, &discard.Chunks)
	for hour, n := range hours[:24] {
		require.Zero(t, n, "hour %d", hour)
	}
	for hour, n := range hours[24:36] {
		require.InDelta(t, devices/12, n, devices/12, "hour %d after the day's end", hour)
	}
	require.Equal(t, devices, discard.Chunks, "one each")
}

// A bin that is full, of a device with a rest of the day that still fits the document, waits for it: two chunks of the
// same size are cheaper than two at the target and a small one.
func TestFullBinTakesRestOfDay(t *testing.T) {
	w := newWorld(t, nil)
	w.now = time.UnixMilli(telemetry.DayOf(start).End())
	l := w.worker(halfADay)
	const seed = 5
	rnd, ctx := rand.New(rand.NewPCG(seed, seed)), context.Background()
	for i := range int64(8640 + 4320) {
		at := w.now.UnixMilli()
		body := fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":%d,"b":%d,"c":%d,"d":%d,"e":%d,"f":%d}}`,
			at, rnd.IntN(256), rnd.IntN(256), rnd.IntN(256), rnd.IntN(256), rnd.IntN(256), rnd.IntN(4))
		require.NoError(t, l.Take(ctx, admit.Record{Offset: i, Time: at, Value: []byte(body)}))
		w.now = w.now.Add(10 * time.Second)
		require.NoError(t, l.Step(ctx))
	}
	var sizes []int
	for _, d := range w.Chunks.Documents() {
		c, err := chunk.Parse(d.Doc)
		require.NoError(t, err)
		if c.Header.ID.Day == telemetry.DayOf(start)+1 {
			sizes = append(sizes, len(d.Doc))
		}
	}
	require.Len(t, sizes, 2, "seed %d", seed)
	for _, n := range sizes {
		require.Greater(t, n, 30<<10, "seed %d", seed)
	}
}
