package ingest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/write"
	"binnacle/internal/kafka"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Records of transactions that were aborted are not stored. They take up offsets all the same, and so do the markers of
// transactions: the position passes them, also at the end of the log.
func TestAbortedTransactionsAreSkipped(t *testing.T) {
	r := newRig(t, 1)
	ctx := ingesttest.Deadline(t)
	producer, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addr()), kgo.DefaultProduceTopic(topic),
		kgo.TransactionalID("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer producer.Close()
	for i := range int64(4) {
		require.NoError(t, producer.BeginTransaction())
		for k := range int64(5) {
			m := r.message("d0", past+i*10+k, 1)
			require.NoError(t, producer.ProduceSync(ctx, &kgo.Record{Key: m.Key, Value: m.Value, Timestamp: m.Time}).FirstErr())
			if i%2 == 1 {
				delete(r.want, ingesttest.Series{Device: "d0", Metric: "a", Time: past + i*10 + k})
			}
		}
		require.NoError(t, producer.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)))
	}
	in := r.ingester(nil)
	stop := r.run(in)
	r.settled()
	require.EqualValues(t, 24, r.committed(0))
	require.True(t, in.CaughtUp())
	stop()
	r.whole()
}

// A batch that unpacks to more than a batch may is a dead letter that says where it lies; the log goes on behind it.
func TestDecompressionBombIsADeadLetter(t *testing.T) {
	r := newRig(t, 1)
	r.publish(0, r.message("d0", past, 1))
	r.publishAs(0, kafkago.Gzip, kafkago.Message{Value: make([]byte, 8<<20)}, kafkago.Message{Value: []byte("with it")})
	r.publish(0, r.message("d0", past+1, 2))
	cluster := r.connect(kafka.Config{MaxUnpackedBytes: 4 << 20})
	in := r.ingester(func(c *ingest.Config, stores *ingest.Stores) {
		c.Kafka, stores.DeadLetters = cluster, ingest.NewTopicDeadLetterWriter(cluster.Topic(letter))
	})
	r.run(in)
	r.settled()
	r.whole()
	require.EqualValues(t, 4, r.committed(0))

	got, err := r.cluster.Topic(letter).Fetch(ingesttest.Deadline(t), 0, 0)
	require.NoError(t, err)
	defer got.Release()
	require.Len(t, got.Records, 1)
	headers := map[string]string{}
	for _, h := range got.Records[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	require.Equal(t, "unreadable", headers["binnacle-reason"])
	require.Equal(t, "1", headers["binnacle-offset"])
	require.Equal(t, "2", headers["binnacle-through"])
	require.Equal(t, topic, headers["binnacle-topic"])
	require.Contains(t, headers["binnacle-detail"], "too large")
	bytes, err := strconv.Atoi(headers["binnacle-truncated"])
	require.NoError(t, err)
	require.Greater(t, bytes, 1000)
}

// streams are the chunks of a partition by stream: the lowest offset in each.
func (r *rig) streams(partition int32) map[uint32]int64 {
	lowest := map[uint32]int64{}
	for _, h := range r.Headers() {
		if h.ID.Partition != partition {
			continue
		}
		if low, ok := lowest[h.ID.Stream]; !ok || h.First < low {
			lowest[h.ID.Stream] = h.First
		}
	}
	return lowest
}

// A leader that lacks the last records of the old one was elected, and by the next fetch the log is longer than it
// was: what it has at offsets that were read before is read as well, and no more than that again. The other partition
// goes on as it was.
func TestTruncatedLogThatGrewAgainIsReadAnew(t *testing.T) {
	r := newRig(t, 2)
	at := int64(past)
	publish := func(partition, n int) {
		for range n {
			at++
			r.publish(partition, r.message(fmt.Sprintf("d%d", partition), at, float64(at)))
		}
	}
	stop := r.run(r.ingester(nil))
	publish(0, 20)
	publish(1, 20)
	r.settled()
	stop()
	streams := stream.NewStreams(r.Docs)
	_, mark, _, err := streams.Of(context.Background(), r.broker.ClusterID(), topic, 2, 1)
	require.NoError(t, err)
	r.Docs.Fault = func(op, kind, _ string) *storetest.Fault {
		if kind == stream.KindMark && op == storetest.OpReplace {
			return &storetest.Fault{Err: errors.New("down")} // the marks stay what they are
		}
		return nil
	}
	short := filepath.Join(t.TempDir(), "short")
	addr := r.broker.Addr()
	require.NoError(t, r.broker.Close())
	require.NoError(t, os.CopyFS(short, os.DirFS(r.dir)))
	r.broker = r.open(addr, r.dir)
	r.run(r.ingester(nil))
	publish(1, 20) // acknowledged by the old leader alone
	r.settled()

	old := r.broker
	r.broker = r.open("127.0.0.1:0", short)
	publish(1, 60)
	require.NoError(t, r.broker.Close())
	require.NoError(t, old.Close())
	r.broker = r.open(addr, short)
	publish(0, 1)
	r.settled()
	require.Equal(t, r.want, r.Stored())
	require.Equal(t, map[uint32]int64{1: 0}, r.streams(0), "what still is as it was stays in its stream")
	require.Equal(t, map[uint32]int64{1: 0, 2: mark.Offset}, r.streams(1), "below its mark the log is the old one")
}

// One partition's log is not the one that its mark is of: the other one stays in its stream, and is not read again.
func TestLogMismatchAffectsOnePartition(t *testing.T) {
	r := newRig(t, 2)
	stop := r.run(r.ingester(nil))
	for i := range 40 {
		r.publish(i%2, r.message(fmt.Sprintf("d%d", i%2), past+int64(i), 1))
	}
	r.settled()
	stop()
	marks, err := r.Docs.List(context.Background(), stream.KindMark)
	require.NoError(t, err)
	require.Len(t, marks, 2)
	for _, m := range marks {
		if strings.HasSuffix(m.ID, ".00001") {
			m.Body = []byte(`{"offset":3,"timestamp":1,"crc":2}`)
			_, err := r.Docs.Replace(context.Background(), m)
			require.NoError(t, err)
		}
	}
	stop = r.run(r.ingester(nil))
	for i := range 10 {
		r.publish(i%2, r.message(fmt.Sprintf("d%d", i%2), past+1000+int64(i), 1))
	}
	r.settled()
	stop()
	require.Equal(t, r.want, r.Stored())
	require.Equal(t, map[uint32]int64{1: 0}, r.streams(0))
	require.Equal(t, map[uint32]int64{1: 0, 2: 0}, r.streams(1))
}

// scripted is a broker with one log, which a test sets, leader epochs included.
type scripted struct {
	*kfake.Cluster
	log     []int32 // the epoch of each record
	version string  // what the values of records from cut on say
	cut     int
}

func newScripted(t *testing.T) *scripted {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s := &scripted{Cluster: c, log: make([]int32, 100), cut: 1000}
	c.ControlKey(kmsg.Fetch.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return s.fetch(r.(*kmsg.FetchRequest)), nil, true
	})
	c.ControlKey(kmsg.ListOffsets.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, asked := range r.(*kmsg.ListOffsetsRequest).Topics[0].Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			if asked.Timestamp == -1 {
				p.Offset = int64(len(s.log))
			}
			of := kmsg.NewListOffsetsResponseTopic()
			of.Topic, of.Partitions = topic, []kmsg.ListOffsetsResponseTopicPartition{p}
			res.Topics = append(res.Topics, of)
		}
		return res, nil, true
	})
	return s
}

// fetch answers with one record a batch.
func (s *scripted) fetch(r *kmsg.FetchRequest) kmsg.Response {
	res := r.ResponseKind().(*kmsg.FetchResponse)
	p := kmsg.NewFetchResponseTopicPartition()
	p.HighWatermark, p.LastStableOffset = int64(len(s.log)), int64(len(s.log))
	for at := r.Topics[0].Partitions[0].FetchOffset; at < int64(len(s.log)); at++ {
		value := fmt.Sprint("record ", at)
		if at >= int64(s.cut) {
			value += s.version
		}
		body := append([]byte{0, 0, 0, 1, byte(2 * len(value))}, value...)
		body = append(body, 0)
		b := kmsg.RecordBatch{
			FirstOffset: at, PartitionLeaderEpoch: s.log[at], Magic: 2, FirstTimestamp: past, MaxTimestamp: past, ProducerID: -1,
			NumRecords: 1, Records: append([]byte{byte(2 * len(body))}, body...),
		}
		raw := b.AppendTo(nil)
		binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
		binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
		p.RecordBatches = append(p.RecordBatches, raw...)
	}
	of := kmsg.NewFetchResponseTopic()
	of.Topic, of.Partitions = topic, []kmsg.FetchResponseTopicPartition{p}
	res.Topics = append(res.Topics, of)
	return res
}

// A new leader's records are not taken before the last one of the old leader was seen to be there still.
func TestNewLeaderEpochComparesTheLog(t *testing.T) {
	s := newScripted(t)
	cluster, err := kafka.New(kafka.Config{Brokers: s.ListenAddrs()})
	require.NoError(t, err)
	defer cluster.Close()
	read := ingest.NewReader(cluster.Topic(topic), 0)
	next, err := read(ingesttest.Deadline(t), 0)
	require.NoError(t, err)
	require.EqualValues(t, 100, next)

	for range 10 {
		s.log = append(s.log, 1) // elected in order: all records are there
	}
	next, err = read(ingesttest.Deadline(t), next)
	require.NoError(t, err)
	require.EqualValues(t, 110, next)

	s.cut, s.version = 90, " of another leader"
	s.log = s.log[:90]
	for range 40 {
		s.log = append(s.log, 2)
	}
	_, err = read(ingesttest.Deadline(t), next)
	require.ErrorIs(t, err, ingest.ErrRetake)
	require.ErrorContains(t, err, "record 109 is not the one")
}

// A comparison with the log that was read before waits for room as every fetch does, and holds none meanwhile: with
// room for one answer it comes through.
func TestLogComparisonReleasesFetchMemory(t *testing.T) {
	s := newScripted(t)
	cluster, err := kafka.New(kafka.Config{Brokers: s.ListenAddrs(), MaxUnpackedBytes: 1 << 20, MaxFetchedBytes: 1})
	require.NoError(t, err)
	defer cluster.Close()
	read := ingest.NewReader(cluster.Topic(topic), 0)
	next, err := read(ingesttest.Deadline(t), 0)
	require.NoError(t, err)
	require.EqualValues(t, 100, next)
	for range 10 {
		s.log = append(s.log, 1)
	}
	next, err = read(ingesttest.Deadline(t), next)
	require.NoError(t, err)
	require.EqualValues(t, 110, next)
}

// Event Hubs refuses what is packed, and closes the connection on a request of more than a megabyte. Dead letters get
// there all the same, however many there are; those that do not fit go in part.
func TestDeadLettersOnEventHubs(t *testing.T) {
	hub, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, letter))
	require.NoError(t, err)
	t.Cleanup(hub.Close)
	hub.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		hub.KeepControl()
		for _, p := range r.(*kmsg.ProduceRequest).Topics[0].Partitions {
			if len(p.Records) > 1_046_528 || p.Records[22]&7 != 0 {
				return nil, errors.New("closed"), true
			}
		}
		return nil, nil, false
	})
	cluster, err := kafka.New(kafka.Config{
		// as EventHubs sets them, but without TLS
		Brokers: hub.ListenAddrs(), Compression: "none", MaxRequestBytes: 1_000_000,
	})
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	var letters []write.DeadLetter
	for i := range 500 {
		value := ingesttest.Random(16<<10, int64(i))
		if i%100 == 7 {
			value = ingesttest.Random(1_200_000, int64(i))
		}
		key := fmt.Appendf(nil, "acme/d%d", i)
		letters = append(letters, write.DeadLetter{Topic: topic, Record: admit.Record{Offset: int64(i), Key: key,
			Value: value}})
	}
	ctx := ingesttest.Deadline(t)
	require.NoError(t, ingest.NewTopicDeadLetterWriter(cluster.Topic(letter)).Publish(ctx, letters))
	ends, err := cluster.Topic(letter).LogEnds(ctx)
	require.NoError(t, err)
	require.EqualValues(t, len(letters), ends[0].End+ends[1].End)
}

// A record that was fetched in the instant in which the read of a snapshot began may be newer than an order that the
// snapshot lacks (rule E-R3).
func TestHorizonOfTheSameInstant(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var h ingest.Horizon
	require.EqualValues(t, 0, h.Follow(start, 5, start.Add(time.Second)))
	require.EqualValues(t, 0, h.Follow(start.Add(time.Second), 5, start.Add(2*time.Second)))
	require.EqualValues(t, 5, h.Follow(start.Add(time.Second+1), 9, start.Add(2*time.Second)))
}
