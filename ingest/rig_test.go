package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// rig is the embedded broker with stores in memory: an Ingester as it is, on everything that survives it.
type rig struct {
	*ingesttest.Stores
	t          *testing.T
	broker     *broker.Broker
	dir        string // the broker's
	partitions int
	cluster    *kafka.Client
	transport  *kafkago.Transport
	want       map[ingesttest.Series]telemetry.Value // what was published, the last of each series and instant
}

const (
	topic  = "telemetry"
	letter = "telemetry.dlq"
	past   = 1730000000000 // 2024-10-27: an instant that lies in the past whatever the clock says
)

// newRig lets tests run beside each other: most of their time they wait.
func newRig(t *testing.T, partitions int) *rig {
	t.Parallel()
	r := &rig{
		Stores: ingesttest.NewStores(t, "2024-10"), t: t,
		transport: &kafkago.Transport{MetadataTTL: 50 * time.Millisecond}, want: map[ingesttest.Series]telemetry.Value{},
	}
	r.dir, r.partitions = t.TempDir(), partitions
	r.broker = r.open("127.0.0.1:0", r.dir)
	r.cluster = r.connect(kafka.Config{})
	require.Eventually(t, func() bool { // kafka-go fails all requests while its first question for the layout is late
		_, err := r.client().Metadata(t.Context(), &kafkago.MetadataRequest{Topics: []string{topic}})
		return err == nil
	}, patience, time.Millisecond)
	_, err := control.NewDirectory(control.DirectoryConfig{Documents: r.Docs, Now: time.Now}).Register(t.Context(), "acme")
	require.NoError(t, err)
	t.Cleanup(func() {
		r.transport.CloseIdleConnections()
		require.NoError(t, r.broker.Close())
	})
	return r
}

// open starts a broker on a directory.
func (r *rig) open(addr, dir string) *broker.Broker {
	b, err := broker.Open(broker.Config{DataDir: dir, Addr: addr, Partitions: r.partitions,
		Topics: []string{topic, letter, kafka.JournalOf(topic)}})
	require.NoError(r.t, err)
	return b
}

// Publish is ingest.DeadLetterWriter for what no test looks at.
func (r *rig) Publish(context.Context, []write.DeadLetter) error { return nil }

// connect makes a client of the rig's broker.
func (r *rig) connect(cfg kafka.Config) *kafka.Client {
	cfg.Brokers, cfg.MetadataAge = []string{r.broker.Addr()}, 50*time.Millisecond
	c, err := kafka.New(cfg)
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) client() *kafkago.Client {
	return &kafkago.Client{Addr: kafkago.TCP(r.broker.Addr()), Transport: r.transport}
}

// patience is how long tests wait for what comes by itself: longer than some sessions, for a process that ends while it
// joins its group stays in it for that long.
const patience = time.Minute

// ingester is a process, not running yet. Its directory is what it knows of the map.
func (r *rig) ingester(change func(*ingest.Config, *ingest.Stores)) *ingest.Ingester {
	now := time.Now
	dir := control.NewDirectory(control.DirectoryConfig{Documents: r.Docs, Now: func() time.Time { return now() }})
	cfg := ingest.Config{
		Config: worker.Config{
			Register: true, Past: -1, Hold: 100 * time.Millisecond, CatalogEvery: -1, CatalogWait: -1,
			CommitEvery: 10 * time.Millisecond,
			StampEvery:  time.Millisecond, Linger: 50 * time.Millisecond, RetryBackoff: time.Millisecond,
		},
		Kafka: r.cluster, DeadLetters: letter, Session: ingest.MinSession,
		SnapshotAge: 20 * time.Millisecond, WatchEvery: 100 * time.Millisecond,
		DrainBudget: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}
	stores := ingest.Stores{Chunks: r.Chunks, Directory: dir, Catalog: r.Catalog, Streams: stream.NewStreams(r.Docs),
		DeadLetters: r}
	if change != nil {
		change(&cfg, &stores)
	}
	if cfg.Now != nil {
		now = cfg.Now
	}
	in, err := ingest.New(cfg, stores)
	require.NoError(r.t, err)
	return in
}

// run runs a process until stop, which waits for its end.
func (r *rig) run(in *ingest.Ingester) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(r.t, err)
		case <-time.After(time.Minute):
			require.Fail(r.t, "the ingester does not stop")
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// message is a reading of a device at an instant, in the form that the rig publishes.
func (r *rig) message(device string, ts int64, value float64) kafkago.Message {
	r.want[ingesttest.Series{Device: device, Metric: "a", Time: ts}] = telemetry.FloatValue(value)
	return kafkago.Message{
		Key: []byte("acme/" + device), Time: time.UnixMilli(ts),
		Value: fmt.Appendf(nil, `{"tenant":"acme","device":%q,"ts":%d,"values":{"a":%g}}`, device, ts, value),
	}
}

// publish puts messages into one partition.
func (r *rig) publish(partition int, messages ...kafkago.Message) {
	r.publishAs(partition, 0, messages...)
}

// publishAs is publish with a compression, as one batch.
func (r *rig) publishAs(partition int, codec kafkago.Compression, messages ...kafkago.Message) {
	require.Eventually(r.t, func() bool { // the client may not know of a new partition yet
		records := make([]kafkago.Record, len(messages))
		for i, m := range messages {
			records[i] = kafkago.Record{Time: m.Time, Key: kafkago.NewBytes(m.Key), Value: kafkago.NewBytes(m.Value),
				Headers: m.Headers}
		}
		res, err := r.client().Produce(context.Background(), &kafkago.ProduceRequest{
			Topic: topic, Partition: partition, RequiredAcks: kafkago.RequireAll, Compression: codec,
			Records: kafkago.NewRecordReader(records...),
		})
		return err == nil && res.Error == nil
	}, patience, 10*time.Millisecond)
}

// recreate deletes the topic and makes it anew, empty.
func (r *rig) recreate(partitions int) {
	ctx := context.Background()
	deleted, err := r.client().DeleteTopics(ctx, &kafkago.DeleteTopicsRequest{Topics: []string{topic}})
	require.NoError(r.t, err)
	require.NoError(r.t, deleted.Errors[topic])
	made, err := r.client().CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: topic,
		NumPartitions: partitions, ReplicationFactor: 1}}})
	require.NoError(r.t, err)
	require.NoError(r.t, made.Errors[topic])
}

// settled waits until everything is committed.
func (r *rig) settled() {
	source := r.cluster.Topic(topic)
	require.Eventually(r.t, func() bool {
		ends, err := source.LogEnds(context.Background())
		if err != nil {
			return false
		}
		for _, e := range ends {
			if e.End > 0 && r.committed(int(e.Partition)) != e.End {
				return false
			}
		}
		return true
	}, patience, 2*time.Millisecond, "not everything is committed")
}

func (r *rig) committed(partition int) int64 {
	res, err := r.client().OffsetFetch(context.Background(), &kafkago.OffsetFetchRequest{GroupID: "binnacle",
		Topics: map[string][]int{topic: {partition}}})
	if err != nil || len(res.Topics[topic]) != 1 {
		return -1
	}
	return res.Topics[topic][0].CommittedOffset
}

// setCommitted sets the group's offsets, partition by partition, while it has no members.
func (r *rig) setCommitted(offsets ...int64) {
	commits := make([]kafkago.OffsetCommit, len(offsets))
	for p, o := range offsets {
		commits[p] = kafkago.OffsetCommit{Partition: p, Offset: o}
	}
	res, err := r.client().OffsetCommit(context.Background(), &kafkago.OffsetCommitRequest{
		GroupID: "binnacle", GenerationID: -1, Topics: map[string][]kafkago.OffsetCommit{topic: commits},
	})
	require.NoError(r.t, err)
	for _, p := range res.Topics[topic] {
		require.NoError(r.t, p.Error)
	}
}

// whole holds that the store has what was published, each once.
func (r *rig) whole() {
	r.t.Helper()
	require.Equal(r.t, r.want, r.Stored())
	r.CheckChains()
}
