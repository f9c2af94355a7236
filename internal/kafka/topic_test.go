package kafka_test

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/store"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// aTopicByEveryCodec: all are written, and read again from anywhere.
func aTopicByEveryCodec(t *testing.T, at target) {
	var want []string
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		of := connect(t, kafka.Config{Brokers: []string{at.addr}, Compression: codec}).Topic(at.topic)
		done, err := of.Produce(t.Context(), 1, []kafka.Message{message("k", codec), message("k", codec+" again")})
		require.NoError(t, err)
		require.Equal(t, 2, done)
		want = append(want, codec, codec+" again")
	}
	of := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(at.topic)
	kept, err := of.Fetch(t.Context(), 1, 0)
	require.NoError(t, err)
	kept.Release()
	require.Equal(t, want, values(t, of, 1, 0))
	require.Equal(t, want[3:], values(t, of, 1, 3))
	require.Equal(t, want[0], string(kept.Records[0].Value), "what is only released is not used again")
	cluster, partitions, err := of.Describe(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, cluster)
	require.Equal(t, []int{0, 1}, partitions)
	ends, err := of.LogEnds(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []store.LogEnd{{Topic: at.topic, Partition: 0, End: 0},
		{Topic: at.topic, Partition: 1, End: 10}}, ends)

	got, err := of.Fetch(t.Context(), 1, 9)
	require.NoError(t, err)
	require.Equal(t, int64(1730000000000), got.Records[0].Time)
	require.Equal(t, "k", string(got.Records[0].Key))
	require.EqualValues(t, 10, got.End)

	missing := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic("missing")
	_, err = missing.Partitions(t.Context())
	require.True(t, kafka.IsUnknownTopic(err), err)
	_, err = missing.Fetch(t.Context(), 0, 0)
	require.True(t, kafka.IsUnknownTopic(err), err)
}

// One bootstrap address that answers is enough.
func TestSeveralBootstrapAddresses(t *testing.T) {
	b := embeddedBroker(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	for range 5 { // they are tried in any order
		c := connect(t, kafka.Config{Brokers: []string{dead.Addr().String(), b.Addr()}})
		_, err := c.Topic(topic).Partitions(t.Context())
		require.NoError(t, err)
	}
}

// A transaction that was aborted leaves nothing; one that is open is not read before it ends, nor is what comes
// behind it.
func transactions(t *testing.T, at target) {
	of := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(at.topic)
	producer, err := kgo.NewClient(kgo.SeedBrokers(at.addr), kgo.DefaultProduceTopic(at.topic),
		kgo.TransactionalID(at.group),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer producer.Close()
	transaction := func(value string, how kgo.TransactionEndTry) {
		for i := range 3 {
			r := &kgo.Record{Value: fmt.Append(nil, value, i)}
			require.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr())
		}
		if value != "open" {
			require.NoError(t, producer.EndTransaction(t.Context(), how))
		}
	}
	require.NoError(t, producer.BeginTransaction())
	transaction("good", kgo.TryCommit)
	require.NoError(t, producer.BeginTransaction())
	transaction("bad", kgo.TryAbort)
	require.NoError(t, producer.BeginTransaction())
	transaction("open", kgo.TryCommit)
	_, err = of.Produce(t.Context(), 0, []kafka.Message{message("k", "behind")})
	require.NoError(t, err)

	require.Equal(t, []string{"good0", "good1", "good2"}, values(t, of, 0, 0))
	_, end, err := of.Bounds(t.Context(), 0)
	require.NoError(t, err)
	require.EqualValues(t, 8, end, "two transactions of three records with a marker each")
	got, err := of.Fetch(t.Context(), 0, 8)
	require.NoError(t, err)
	require.Equal(t, kafka.Batch{Next: 8, End: 8}, got)

	require.NoError(t, producer.EndTransaction(t.Context(), kgo.TryAbort))
	require.Eventually(t, func() bool { // a coordinator that has answered does not have all partitions yet
		_, end, err := of.Bounds(t.Context(), 0)
		return err == nil && end == 13
	}, time.Minute, time.Millisecond)
	require.Equal(t, []string{"good0", "good1", "good2", "behind"}, values(t, of, 0, 0))
}

// What does not fit one request goes in several; a message that fits none is an error, and what comes before it is
// there.
func TestRequestsTimeOut(t *testing.T) {
	b := embeddedBroker(t)
	half := string(bytes.Repeat([]byte("x"), 450_000))
	messages := []kafka.Message{message("k", half), message("k", half), message("k", half), message("k", "end")}
	of := connect(t, kafka.Config{Brokers: []string{b.Addr()}, Compression: "none"}).Topic(topic)
	done, err := of.Produce(t.Context(), 0, messages)
	require.NoError(t, err)
	require.Equal(t, 4, done)
	require.Equal(t, []string{half, half, half, "end"}, values(t, of, 0, 0))

	// Two megabytes are more than the broker takes, packed well they are not.
	large := message("k", string(make([]byte, 2<<20)))
	done, err = of.Produce(t.Context(), 1, []kafka.Message{message("k", "first"), large, message("k", "never")})
	require.ErrorIs(t, err, kafka.ErrTooLarge)
	require.Equal(t, 1, done)
	packed := connect(t, kafka.Config{Brokers: []string{b.Addr()}}).Topic(topic)
	_, err = packed.Produce(t.Context(), 1, []kafka.Message{large})
	require.NoError(t, err)

	// A bound of our own holds whatever the compression would make of it: the request is never sent.
	dials := 0
	bounded := connect(t, kafka.Config{Brokers: []string{b.Addr()}, MaxRequestBytes: 100_000})
	for dials < 2 {
		dials++
		done, err = bounded.Topic(topic).Produce(t.Context(), 1, []kafka.Message{message("k", "small"), message("k", half)})
		require.ErrorIs(t, err, kafka.ErrTooLarge)
		require.Equal(t, 1, done)
	}
}

func TestPartitionOfMatchesJavaClient(t *testing.T) {
	partitions := []int{0, 1, 2, 3}
	placed := map[int]int{}
	for i := range 1000 {
		placed[kafka.PartitionOf(fmt.Appendf(nil, "acme/d%d", i), partitions)]++
	}
	require.Len(t, placed, 4)
	// As kafka.utils.Utils.murmur2 has it: toPositive(murmur2("21")) is 1,173,551,340.
	require.Equal(t, 1173551340%4, kafka.PartitionOf([]byte("21"), partitions))
}

// A topic that grows is seen to within the age that metadata may have.
func TestAddedPartitionsAreVisible(t *testing.T) {
	b := embeddedBroker(t)
	of := connect(t, kafka.Config{Brokers: []string{b.Addr()}}).Topic(topic)
	partitions, err := of.Partitions(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, partitions)
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	admin := &kafkago.Client{Addr: kafkago.TCP(b.Addr()), Transport: transport}
	res, err := admin.CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{
		Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 4}},
	})
	require.NoError(t, err)
	require.NoError(t, res.Errors[topic])
	require.Eventually(t, func() bool {
		partitions, err = of.Partitions(t.Context())
		return err == nil && len(partitions) == 4
	}, time.Minute, 5*time.Millisecond)
}
