package kafka_test

import (
	"testing"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/kafka/kafkatest"
	"binnacle/internal/lab/broker"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// apache is what tests share that run on Apache Kafka.
var apache kafkatest.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(apache.Main(m)) }

const topic = "telemetry"

// broker is an embedded one with a topic of two partitions.
func embeddedBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Partitions: 2,
		Topics: []string{topic}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// connect returns a client with connections that end with the test.
func connect(t *testing.T, cfg kafka.Config) *kafka.Client {
	t.Helper()
	if cfg.MetadataAge == 0 {
		cfg.MetadataAge = 50 * time.Millisecond
	}
	c, err := kafka.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func message(key, value string) kafka.Message {
	return kafka.Message{Time: time.UnixMilli(1730000000000), Key: []byte(key), Value: []byte(value)}
}

// values reads a partition from an offset to its end.
func values(t *testing.T, of *kafka.Topic, partition int, from int64) (all []string) {
	t.Helper()
	_, end, err := of.Bounds(t.Context(), partition)
	require.NoError(t, err)
	for from < end {
		b, err := of.Fetch(t.Context(), partition, from)
		require.NoError(t, err)
		require.Nil(t, b.Refused)
		for _, r := range b.Records {
			all = append(all, string(r.Value))
		}
		from = b.Next
		b.Reuse()
	}
	return all
}
