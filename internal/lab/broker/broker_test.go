package broker_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"binnacle/internal/lab/broker"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

const topic = "telemetry"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
	}
	if dir := os.Getenv(fillerDir); dir != "" {
		fill(dir, os.Getenv(fillerOf))
	}
	goleak.VerifyTestMain(m)
}

func config(t *testing.T) broker.Config {
	return broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Topics: []string{topic}}
}

func open(t *testing.T, cfg broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// client returns a kafka-go client with connections that end with the test.
func client(t *testing.T, b *broker.Broker) *kafka.Client {
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(b.Addr()), Transport: transport}
}

func produce(t *testing.T, c *kafka.Client, partition int, codec kafka.Compression, values ...string) {
	t.Helper()
	records := make([]kafka.Record, len(values))
	for i, v := range values {
		records[i] = kafka.Record{
			Key: kafka.NewBytes([]byte("acme/m1")), Value: kafka.NewBytes([]byte(v)),
			Headers: []kafka.Header{{Key: "content-type", Value: []byte("application/json")}},
		}
	}
	answer, err := c.Produce(t.Context(), &kafka.ProduceRequest{
		Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll, Compression: codec,
		Records: kafka.NewRecordReader(records...),
	})
	require.NoError(t, err)
	require.NoError(t, answer.Error)
}

// values reads n records of a partition from an offset on.
func values(t *testing.T, b *broker.Broker, partition int, from int64, n int) []string {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{b.Addr()}, Topic: topic, Partition: partition, MaxWait: 100 * time.Millisecond,
	})
	defer r.Close()
	require.NoError(t, r.SetOffset(from))
	got := make([]string, n)
	for i := range got {
		m, err := r.ReadMessage(t.Context())
		require.NoError(t, err)
		require.Equal(t, from+int64(i), m.Offset)
		got[i] = string(m.Value)
	}
	return got
}

func offsets(t *testing.T, c *kafka.Client, partition int) (first, end int64) {
	t.Helper()
	answer, err := c.ListOffsets(t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		topic: {kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition)},
	}})
	require.NoError(t, err)
	p := answer.Topics[topic][0]
	require.NoError(t, p.Error)
	return p.FirstOffset, p.LastOffset
}

func commit(t *testing.T, c *kafka.Client, group string, partition int, offset int64) {
	t.Helper()
	answer, err := c.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: partition, Offset: offset}}},
	})
	require.NoError(t, err)
	require.NoError(t, answer.Topics[topic][0].Error)
}

func committed(t *testing.T, c *kafka.Client, group string, partition int) int64 {
	t.Helper()
	answer, err := c.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {partition}},
	})
	require.NoError(t, err)
	require.NoError(t, answer.Error)
	return answer.Topics[topic][0].CommittedOffset
}

func partitions(t *testing.T, c *kafka.Client) int {
	t.Helper()
	answer, err := c.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{topic}})
	require.NoError(t, err)
	return len(answer.Topics[0].Partitions)
}

func TestCodecsAndConsumerGroup(t *testing.T) {
	b := open(t, config(t))
	c := client(t, b)
	codecs := []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}
	var want []string
	for i, codec := range codecs {
		v := fmt.Sprintf("value %d by codec %v", i, codec)
		want = append(want, v)
		produce(t, c, i%4, codec, v)
	}

	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: "g", Brokers: []string{b.Addr()}, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	generation, err := group.Next(t.Context())
	require.NoError(t, err)
	require.Len(t, generation.Assignments[topic], 4)
	var got []string
	marks := map[int]int64{}
	for _, a := range generation.Assignments[topic] {
		first, end := offsets(t, c, a.ID)
		require.Zero(t, first)
		got = append(got, values(t, b, a.ID, 0, int(end))...)
		marks[a.ID] = end
	}
	require.ElementsMatch(t, want, got)
	require.NoError(t, generation.CommitOffsets(map[string]map[int]int64{topic: marks}))
	require.NoError(t, group.Close())
	require.EqualValues(t, 2, committed(t, c, "g", 0))
	require.EqualValues(t, 1, committed(t, c, "g", 3))
}

// Another implementation of the protocol, which begins with other versions of each request.
func TestFranzGoClient(t *testing.T) {
	b := open(t, config(t))
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics(topic), kgo.ConsumerGroup("g"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer c.Close()
	want := map[string]string{}
	for i := range 50 {
		k, v := fmt.Sprintf("acme/m%d", i), fmt.Sprint(i)
		want[k] = v
		r := &kgo.Record{Topic: topic, Key: []byte(k), Value: []byte(v)}
		require.NoError(t, c.ProduceSync(t.Context(), r).FirstErr())
	}
	got := map[string]string{}
	for len(got) < len(want) {
		fetches := c.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { got[string(r.Key)] = string(r.Value) })
	}
	require.Equal(t, want, got)
	require.NoError(t, c.CommitUncommittedOffsets(t.Context()))
}

func TestRestartKeepsEverything(t *testing.T) {
	cfg := config(t)
	foreign := []string{filepath.Join(cfg.DataDir, "notes.tmp"), filepath.Join(cfg.DataDir, "mine", "a.txt")}
	require.NoError(t, os.Mkdir(filepath.Join(cfg.DataDir, "mine"), 0o755))
	for _, f := range foreign {
		require.NoError(t, os.WriteFile(f, []byte("mine"), 0o644))
	}
	first := open(t, cfg)
	c := client(t, first)
	produce(t, c, 0, kafka.Zstd, "a", "b", "c")
	produce(t, c, 3, kafka.Zstd, "d")
	commit(t, c, "g", 0, 2)
	id := first.ClusterID()
	require.Len(t, id, 22)
	require.NoError(t, first.Close())
	require.NoError(t, first.Close(), "closing twice is nothing")

	sasl := filepath.Join(cfg.DataDir, "log", "sasl.json")
	require.NoError(t, os.WriteFile(sasl, []byte("not JSON, and not to be read"), 0o644))
	second := open(t, cfg)
	require.Equal(t, id, second.ClusterID())
	require.Equal(t, []string{"a", "b", "c"}, values(t, second, 0, 0, 3))
	require.Equal(t, []string{"d"}, values(t, second, 3, 0, 1))
	c = client(t, second)
	require.EqualValues(t, 2, committed(t, c, "g", 0))
	produce(t, c, 0, kafka.Lz4, "e")
	require.Equal(t, []string{"c", "e"}, values(t, second, 0, 2, 2))
	for _, f := range foreign {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Equal(t, "mine", string(content))
	}
	info, err := os.Stat(cfg.DataDir)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "nobody else may read the log")
}

func TestDeletedDirectoryGetsNewClusterID(t *testing.T) {
	cfg := config(t)
	b := open(t, cfg)
	id := b.ClusterID()
	produce(t, client(t, b), 0, 0, "a")
	require.NoError(t, b.Close())
	require.NoError(t, os.RemoveAll(cfg.DataDir))
	again := open(t, cfg)
	require.NotEqual(t, id, again.ClusterID())
	_, end := offsets(t, client(t, again), 0)
	require.Zero(t, end)
}

func TestClientsGetClusterID(t *testing.T) {
	b := open(t, config(t))
	answer, err := client(t, b).Metadata(t.Context(), &kafka.MetadataRequest{})
	require.NoError(t, err)
	require.Equal(t, b.ClusterID(), answer.ClusterID)
	require.Len(t, answer.Brokers, 1)
	require.Equal(t, b.Addr(), net.JoinHostPort(answer.Brokers[0].Host, fmt.Sprint(answer.Brokers[0].Port)))
}

func TestAdvertisedAddress(t *testing.T) {
	cfg := config(t)
	cfg.Addr = "0.0.0.0:0"
	b := open(t, cfg)
	host, port, err := net.SplitHostPort(b.Addr())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host, "all addresses are none to connect to")
	require.NotEqual(t, "0", port)
	produce(t, client(t, b), 0, 0, "a")

	cfg = config(t)
	cfg.Advertise = "kafka.example:19092"
	require.Equal(t, "kafka.example:19092", open(t, cfg).Addr())
}

func TestOpenErrors(t *testing.T) {
	cfg := config(t)
	b := open(t, cfg)

	_, err := broker.Open(cfg)
	require.ErrorIs(t, err, broker.ErrInUse)
	require.ErrorContains(t, err, cfg.DataDir)

	other := config(t)
	other.Addr = b.Addr()
	_, err = broker.Open(other)
	require.ErrorContains(t, err, b.Addr())
	other.Addr = "127.0.0.1:0"
	open(t, other) // the directory was released

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	blocked := config(t)
	blocked.DataDir = filepath.Join(file, "kafka")
	_, err = broker.Open(blocked)
	require.ErrorContains(t, err, blocked.DataDir)

	_, err = broker.Open(broker.Config{Addr: "9092", Partitions: -1, RetentionBytes: 1, Advertise: ":1",
		Topics: []string{""}})
	for _, fault := range []string{"data directory", "9092", "-1 partitions", "no group", `":1"`, "without a name"} {
		require.ErrorContains(t, err, fault)
	}

	damaged := config(t)
	require.NoError(t, os.Mkdir(filepath.Join(damaged.DataDir, "log"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(damaged.DataDir, "log", "meta.json"), []byte("{"), 0o600))
	_, err = broker.Open(damaged)
	require.ErrorContains(t, err, damaged.DataDir)
	require.NoError(t, os.RemoveAll(filepath.Join(damaged.DataDir, "log")))
	open(t, damaged)
}

func TestPartitionsGrowByWholeMultiples(t *testing.T) {
	cfg := config(t)
	b := open(t, cfg)
	produce(t, client(t, b), 3, 0, "kept")
	require.NoError(t, b.Close())
	for _, step := range []struct{ asked, want int }{{4, 4}, {2, 4}, {6, 4}, {8, 8}, {4, 8}} {
		cfg.Partitions = step.asked
		b := open(t, cfg)
		require.Equal(t, step.want, partitions(t, client(t, b)), "asked for %d", step.asked)
		require.Equal(t, []string{"kept"}, values(t, b, 3, 0, 1))
		require.NoError(t, b.Close())
	}
}

func TestTooManyPartitionsAreRefused(t *testing.T) {
	b := open(t, config(t))
	c := client(t, b)
	for range 2 {
		answer, err := c.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{
			Topics: []kafka.TopicConfig{{Topic: "huge", NumPartitions: 1 << 30, ReplicationFactor: 1}},
		})
		require.NoError(t, err)
		require.ErrorIs(t, answer.Errors["huge"], kafka.InvalidPartitionNumber)
		grown, err := c.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 1 << 30}},
		})
		require.NoError(t, err)
		require.ErrorIs(t, grown.Errors[topic], kafka.InvalidPartitionNumber)
	}
	answer, err := c.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: "fine", NumPartitions: 2, ReplicationFactor: 1}},
	})
	require.NoError(t, err)
	require.NoError(t, answer.Errors["fine"])
}

func TestRunTrimsBelowWhatIsCommitted(t *testing.T) {
	const bound = 64 << 10
	cfg := config(t)
	cfg.RetentionBytes, cfg.Groups, cfg.TrimEvery = bound, []string{"g", "audit"}, time.Millisecond
	b := open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	c := client(t, b)
	value := string(make([]byte, 1000))
	for range 500 {
		produce(t, c, 0, 0, value)
	}
	first, _ := offsets(t, c, 0)
	require.Zero(t, first, "nothing is committed")
	commit(t, c, "g", 0, 300)
	first, _ = offsets(t, c, 0)
	require.Zero(t, first, "one of two groups has committed nothing")

	reach := func(want int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			at, end := offsets(t, c, 0)
			require.EqualValues(t, 500, end)
			require.LessOrEqual(t, at, want)
			return at == want
		}, time.Minute, time.Millisecond)
	}
	commit(t, c, "audit", 0, 100)
	reach(100)
	commit(t, c, "audit", 0, 350)
	reach(300)
	commit(t, c, "g", 0, 500)
	commit(t, c, "audit", 0, 500)
	require.Eventually(t, func() bool {
		at, _ := offsets(t, c, 0)
		return at > 400 && at < 500
	}, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-done)
	at, _ := offsets(t, c, 0)
	require.NoError(t, b.Close())
	require.NoError(t, b.Run(ctx), "a broker that is closed has nothing to trim")

	again := open(t, cfg)
	first, end := offsets(t, client(t, again), 0)
	require.Equal(t, at, first)
	require.EqualValues(t, 500, end, "offsets never start again")
}
