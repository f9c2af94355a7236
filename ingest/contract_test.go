package ingest_test

import (
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

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
