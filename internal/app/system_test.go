package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/query"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// system is the embedded broker and the emulator with real clients between them: everything of dev that outlives an
// ingester.
type system struct {
	t        testing.TB
	emulator *emulator.Server
	broker   *broker.Broker
	brokerIn string                                                               // data directory
	dial     func(ctx context.Context, network, address string) (net.Conn, error) // of processes to the broker
	queue    []kafkago.Message                                                    // reused by publishTrucks
	close    func()
}

func newSystem(t testing.TB) *system {
	s := &system{t: t, brokerIn: t.TempDir()}
	var err error
	s.emulator, err = emulator.Open(emulator.Config{InMemory: true})
	require.NoError(t, err)
	s.startBroker(s.brokerIn)
	s.close = sync.OnceFunc(func() {
		s.broker.Close()
		require.NoError(t, s.emulator.Close())
	})
	t.Cleanup(s.close)
	require.NoError(t, s.client().EnsureBase(context.Background()))
	return s
}

func (s *system) startBroker(dir string) {
	var err error
	s.brokerIn = dir
	s.broker, err = broker.Open(broker.Config{DataDir: dir, Addr: "127.0.0.1:0", Partitions: 2,
		Topics: []string{ops.Topic, ops.DeadLetters}})
	require.NoError(s.t, err)
}

func (s *system) client() *cosmos.Client {
	c, err := cosmos.New(cosmos.Config{Endpoint: s.emulator.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: s.emulator.Transport()})
	require.NoError(s.t, err)
	return c
}

// directory makes containers itself, as provision would.
type directory struct {
	*control.Directory
	containers *cosmos.Containers
}

func (d directory) AskMonth(ctx context.Context, container, tenant string) error {
	if err := d.Directory.AskMonth(ctx, container, tenant); err != nil {
		return err
	}
	return d.containers.Create(ctx, container, store.Throughput{RUs: 4000})
}

// process is one ingester with its querier, until stop.
type process struct {
	*ingest.Ingester
	query *query.Querier
	stop  func()
}

func (s *system) process(change func(*ingest.Config)) *process {
	t, client := s.t, s.client()
	documents := control.DirectoryConfig{Documents: client.Documents()}
	dir := control.NewDirectory(documents)
	cluster, err := kafka.New(kafka.Config{Brokers: []string{s.broker.Addr()}, Dial: s.dial})
	require.NoError(t, err)
	cfg := ingest.Config{
		Config: worker.Config{
			Topic: ops.Topic, Register: true, Hold: 300 * time.Millisecond, CatalogEvery: -1, CatalogWait: -1,
			CommitEvery: 20 * time.Millisecond,
			StampEvery:  time.Millisecond, Linger: 100 * time.Millisecond, RetryBackoff: time.Millisecond,
		},
		Kafka: cluster, DeadLetters: ops.DeadLetters, SnapshotAge: 20 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	in, err := ingest.New(cfg, ingest.Stores{
		Chunks: client.Chunks(), Directory: directory{dir, client.Containers()}, Catalog: client.Catalog(),
		Streams:     stream.NewStreams(client.Documents()),
		DeadLetters: ingest.NewTopicDeadLetterWriter(cluster.Topic(ops.DeadLetters)),
	})
	require.NoError(t, err)
	q, err := query.New(query.Config{Reader: client.Chunks(), Heads: in, Log: cluster.Topic(ops.Topic),
		Catalog: client.Catalog(), Directory: control.NewDirectory(documents)}) // its own, as in a process of its own
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
		cluster.Close()
	})
	t.Cleanup(stop)
	return &process{in, q, stop}
}

// reading is one message of a device.
func reading(device string, ts int64, value any) kafkago.Message {
	body, err := json.Marshal(map[string]any{"tenant": "acme", "device": device, "ts": ts,
		"values": map[string]any{"v": value}})
	if err != nil {
		panic(err)
	}
	return kafkago.Message{Key: []byte("acme/" + device), Value: body}
}

func (s *system) publish(messages ...kafkago.Message) {
	w := &kafkago.Writer{Addr: kafkago.TCP(s.broker.Addr()), Topic: ops.Topic, Balancer: kafkago.Murmur2Balancer{},
		RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond}
	require.NoError(s.t, w.WriteMessages(context.Background(), messages...))
	require.NoError(s.t, w.Close())
}

type point struct {
	device string
	time   int64
}

// answer is all readings of acme, strictly: it waits until everything published before is in.
func (p *process) answer(t *testing.T) map[point]float64 {
	out, complete := p.ask(t, query.Request{Tenant: "acme", Range: binning.All, Strict: true})
	require.True(t, complete)
	return out
}

// lax is what is known of acme now.
func (p *process) lax(t *testing.T) map[point]float64 {
	out, _ := p.ask(t, query.Request{Tenant: "acme", Range: binning.All})
	return out
}

func (p *process) ask(t *testing.T, r query.Request) (answer map[point]float64, complete bool) {
	out := map[point]float64{}
	result, err := p.query.Readings(context.Background(), r, func(r query.Row) error {
		k := point{r.Device, r.Time}
		if _, twice := out[k]; twice { // require.NotContains looks at each key
			require.Failf(t, "answered twice", "%v", k)
		}
		out[k] = r.Values[0].Value.Float()
		return nil
	})
	require.NoError(t, err)
	return out, result.Complete
}

// recreate deletes a topic and makes it again, empty.
func (s *system) recreate(topic string) {
	client := &kafkago.Client{Addr: kafkago.TCP(s.broker.Addr())}
	deleted, err := client.DeleteTopics(context.Background(), &kafkago.DeleteTopicsRequest{Topics: []string{topic}})
	require.NoError(s.t, err)
	require.NoError(s.t, deleted.Errors[topic])
	made, err := client.CreateTopics(context.Background(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{
		Topic: topic, NumPartitions: 2, ReplicationFactor: 1,
		ConfigEntries: []kafkago.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "-1"}},
	}}})
	require.NoError(s.t, err)
	require.NoError(s.t, made.Errors[topic])
}

// settled waits until everything is committed.
func (s *system) settled(group string) {
	cluster, err := kafka.New(kafka.Config{Brokers: []string{s.broker.Addr()}})
	require.NoError(s.t, err)
	defer cluster.Close()
	topic := cluster.Topic(ops.Topic)
	require.Eventually(s.t, func() bool {
		ends, err := topic.LogEnds(context.Background())
		commits, none := topic.Commits(context.Background(), group)
		return err == nil && none == nil && !slices.ContainsFunc(ends, func(e store.LogEnd) bool {
			return e.End > 0 && commits[int(e.Partition)].Offset != e.End
		})
	}, time.Minute, 10*time.Millisecond, "not everything is committed")
}

// today's noon keeps tests away from midnight.
func noon() int64 {
	now := time.Now().UnixMilli()
	return telemetry.DayOf(now).Start() - telemetry.DayMillis/2
}

func devices(n, each int, from int64) (messages []kafkago.Message, want map[point]float64) {
	want = map[point]float64{}
	for i := range each {
		for d := range n {
			device, ts, v := fmt.Sprintf("d%d", d), from+int64(i)*1000, float64(i*100+d)
			messages = append(messages, reading(device, ts, v))
			want[point{device, ts}] = v
		}
	}
	return messages, want
}

func union(a, b map[point]float64) map[point]float64 {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
