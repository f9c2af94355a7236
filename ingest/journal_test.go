package ingest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/journal"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// reach waits until the heads of an ingester have taken that many records, and returns the values of the heads at that
// moment. A later read may return fewer values: a rebalance makes the head read its partition again.
func reach(t *testing.T, in *ingest.Ingester, records int64) (values map[ingesttest.Series]telemetry.Value) {
	t.Helper()
	eventually(t, "all is read", func() bool {
		var reached int64
		values, reached = held(t, in)
		return reached == records
	})
	return values
}

// held is what the heads of a process have.
func held(t *testing.T, in *ingest.Ingester) (values map[ingesttest.Series]telemetry.Value, reached int64) {
	t.Helper()
	heads, err := in.Heads(context.Background(), store.HeadRequest{Tenant: "acme", Range: binning.All})
	require.NoError(t, err)
	values = map[ingesttest.Series]telemetry.Value{}
	from := map[ingesttest.Series]store.Source{}
	for _, h := range heads {
		reached += h.Position
		for r, err := range h.Rows {
			require.NoError(t, err)
			ingesttest.Merge(values, from, r.Device, r.Source, r.Frame)
		}
	}
	return values, reached
}

// metadata is what the group's commit of a partition carries.
func (r *rig) metadata(partition int) journal.Commit {
	commits, err := r.cluster.Topic(topic).Commits(context.Background(), "binnacle")
	require.NoError(r.t, err)
	c, _ := journal.ParseCommit(commits[partition].Metadata)
	return c
}

func longHold(c *ingest.Config, _ *ingest.Stores) {
	c.Hold, c.DrainBudget, c.JournalEvery = time.Hour, 5*time.Second, 50*time.Millisecond
}

// A process that stops leaves its bins to the next one: nothing is stored, nothing is read again, and the heads have
// everything.
func TestRestartCutsNoBins(t *testing.T) {
	r := newRig(t, 3)
	n := 0
	publish := func(until int) {
		for ; n < until; n++ {
			r.publish(n%3, r.message(fmt.Sprintf("d%d", n%50), past+int64(n), float64(n)))
		}
	}
	for round := range 3 {
		in := r.ingester(longHold)
		stop := r.run(in)
		publish(100 * (round + 1))
		require.Eventually(t, func() bool { _, reached := held(t, in); return reached == int64(n) && in.CaughtUp() },
			patience, time.Millisecond)
		values, _ := held(t, in)
		require.Equal(t, r.want, values, "round %d", round)
		stop()
		for p := range 3 {
			require.Equal(t, int64(0), r.committed(p), "nothing is stored")
			require.EqualValues(t, n/3+(2-p+n%3)/3, r.metadata(p).F, "all of it is in the journal")
		}
	}
	require.Zero(t, r.Chunks.Calls(storetest.Create))
	require.Zero(t, r.Chunks.Calls(storetest.Last), "nor was anything looked up")

	in := r.ingester(nil) // with a hold that is over at once
	defer r.run(in)()
	r.settled()
	r.whole()
	require.Equal(t, journal.Commit{}, r.metadata(0), "nothing of the journal is needed any more")
}

// A chunk that the former owner has just stored may be lacking in a replica, and no head has its rows: heads are not
// caught up for a moment, also where all of the log is still in the journal and nothing but that is committed, and
// where the clock is set meanwhile.
func TestTakeoverFromTheJournalAloneSettles(t *testing.T) {
	r := newRig(t, 1)
	before := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		longHold(c, s)
		c.MemoryBytes = 100 << 10 // stores the largest bin
	})
	stop := r.run(before)
	r.publish(0, r.message("idle", past, 1))
	sent := 1
	for range 40 {
		messages := make([]kafkago.Message, 500)
		for i := range messages {
			messages[i] = r.message("busy", past+int64(sent), math.Sqrt(float64(sent)))
			sent++
		}
		r.publish(0, messages...)
	}
	reach(t, before, int64(sent))
	eventually(t, "a chunk is stored", func() bool { return r.Chunks.Calls(storetest.Create) > 0 })
	stop()
	require.Zero(t, r.committed(0))
	require.EqualValues(t, sent, r.metadata(0).F)

	var set atomic.Int64
	in := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		longHold(c, s)
		c.Linger = 10 * time.Minute
		c.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
	})
	r.run(in)
	require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
	set.Store(int64(20 * time.Minute))
	heads, err := in.Heads(t.Context(), store.HeadRequest{Tenant: "acme", Range: binning.All})
	require.NoError(t, err)
	require.Len(t, heads, 1)
	require.EqualValues(t, sent, heads[0].Position)
	require.Greater(t, heads[0].CaughtUp, heads[0].Position)
}

// An older binary, or an operator, commits without a word about the journal: the source is read from there.
func TestCommitWithoutJournalMetadata(t *testing.T) {
	r := newRig(t, 1)
	in := r.ingester(longHold)
	stop := r.run(in)
	for i := range 100 {
		r.publish(0, r.message("d0", past+int64(i), float64(i)))
	}
	reach(t, in, 100)
	stop()
	r.setCommitted(0)
	r.run(r.ingester(nil))
	r.settled()
	r.whole()
}

// Memory that is short sends blocks to the spill file before any bin is cut, and heads and chunks have them all the
// same.
func TestShortMemorySpillsToDisk(t *testing.T) {
	r := newRig(t, 1)
	dir := filepath.Join(t.TempDir(), "spill")
	registry := prometheus.NewRegistry()
	in := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		longHold(c, s)
		c.MemoryBytes, c.SpillDir, c.Registerer = 300<<10, dir, registry
	})
	stop := r.run(in)
	const devices, rounds = 40, 800
	for round := range rounds {
		messages := make([]kafkago.Message, devices)
		for d := range messages {
			messages[d] = r.message(fmt.Sprintf("d%d", d), past+int64(round), math.Sqrt(float64(round*devices+d)))
		}
		r.publish(0, messages...)
	}
	values := reach(t, in, devices*rounds)
	require.Equal(t, len(r.want), len(values))
	require.Equal(t, r.want, values)
	require.Zero(t, r.Chunks.Calls(storetest.Create), "nothing was cut")
	require.Positive(t, gauge(t, registry, "binnacle_ingest_spilled_bytes"))
	told, err := in.Bins(t.Context(), ingest.BinsRequest{})
	require.NoError(t, err)
	require.Positive(t, told.Memory.Spilled)
	require.GreaterOrEqual(t, told.Memory.File, told.Memory.Spilled)
	stop()

	in = r.ingester(func(c *ingest.Config, s *ingest.Stores) { c.MemoryBytes, c.SpillDir = 400<<10, dir })
	r.run(in)
	r.settled()
	r.whole()
}

// slowBlocks is a journal that answers on command.
type slowBlocks struct {
	ingest.Blocks
	asked, open chan struct{}
}

func (b *slowBlocks) Partition(topic string, partition int32) ingest.BlockLog {
	return &slowLog{b.Blocks.Partition(topic, partition), b}
}

type slowLog struct {
	ingest.BlockLog
	blocks *slowBlocks
}

func (l *slowLog) Each(ctx context.Context, from, to int64, f func(offset int64, value []byte) error) error {
	close(l.blocks.asked)
	select {
	case <-l.blocks.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.BlockLog.Each(ctx, from, to, f)
}

// While the journal is loaded a head shows no position above the committed one, and shows nothing: no answer that needs
// more is complete. A process that is stopped meanwhile has changed nothing.
func TestHeadsWhileTheJournalIsLoaded(t *testing.T) {
	r := newRig(t, 1)
	in := r.ingester(longHold)
	stop := r.run(in)
	for i := range 100 {
		r.publish(0, r.message("d0", past+int64(i), float64(i)))
	}
	reach(t, in, 100)
	stop()
	before := r.metadata(0)

	for _, whole := range []bool{false, true} {
		j := ingest.NewTopicJournal(r.cluster)
		slow := &slowBlocks{Blocks: j, asked: make(chan struct{}), open: make(chan struct{})}
		in = r.ingester(func(c *ingest.Config, s *ingest.Stores) {
			longHold(c, s)
			s.Journal, s.Blocks = j, slow
		})
		stop = r.run(in)
		<-slow.asked
		values, reached := held(t, in)
		require.Empty(t, values)
		require.Zero(t, reached)
		require.False(t, in.CaughtUp())
		_, missing := in.CatalogUpdates(t.Context(), "acme")
		require.Error(t, missing, "a list is not complete")
		_, missing = in.Devices(t.Context(), store.ListRequest{Tenant: "acme"})
		require.Error(t, missing)
		require.Equal(t, before.To-before.From, in.Loading())
		if whole {
			close(slow.open)
			require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
			_, missing = in.CatalogUpdates(t.Context(), "acme")
			require.NoError(t, missing)
			values, _ = held(t, in)
			require.Equal(t, r.want, values)
			require.Zero(t, in.Loading())
		}
		stop()
		require.Equal(t, before.F, r.metadata(0).F)
	}
}

// gauge is a metric of a process.
func gauge(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no metric "+name)
	return 0
}

// A journal that can't serve is logged with its fault, and stops nobody.
func TestUnfitJournalIsLogged(t *testing.T) {
	r := newRig(t, 2)
	ctx := context.Background()
	grown, err := r.client().CreatePartitions(ctx, &kafkago.CreatePartitionsRequest{
		Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 4}}})
	require.NoError(t, err)
	require.NoError(t, grown.Errors[topic])
	require.Eventually(t, func() bool {
		partitions, err := r.cluster.Topic(topic).Partitions(ctx)
		return err == nil && len(partitions) == 4
	}, patience, time.Millisecond)
	n := int64(0)
	r.flow(&n, 4)
	var said syncBuffer
	r.run(r.ingester(func(c *ingest.Config, _ *ingest.Stores) { c.Logger = slog.New(slog.NewTextHandler(&said, nil)) }))
	require.Eventually(t, func() bool {
		return said.has("give topic telemetry.journal 4 partitions instead of 2, as topic telemetry has")
	}, patience, time.Millisecond)
	r.settled()
	r.whole()
}

// deleteJournal takes the journal's topic away.
func (r *rig) deleteJournal() {
	gone, err := r.client().DeleteTopics(context.Background(),
		&kafkago.DeleteTopicsRequest{Topics: []string{kafka.JournalOf(topic)}})
	require.NoError(r.t, err)
	require.NoError(r.t, gone.Errors[kafka.JournalOf(topic)])
}

// A journal that goes away while it is written stops nothing, and says how long it has to be kept. When it is back all
// that is held goes there anew.
func TestJournalDeletedAndRecreated(t *testing.T) {
	r := newRig(t, 1)
	n := 0
	publish := func(until int) {
		for ; n < until; n++ {
			r.publish(0, r.message(fmt.Sprintf("d%d", n%20), past+int64(n), float64(n)))
		}
	}
	in := r.ingester(longHold)
	stop := r.run(in)
	publish(200)
	require.Eventually(t, func() bool { return r.metadata(0).F == 200 }, patience, time.Millisecond)
	r.deleteJournal()
	publish(300)
	reach(t, in, 300)
	made, err := r.client().CreateTopics(context.Background(), &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: kafka.JournalOf(topic), NumPartitions: 1, ReplicationFactor: 1}}})
	require.NoError(t, err)
	require.NoError(t, made.Errors[kafka.JournalOf(topic)])
	require.Eventually(t, func() bool { return r.metadata(0).F == 300 }, patience, time.Millisecond)
	stop()

	var said syncBuffer
	in = r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		longHold(c, s)
		c.Logger = slog.New(slog.NewTextHandler(&said, nil))
	})
	r.run(in)
	require.Eventually(t, func() bool { _, reached := held(t, in); return reached == 300 && in.CaughtUp() },
		patience, time.Millisecond)
	values, _ := held(t, in)
	require.Equal(t, r.want, values)
	require.True(t, said.has("bins loaded from the journal"))
	require.Equal(t, int64(0), r.committed(0), "nothing is stored")
	require.Zero(t, r.Chunks.Calls(storetest.Create))
}

// How long the journal has to be kept follows from the hold that is meant where none is set.
func TestJournalRetention(t *testing.T) {
	r := newRig(t, 1)
	r.deleteJournal()
	var said syncBuffer
	r.run(r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
		c.Hold, c.Logger = 0, slog.New(slog.NewTextHandler(&said, nil))
	}))
	require.Eventually(t, func() bool { return said.has("kept for 36h0m0s") }, patience, time.Millisecond)
}

// deafBlocks is a journal that answers nothing.
type deafBlocks struct{ asked func() }

func (b deafBlocks) Partition(string, int32) ingest.BlockLog { return b }

func (b deafBlocks) Bounds(context.Context) (first, end int64, err error) {
	b.asked()
	return 0, 0, errors.New("no leader")
}

func (deafBlocks) Each(context.Context, int64, int64, func(int64, []byte) error) error { return nil }

// A journal that does not answer is waited for, but not for ever: then the source is read from the committed offset.
func TestUnreachableJournal(t *testing.T) {
	r := newRig(t, 1)
	in := r.ingester(longHold)
	stop := r.run(in)
	for i := range 100 {
		r.publish(0, r.message("d0", past+int64(i), float64(i)))
	}
	reach(t, in, 100)
	stop()

	var later, asked atomic.Int64
	in = r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		longHold(c, s)
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		s.Journal = ingest.NewTopicJournal(r.cluster)
		s.Blocks = deafBlocks{func() {
			asked.Add(1)
			later.Add(int64(50 * time.Second))
		}}
	})
	stop = r.run(in)
	require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
	require.EqualValues(t, 3, asked.Load(), "after 50, 100 and 150 seconds")
	values, _ := held(t, in)
	require.Equal(t, r.want, values)
	stop()
}

// A partition comes back after another process has committed: the journal does not answer, and is not waited for for
// ever.
func TestUnreachableJournalOfAnotherOwner(t *testing.T) {
	r := newRig(t, 1)
	var later, asked atomic.Int64
	in := r.ingester(func(c *ingest.Config, s *ingest.Stores) {
		longHold(c, s)
		c.Assign = "0/1"
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		s.Journal = ingest.NewTopicJournal(r.cluster)
		s.Blocks = deafBlocks{func() {
			asked.Add(1)
			later.Add(int64(50 * time.Second))
		}}
	})
	r.run(in)
	for i := range 200 {
		r.publish(0, r.message("d0", past+int64(i), float64(i)))
	}
	eventually(t, "all is in the journal", func() bool { return r.metadata(0).F == 200 })
	others := r.metadata(0)
	others.F--
	require.NoError(t, r.cluster.Topic(topic).Commit(t.Context(), kafka.Commit{Group: "binnacle",
		Generation: kafka.NoGeneration, Metadata: others.Metadata()}))
	res, err := r.client().CreatePartitions(t.Context(),
		&kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 2}}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[topic])
	eventually(t, "the partition comes back", func() bool { return asked.Load() > 0 })
	r.publish(0, r.message("d0", past+1000, 1))
	r.publish(1, r.message("d1", past, 1))
	eventually(t, "both are read", func() bool { _, reached := held(t, in); return reached == 202 })
	require.EqualValues(t, 3, asked.Load(), "after 50, 100 and 150 seconds")
}

// The source has lost what is not stored; a journal that is whole has it.
func TestLogTrimmedBeyondTheCommittedOffset(t *testing.T) {
	r := newRig(t, 1)
	in := r.ingester(longHold)
	stop := r.run(in)
	for i := range 200 {
		r.publish(0, r.message(fmt.Sprintf("d%d", i%7), past+int64(i), float64(i)))
	}
	reach(t, in, 200)
	streams := stream.NewStreams(r.Docs)
	require.Eventually(t, func() bool {
		_, _, marked, err := streams.Of(t.Context(), r.broker.ClusterID(), topic, 1, 0)
		return err == nil && marked
	}, patience, time.Millisecond, "without a mark, what is committed is of an older log")
	stop()
	require.Zero(t, r.committed(0))
	require.EqualValues(t, 200, r.metadata(0).F)
	r.deleteRecords(150)

	in = r.ingester(longHold)
	stop = r.run(in)
	require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
	values, _ := held(t, in)
	require.Equal(t, r.want, values)
	stop()
	r.run(r.ingester(nil))
	r.settled()
	r.whole()
}

// deleteRecords has the broker forget the records of the topic's first partition below an offset, as retention does.
func (r *rig) deleteRecords(below int64) {
	conn, err := net.Dial("tcp", r.broker.Addr())
	require.NoError(r.t, err)
	defer conn.Close()
	ask := kmsg.NewPtrDeleteRecordsRequest()
	ask.Version, ask.TimeoutMillis = 1, 5000
	ask.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic,
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: below}}}}
	_, err = conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, ask, 1))
	require.NoError(r.t, err)
	head := make([]byte, 8) // length, correlation id
	_, err = io.ReadFull(conn, head)
	require.NoError(r.t, err)
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	_, err = io.ReadFull(conn, body)
	require.NoError(r.t, err)
	answer := ask.ResponseKind().(*kmsg.DeleteRecordsResponse)
	require.NoError(r.t, answer.ReadFrom(body))
	require.Zero(r.t, answer.Topics[0].Partitions[0].ErrorCode)
	require.Equal(r.t, below, answer.Topics[0].Partitions[0].LowWatermark)
}
