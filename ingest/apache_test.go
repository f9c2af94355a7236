package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/kafka/kafkatest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// apache is what tests share that run on Apache Kafka.
var apache kafkatest.Shared

// world is a topic in Apache Kafka, what was published to it, and stores in memory.
type world struct {
	*ingesttest.Stores
	t       *testing.T
	server  *kafkatest.Server
	brokers []string
	cluster *kafka.Client
	topic   string // its group has the same name
	sent    int64
	want    map[ingesttest.Series]telemetry.Value
}

// newWorld makes a topic.
func newWorld(t *testing.T, partitions int) *world {
	return worldOf(t, kafkago.TopicConfig{NumPartitions: partitions, ReplicationFactor: 1}, apache.Server(t))
}

// worldOf makes a topic of one cluster's servers.
func worldOf(t *testing.T, topic kafkago.TopicConfig, servers ...*kafkatest.Server) *world {
	w := &world{
		t: t, server: servers[0], Stores: ingesttest.NewStores(t, "2024-10"), topic: kafkatest.Name(t),
		want: map[ingesttest.Series]telemetry.Value{},
	}
	for _, s := range servers {
		w.brokers = append(w.brokers, s.Addr())
	}
	w.cluster = w.connect(kafka.Config{})
	w.eventually("no topic", func() error {
		topic.Topic = w.topic
		res, err := w.admin().CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{topic}})
		return errors.Join(err, res.Errors[w.topic])
	})
	return w
}

func (w *world) connect(cfg kafka.Config) *kafka.Client {
	cfg.Brokers, cfg.MetadataAge = w.brokers, 50*time.Millisecond
	c, err := kafka.New(cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) admin() *kafkago.Client {
	transport := &kafkago.Transport{}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(w.brokers...), Transport: transport}
}

// publish sends records of devices that each have a partition, some to each.
func (w *world) publish(records int) {
	of := w.cluster.Topic(w.topic)
	var partitions []int
	w.eventually("no partitions", func() (err error) { partitions, err = of.Partitions(w.t.Context()); return err })
	batches := map[int][]kafka.Message{}
	for range records {
		p := partitions[w.sent%int64(len(partitions))]
		device, at := fmt.Sprintf("d%02d", p), past+w.sent
		w.want[ingesttest.Series{Device: device, Metric: "a", Time: at}] = telemetry.FloatValue(float64(w.sent))
		batches[p] = append(batches[p], kafka.Message{
			Key: []byte("acme/" + device), Time: time.UnixMilli(at),
			Value: fmt.Appendf(nil, `{"tenant":"acme","device":%q,"ts":%d,"values":{"a":%d}}`, device, at, w.sent),
		})
		w.sent++
	}
	for p, batch := range batches {
		w.eventually("not published", func() error {
			done, err := of.Produce(w.t.Context(), p, batch)
			batch = batch[done:]
			return err
		})
	}
}

// eventually makes attempts until one succeeds. Records that are sent twice are the same.
func (w *world) eventually(what string, attempt func() error) {
	w.t.Helper()
	var err error
	require.Eventually(w.t, func() bool { err = attempt(); return err == nil }, time.Minute, 10*time.Millisecond, what)
	require.NoError(w.t, err)
}

// ingester is a process that reads the topic by a client.
func (w *world) ingester(cluster *kafka.Client, change func(*ingest.Config)) *ingest.Ingester {
	cfg := ingest.Config{
		Config: worker.Config{
			Register: true, Past: -1, Hold: 200 * time.Millisecond, CatalogEvery: -1, CatalogWait: -1,
			CommitEvery: 20 * time.Millisecond, StampEvery: time.Millisecond, Linger: 50 * time.Millisecond,
			RetryBackoff: time.Millisecond,
		},
		Topics: []string{w.topic}, Kafka: cluster, Group: w.topic, Session: ingest.MinSession,
		SnapshotAge: 20 * time.Millisecond, WatchEvery: 100 * time.Millisecond,
		DrainBudget: time.Second, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	in, err := ingest.New(cfg, ingest.Stores{
		Chunks: w.Chunks, Directory: control.NewDirectory(control.DirectoryConfig{Documents: w.Docs}), Catalog: w.Catalog,
		Streams: stream.NewStreams(w.Docs), DeadLetters: nobody{w.t},
	})
	require.NoError(w.t, err)
	return in
}

// nobody is ingest.DeadLetterWriter where nothing is refused.
type nobody struct{ t *testing.T }

func (n nobody) Publish(_ context.Context, deadLetters []write.DeadLetter) error {
	n.t.Errorf("%d records were refused", len(deadLetters))
	return nil
}

// run runs a process until stop, which waits for its end.
func (w *world) run(in *ingest.Ingester) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w.t, <-done)
	})
	w.t.Cleanup(stop)
	return stop
}

// whole waits until everything is committed, and holds that the store has what was published, each once.
func (w *world) whole() {
	w.t.Helper()
	of := w.cluster.Topic(w.topic)
	w.eventually("not everything is committed", func() error {
		ends, err := of.LogEnds(w.t.Context())
		if err != nil {
			return err
		}
		commits, err := of.Commits(w.t.Context(), w.topic)
		for _, e := range ends {
			if err == nil && e.End > 0 && commits[int(e.Partition)].Offset != e.End {
				err = fmt.Errorf("partition %d: %d of %d", e.Partition, commits[int(e.Partition)].Offset, e.End)
			}
		}
		return err
	})
	require.Equal(w.t, w.want, w.Stored())
	w.CheckChains()
}

// cord makes the connections of a process, and cuts them for good: the broker takes it for dead, and it does not know.
type cord struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *cord) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		conn.Close()
		return nil, errors.New("the cord is cut")
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cord) sever() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		conn.Close()
	}
}

// What is published is stored once, over restarts of the ingester, and a broker that is killed.
func TestApacheKafkaOverRestarts(t *testing.T) {
	w := newWorld(t, 3)
	w.publish(300)
	stop := w.run(w.ingester(w.cluster, nil))
	w.publish(300)
	w.whole()
	stop()
	w.publish(300) // while nobody reads
	in := w.ingester(w.cluster, nil)
	w.run(in)
	w.whole()
	require.Eventually(t, in.CaughtUp, patience, time.Millisecond)

	w.publish(300)
	w.server.Kill()
	require.NoError(t, w.server.Start())
	w.publish(300)
	w.whole()
}

// leader is which of the servers leads a partition, once one of them does and so many replicas have all that it has.
func (w *world) leader(of, insync int, servers []*kafkatest.Server) (leader *kafkatest.Server) {
	w.eventually("nobody leads", func() error {
		about, err := w.admin().Metadata(w.t.Context(), &kafkago.MetadataRequest{Topics: []string{w.topic}})
		if err != nil {
			return err
		}
		for _, p := range about.Topics[0].Partitions {
			at := net.JoinHostPort(p.Leader.Host, strconv.Itoa(p.Leader.Port))
			for _, s := range servers {
				if p.ID == of && s.Addr() == at && len(p.Isr) >= insync {
					leader = s
					return nil
				}
			}
		}
		return errors.New("no such leader yet")
	})
	return leader
}

// Three brokers, of which the leader of a partition, and with it coordinators of groups, is killed again and again:
// others are elected, and what is published is stored once.
func TestApacheKafkaElections(t *testing.T) {
	servers := kafkatest.Running(t, 3)
	w := worldOf(t, kafkago.TopicConfig{NumPartitions: 3, ReplicationFactor: 3}, servers...)
	w.run(w.ingester(w.cluster, nil))
	w.publish(300)
	w.whole()
	for round := range 2 {
		leader := w.leader(round, 1, servers)
		w.publish(150)
		leader.Kill()
		w.publish(150)
		w.whole()
		require.NotSame(t, leader, w.leader(round, 1, servers))
		require.NoError(t, leader.Start())
		w.publish(150)
	}
	w.whole()
}

// A replica that lacks the last records is elected, as the one that has them is dead: the log goes on with others at
// their offsets, to more or to fewer than were read. What was stored stays, what comes is stored once.
func TestApacheKafkaUncleanElections(t *testing.T) {
	servers := kafkatest.Running(t, 3)
	w := worldOf(t, kafkago.TopicConfig{
		NumPartitions: -1, ReplicationFactor: -1,
		ReplicaAssignments: []kafkago.ReplicaAssignment{{Partition: 0, Replicas: []int{1, 2}}},
		ConfigEntries: []kafkago.ConfigEntry{
			{ConfigName: "unclean.leader.election.enable", ConfigValue: "true"},
			{ConfigName: "min.insync.replicas", ConfigValue: "1"},
		},
	}, servers...)
	w.run(w.ingester(w.cluster, nil))
	w.publish(100)
	w.whole()
	for _, others := range []int{150, 50} {
		leader, behind := w.leader(0, 2, servers), servers[0]
		if leader == behind {
			behind = servers[1]
		}
		behind.Kill()
		w.publish(100) // which the leader alone has
		w.whole()
		lost := w.end()
		leader.Kill()
		require.NoError(t, behind.Start())
		w.leader(0, 1, []*kafkatest.Server{behind})
		require.Less(t, w.end(), lost, "records are lost")
		w.publish(others)
		w.whole()
		require.NoError(t, leader.Start())
		w.publish(50)
		w.whole()
	}
}

// end is the log end of the first partition.
func (w *world) end() (end int64) {
	w.eventually("no log end", func() error {
		ends, err := w.cluster.Topic(w.topic).LogEnds(w.t.Context())
		if err == nil {
			end = ends[0].End
		}
		return err
	})
	return end
}

// Partitions that are added are read without a restart.
func TestApacheKafkaGrows(t *testing.T) {
	w := newWorld(t, 1)
	in := w.ingester(w.cluster, nil)
	w.run(in)
	w.publish(100)
	w.whole()
	res, err := w.admin().CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{
		Topics: []kafkago.TopicPartitionsConfig{{Name: w.topic, Count: 3}}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[w.topic])
	of := w.cluster.Topic(w.topic)
	w.eventually("not grown", func() error {
		partitions, err := of.Partitions(t.Context())
		if err == nil && len(partitions) != 3 {
			err = errors.New("not grown yet")
		}
		return err
	})
	w.publish(300)
	w.whole()
	require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
}

// Members come, leave, and die without a word, one of them while partitions change hands; the dead go on for a while
// with what they have. Nothing is lost and nothing doubled.
func TestApacheKafkaMembers(t *testing.T) {
	w := newWorld(t, 4)
	stopFirst := w.run(w.ingester(w.cluster, nil))
	w.publish(200)
	w.whole()

	var doomed cord
	second := w.ingester(w.connect(kafka.Config{Dial: doomed.dial}), nil)
	w.run(second)
	w.publish(200)
	require.Eventually(t, second.CaughtUp, time.Minute, time.Millisecond, "it has its part of the partitions")
	w.publish(200)
	w.whole()

	third := w.ingester(w.cluster, nil) // joins, which has partitions change hands
	w.run(third)
	w.publish(200)
	w.eventually("nothing changes hands", func() error {
		state := w.state()
		if !slices.Contains([]string{"PreparingRebalance", "CompletingRebalance"}, state) && !third.CaughtUp() {
			return errors.New(state)
		}
		return nil
	})
	doomed.sever()
	w.publish(200)
	w.whole()

	stopFirst()
	w.publish(200)
	w.whole()
}

// Processes that are set to their partitions: one is cut off and another one with its ordinal comes, and no partition
// of the other one changes hands.
func TestApacheKafkaAssigned(t *testing.T) {
	w := newWorld(t, 4)
	set := func(assign string) func(*ingest.Config) { return func(c *ingest.Config) { c.Assign = assign } }
	even := w.ingester(w.cluster, set("0/2"))
	w.run(even)
	var doomed cord
	w.run(w.ingester(w.connect(kafka.Config{Dial: doomed.dial}), set("1/2")))
	w.publish(400)
	w.whole()
	doomed.sever()
	w.publish(400)
	again := w.ingester(w.cluster, set("1/2"))
	w.run(again)
	w.publish(400)
	w.whole()
	require.Equal(t, []int{0, 2}, has(even))
	require.Equal(t, []int{1, 3}, has(again))
}

// Bins outlive their process in the journal: it is made beside the topic, a restart stores nothing and loads all, and
// so it is when broker and ingester die. A journal that is deleted costs reading the source again.
func TestApacheKafkaJournal(t *testing.T) {
	w := newWorld(t, 3)
	j := kafka.Journal{Source: w.cluster.Topic(w.topic), Topic: w.cluster.Topic(kafka.JournalOf(w.topic)),
		Keep: 36 * time.Hour}
	w.eventually("no journal", func() error {
		_, err := j.Ensure(t.Context())
		return errors.Join(err, j.Check(t.Context()))
	})
	hold := func(c *ingest.Config) {
		c.Hold, c.JournalEvery, c.DrainBudget = time.Hour, 50*time.Millisecond, 5*time.Second
	}
	holds := func(in *ingest.Ingester) {
		require.Eventually(t, func() bool { // readings wait while their tenant is registered
			values, reached := held(t, in)
			return reached == w.sent && len(values) == len(w.want) && in.CaughtUp()
		}, time.Minute, time.Millisecond)
		values, _ := held(t, in)
		require.Equal(t, w.want, values)
		require.Empty(t, w.Chunks.Documents(), "nothing is cut")
	}
	journaled := func() {
		w.eventually("not all is journaled", func() error {
			commits, err := j.Source.Commits(t.Context(), w.topic)
			sum := int64(0)
			for _, c := range commits {
				in, _ := journal.ParseCommit(c.Metadata)
				sum += in.F
			}
			if err == nil && sum != w.sent {
				err = fmt.Errorf("%d of %d", sum, w.sent)
			}
			return err
		})
	}
	in := w.ingester(w.cluster, hold)
	stop := w.run(in)
	w.publish(300)
	holds(in)
	stop() // which journals and commits all
	journaled()

	var doomed cord
	in = w.ingester(w.connect(kafka.Config{Dial: doomed.dial}), hold)
	w.run(in)
	holds(in)
	w.publish(300)
	journaled()
	doomed.sever()
	w.server.Kill()
	require.NoError(t, w.server.Start())
	in = w.ingester(w.cluster, hold)
	stop = w.run(in)
	holds(in)
	stop()

	gone, err := w.admin().DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{j.Topic.Name()}})
	require.NoError(t, err)
	require.NoError(t, gone.Errors[j.Topic.Name()])
	in = w.ingester(w.cluster, hold)
	stop = w.run(in)
	holds(in)
	stop()
	w.run(w.ingester(w.cluster, nil)) // with a hold that is soon over
	w.whole()
}

// state is the group's.
func (w *world) state() string {
	res, err := w.admin().DescribeGroups(w.t.Context(), &kafkago.DescribeGroupsRequest{GroupIDs: []string{w.topic}})
	if err != nil || len(res.Groups) != 1 {
		return fmt.Sprint(err)
	}
	return res.Groups[0].GroupState
}
