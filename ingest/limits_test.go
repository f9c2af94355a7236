package ingest_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// What is above a rate stays in the log while others go on, and is read from there again when it has been paid for:
// in batches of all sizes, beside a partition of others, and by the next owner of the partition.
func TestDeferredReadingsAreReadAgain(t *testing.T) {
	for _, journal := range []bool{false, true} {
		t.Run(fmt.Sprint("journal ", journal), func(t *testing.T) {
			r := newRig(t, 2)
			var ahead atomic.Int64
			began := time.Now()
			limit := func(c *ingest.Config, s *ingest.Stores) {
				c.Now = func() time.Time {
					return time.UnixMilli(past).Add(time.Minute + time.Since(began) + time.Duration(ahead.Load()))
				}
				c.Limits, c.HeldFor = tenant.IngestLimits{DeviceReadings: 0.001, Burst: 1}, 1e6*time.Hour
				if journal {
					j := ingest.NewTopicJournal(r.cluster)
					s.Journal, s.Blocks, c.Hold, c.JournalEvery = j, j, time.Second, 10*time.Millisecond
				}
			}
			for i := range 300 {
				r.publish(0, r.message("loud", past+int64(i), float64(i)), r.message(fmt.Sprintf("quiet-%d", i), past+int64(i), 1))
				r.publish(1, r.message(fmt.Sprintf("other-%d", i), past+int64(i), 1))
			}
			in := r.ingester(limit)
			stop := r.run(in)
			waiting := func() []ingest.DeferredReadings {
				l, err := in.Limits(t.Context(), "acme")
				require.NoError(t, err)
				return l.Deferred
			}
			quiet := func() (n int) {
				for s := range r.Stored() {
					if s.Device != "loud" {
						n++
					}
				}
				return n
			}
			require.Eventually(t, func() bool { return quiet() == 600 && len(waiting()) == 1 }, patience,
				2*time.Millisecond)
			require.Equal(t, "loud", waiting()[0].Device)
			require.Equal(t, int32(0), waiting()[0].Partition)
			l, err := in.Limits(t.Context(), "")
			require.NoError(t, err)
			require.Equal(t, "device-readings", l.Exceeded[0].Limit)
			require.Equal(t, "loud", l.Exceeded[0].TopDevices[0].Device)
			require.Less(t, r.committed(0), int64(600))

			ahead.Store(int64(150_000 * time.Second)) // a half of them
			require.Eventually(t, func() bool { return len(waiting()) == 1 && waiting()[0].From > 200 }, patience,
				2*time.Millisecond)
			stop()
			stop = r.run(r.ingester(limit))
			defer stop()
			ahead.Store(int64(600_000 * time.Second))
			r.settled()
			r.whole()
		})
	}
}
