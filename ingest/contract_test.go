package ingest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// An ingester's head keeps the contract of store.Heads, fed by a broker. A bin is cut when the clock has gone on.
func TestHeadsOfAnIngester(t *testing.T) {
	storetest.RunHeads(t, func(t *testing.T) storetest.HeadFixture {
		r := newRig(t, 1)
		var later atomic.Int64
		in := r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
			c.Hold, c.Linger = time.Minute, time.Hour // nothing goes between two questions
			c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
		r.run(in)
		require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
		return storetest.HeadFixture{
			Heads: in,
			Take: func(offset int64, readings ...telemetry.Reading) {
				var batch []kafka.Message
				for _, reading := range readings {
					batch = append(batch, kafka.Message{Time: time.UnixMilli(reading.Time), Value: decode.AppendJSON(nil, reading)})
				}
				r.publish(0, batch...)
				require.Eventually(t, func() bool {
					heads, err := in.Heads(context.Background(), store.HeadRequest{})
					limits, _ := in.Limits(context.Background(), "") // readings of a new tenant wait until that is registered
					return err == nil && len(heads) == 1 && heads[0].Position == offset+int64(len(readings)) &&
						len(limits.Deferred) == 0
				}, patience, time.Millisecond)
			},
			Store: func() {
				later.Add(int64(2 * time.Minute))
				r.settled()
			},
			Documents: func() (docs [][]byte) {
				for _, d := range r.Chunks.Documents() {
					docs = append(docs, d.Doc)
				}
				return docs
			},
		}
	})
}

// Heads tell in which containers chunks may lie, as soon as there are any: also those that only the predecessor knew
// of.
func TestHeadsListContainers(t *testing.T) {
	r := newRig(t, 1)
	request := store.HeadRequest{Tenant: "acme", Range: telemetry.Range{To: telemetry.MaxMillis}}
	containers := func(in *ingest.Ingester) []string {
		heads, err := in.Heads(t.Context(), request)
		require.NoError(t, err)
		require.Len(t, heads, 1)
		return heads[0].Containers
	}
	first := r.ingester(nil)
	stop := r.run(first)
	require.Eventually(t, first.CaughtUp, patience, time.Millisecond)
	require.Empty(t, containers(first))
	r.publish(0, r.message("m1", past, 1))
	r.settled()
	require.NotEmpty(t, r.Chunks.Documents())
	require.Equal(t, []string{"chunks-2024-10"}, containers(first))
	stop()
	second := r.ingester(nil)
	r.run(second)
	require.Eventually(t, second.CaughtUp, patience, time.Millisecond)
	require.Equal(t, []string{"chunks-2024-10"}, containers(second))
}

// A broker's ends keep the contract of store.Log.
func TestLogEndsOfABroker(t *testing.T) {
	storetest.RunLog(t, func(t *testing.T) storetest.LogFixture {
		r := newRig(t, 3)
		return storetest.LogFixture{
			Log: r.cluster.Topic(topic), Topic: topic, Partitions: 3,
			Append: func(partition, records int) {
				var batch []kafka.Message
				for i := range records {
					batch = append(batch, r.message("m1", past+int64(i), 1))
				}
				r.publish(partition, batch...)
			},
		}
	})
}
