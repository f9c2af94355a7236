package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/tenant"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// Whatever does not answer, a process ends soon after its context.
func TestShutdownWithoutStoreOrBroker(t *testing.T) {
	down := errors.New("down")
	for _, c := range []struct {
		name  string
		fault func(r *rig)
	}{
		{"the map, while a partition is taken over", func(r *rig) {
			r.Docs.Fault = func(_, kind, _ string) *storetest.Fault {
				if kind == stream.Kind {
					return &storetest.Fault{Err: down}
				}
				return nil
			}
		}},
		{"the map, while a tenant is learnt", func(r *rig) {
			r.Docs.Fault = func(op, kind, _ string) *storetest.Fault {
				if kind == tenant.Kind && op == storetest.OpCreate {
					return &storetest.Fault{Err: down}
				}
				return nil
			}
		}},
		{"the store", func(r *rig) {
			r.Chunks.Fault = func(storetest.Op) *storetest.Fault { return &storetest.Fault{Err: down} }
		}},
		{"the catalog", func(r *rig) {
			r.Catalog.Fault = func(string, string, string) *storetest.Fault { return &storetest.Fault{Err: down} }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 2)
			reached := make(chan struct{})
			c.fault(r)
			r.reach(sync.OnceFunc(func() { close(reached) }))
			for i := range 200 {
				r.publish(i%2, r.message(fmt.Sprintf("d%d", i), past+int64(i), 1))
			}
			r.publish(0, kafkago.Message{Time: time.UnixMilli(past),
				Value: fmt.Appendf(nil, `{"tenant":"globex","device":"d","ts":%d,"values":{"a":1}}`, past)})
			stop := r.run(r.ingester(nil))
			<-reached
			stop()
		})
	}
}

// reach has a function called when a fault is answered.
func (r *rig) reach(f func()) {
	if docs := r.Docs.Fault; docs != nil {
		r.Docs.Fault = func(op, kind, id string) *storetest.Fault {
			x := docs(op, kind, id)
			if x != nil {
				f()
			}
			return x
		}
	}
	if chunks := r.Chunks.Fault; chunks != nil {
		r.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
			x := chunks(op)
			if x != nil && x.Err != nil {
				f()
			}
			return x
		}
	}
	if catalog := r.Catalog.Fault; catalog != nil {
		r.Catalog.Fault = func(op, tenant, device string) *storetest.Fault {
			x := catalog(op, tenant, device)
			if x != nil && x.Err != nil {
				f()
			}
			return x
		}
	}
}

// A broker that takes requests and never answers them can't keep a process from ending either.
func TestShutdownWithHangingBroker(t *testing.T) {
	r := newRig(t, 2)
	p := newProxy(t, r.broker.Addr())
	for i := range 20 {
		r.publish(i%2, r.message(fmt.Sprintf("d%d", i), past+int64(i), 1))
	}
	stop := r.run(r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
		c.Kafka = r.connect(kafka.Config{Dial: p.dial})
	}))
	r.settled()
	p.hang()
	stop()
	r.whole()
}

// proxy stands between client and broker, and hangs on command.
type proxy struct {
	addr string
	mu   sync.Mutex
	hung bool
}

func newProxy(_ *testing.T, addr string) *proxy { return &proxy{addr: addr} }

func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = true
}

func (p *proxy) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, p.addr)
	if err != nil {
		return nil, err
	}
	return &proxied{Conn: conn, proxy: p}, nil
}

type proxied struct {
	net.Conn
	proxy *proxy
}

// Write swallows what a hung broker never reads.
func (p *proxied) Write(b []byte) (int, error) {
	p.proxy.mu.Lock()
	hung := p.proxy.hung
	p.proxy.mu.Unlock()
	if hung {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

// Without a journal every partition writes what it has when the process stops, however soon another one is done.
func TestShutdownDrainsEveryPartition(t *testing.T) {
	r := newRig(t, 8)
	stop := r.run(r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
		c.Hold, c.DrainBudget, c.UseJournal = time.Hour, 5*time.Second, "off"
	}))
	for i := range 300 {
		r.publish(i%3, r.message(fmt.Sprintf("d%d", i), past+int64(i), 1))
	}
	r.read(300)
	stop()
	r.whole()
	for p := range 3 {
		require.EqualValues(t, 100, r.committed(p))
	}
}

// read waits until so many devices are in the catalog, which ingest writes as it sees them.
func (r *rig) read(devices int) {
	require.Eventually(r.t, func() bool {
		return r.Catalog.Index("acme").Len() == devices
	}, patience, time.Millisecond)
}

// The topic was made anew. One partition has found out and begun a new stream; then the process died before any other
// one was taken over, and before it committed anything. What was committed in the old log says nothing about the new
// one.
func TestOffsetOfARecreatedTopicIsIgnored(t *testing.T) {
	r := newRig(t, 2)
	stop := r.run(r.ingester(nil))
	for i := range 40 {
		r.publish(i%2, r.message("d0", past+int64(i), 1))
	}
	r.settled()
	stop()
	r.recreate(2)
	for i := range 100 {
		r.publish(i%2, r.message("d0", past+1000+int64(i), 2))
	}
	streams := stream.NewStreams(r.Docs)
	old, err := streams.Find(context.Background(), r.broker.ClusterID(), topic, 2)
	require.NoError(t, err)
	_, err = streams.Next(context.Background(), old, 2)
	require.NoError(t, err)
	r.setCommitted(20, 20) // the process's own last commits came after the topic was deleted
	r.run(r.ingester(nil))
	r.settled()
	require.Equal(t, r.want, r.Stored())
}

// The topic was made anew while nobody looked, and reaches further than before: it is read from its start.
func TestTopicRecreatedWhileStopped(t *testing.T) {
	r := newRig(t, 1)
	stop := r.run(r.ingester(nil))
	for i := range 20 {
		r.publish(0, r.message("d0", past+int64(i), 1))
	}
	r.settled()
	stop()
	r.recreate(1)
	for i := range 60 {
		r.publish(0, r.message("d0", past+1000+int64(i), 2))
	}
	r.setCommitted(20)
	r.run(r.ingester(nil))
	r.settled()
	require.Equal(t, r.want, r.Stored())
}

// The topic was made anew while its owner by ordinal stood still. The owner comes back after the next process has died,
// and commits an offset of the old log: nothing of the new one is skipped.
func TestCommitOfAnOlderStreamSkipsNothing(t *testing.T) {
	r := newRig(t, 1)
	byOrdinal := func(c *ingest.Config, _ *ingest.Stores) { c.Assign = "0/1" }
	n := 0
	publish := func(until int) {
		for ; n < until; n++ {
			r.publish(0, r.message("d0", past+int64(n), float64(n)))
		}
	}
	stop := r.run(r.ingester(byOrdinal))
	publish(20)
	r.settled()
	stop()
	r.recreate(1)
	stop = r.run(r.ingester(byOrdinal))
	publish(40)
	r.settled()
	stop()
	publish(100)
	require.NoError(t, r.cluster.Topic(topic).Commit(t.Context(), kafka.Commit{Group: "binnacle",
		Generation: kafka.NoGeneration, Offset: 60, Metadata: journal.Commit{Stream: 1}.Metadata()}))
	r.run(r.ingester(byOrdinal))
	r.settled()
	r.whole()
}

// A partition without a mark can't tell that its log is another one: it is read from its start whenever it is taken
// over.
func TestTopicRecreatedBeforeFirstMark(t *testing.T) {
	r := newRig(t, 1)
	down := errors.New("down")
	tried := make(chan struct{})
	try := sync.OnceFunc(func() { close(tried) })
	var healed atomic.Bool
	r.Docs.Fault = func(op, kind, _ string) *storetest.Fault {
		if kind != stream.KindMark || op != storetest.OpCreate || healed.Load() {
			return nil
		}
		try()
		return &storetest.Fault{Err: down}
	}
	in := r.ingester(nil)
	r.run(in)
	for i := range 20 {
		r.publish(0, r.message("d0", past+int64(i), 1))
	}
	<-tried
	r.read(1)
	clear(r.want) // the operator deletes what is not stored yet
	r.recreate(1)
	for i := range 60 {
		r.publish(0, r.message("d0", past+1000+int64(i), 2))
	}
	healed.Store(true)
	r.settled()
	stored := r.Stored()
	for s := range r.want {
		require.Contains(t, stored, s)
	}
}

// The process dies after its first chunk is stored and before anything of it is committed; then the topic is made
// anew and gets more records than the old one had. None of them is taken for one that is stored already.
func TestMarkPrecedesFirstChunk(t *testing.T) {
	r := newRig(t, 1)
	die := make(chan struct{})
	dead := errors.New("the process is dead")
	stored := sync.OnceFunc(func() { close(die) })
	var reborn atomic.Bool
	r.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
		if reborn.Load() || op.Kind != storetest.Create {
			return nil
		}
		defer stored()
		return &storetest.Fault{Applied: true, Err: dead} // it is stored, and nobody learns of it
	}
	for i := range 20 {
		r.publish(0, r.message("d0", past+int64(i), 1))
	}
	stop := r.run(r.ingester(func(c *ingest.Config, _ *ingest.Stores) { c.DrainBudget = time.Millisecond }))
	<-die
	stop()
	require.NotEmpty(t, r.Chunks.Documents())
	reborn.Store(true)

	r.recreate(1)
	for i := range 60 {
		r.publish(0, r.message("d0", past+1000+int64(i), 2))
	}
	r.run(r.ingester(nil))
	r.settled()
	require.Equal(t, r.want, r.Stored())
}

// A running process sees that the topic was made anew.
func TestTopicRecreatedWhileReading(t *testing.T) {
	r := newRig(t, 2)
	r.run(r.ingester(nil))
	for i := range 40 {
		r.publish(i%2, r.message(fmt.Sprintf("d%d", i%2), past+int64(i), 1))
	}
	r.settled()
	r.recreate(2)
	for i := range 100 {
		r.publish(i%2, r.message(fmt.Sprintf("d%d", i%2), past+20+int64(i), 2))
	}
	r.settled()
	require.Equal(t, r.want, r.Stored())
}

// What was read of a topic before it was made anew, and is not written yet, is in no log any more: it is written too.
func TestReadingsOfARecreatedTopicAreStored(t *testing.T) {
	r := newRig(t, 1)
	var later atomic.Int64
	in := r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
		c.Hold, c.MaxBehind = time.Hour, 1<<20
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	r.run(in)
	for i := range 40 {
		r.publish(0, r.message("d0", past+int64(i), 1))
	}
	reach(t, in, 40)
	require.Empty(t, r.Stored())
	r.recreate(1)
	for i := range 50 {
		r.publish(0, r.message("d0", past+30+int64(i), 2))
	}
	reach(t, in, 50)
	later.Store(int64(2 * time.Hour))
	eventually(t, "both are stored", func() bool { return maps.Equal(r.want, r.Stored()) })
}

// An ingester refuses a record. Before Kafka acknowledges the dead letter the topic is made anew, and no bin is open:
// the ingester still publishes the dead letter.
func TestDeadLettersOfARecreatedTopicArePublished(t *testing.T) {
	r := newRig(t, 1)
	letters := &heldLetters{}
	in := r.ingester(func(_ *ingest.Config, s *ingest.Stores) { s.DeadLetters = letters })
	r.run(in)
	r.publish(0, kafkago.Message{Value: []byte("of the old log"), Time: time.UnixMilli(past)})
	reach(t, in, 1)
	r.recreate(1)
	r.publish(0, r.message("d0", past, 1))
	eventually(t, "the new one is read", func() bool { return maps.Equal(r.want, r.Stored()) })
	letters.opens.Store(true)
	eventually(t, "the dead letter is published", func() bool { return letters.published.Load() == 1 })
}

// heldLetters takes no dead letters before it opens.
type heldLetters struct {
	opens     atomic.Bool
	published atomic.Int64
}

// Publish implements ingest.DeadLetterWriter.
func (h *heldLetters) Publish(_ context.Context, all []write.DeadLetter) error {
	if !h.opens.Load() {
		return errors.New("no leader")
	}
	h.published.Add(int64(len(all)))
	return nil
}

// A topic is made anew, and has no partition for this process: what was read of the old one is in no log any more, and
// is written.
func TestReadingsOfATopicWithFewerPartitionsAreStored(t *testing.T) {
	r := newRig(t, 3)
	var later atomic.Int64
	in := r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
		c.Assign, c.Hold, c.MaxBehind, c.GoneAfter = "1/2", time.Hour, 1<<20, time.Hour
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	r.run(in)
	for i := range 40 {
		r.publish(1, r.message("d0", past+int64(i), 1))
	}
	reach(t, in, 40)
	require.Empty(t, r.Stored())
	r.recreate(1)
	eventually(t, "what was read of the old one is written", func() bool { return maps.Equal(r.want, r.Stored()) })
}

// The log has lost its end, with records that are in chunks, and new records have taken their offsets.
func TestLogThatLostItsTailForksTheStream(t *testing.T) {
	r := newRig(t, 1)
	stop := r.run(r.ingester(nil))
	for i := range 20 {
		r.publish(0, r.message("d0", past+int64(i), 1))
	}
	r.settled()
	stop()
	// A chunk of records 20 to 99, which the broker has forgotten.
	dir := control.NewDirectory(control.DirectoryConfig{Documents: r.Docs})
	_, err := dir.Refresh(context.Background())
	require.NoError(t, err)
	former := ingest.NewLocal(ingest.Config{Config: worker.Config{Past: -1}}, ingest.Stores{
		Chunks: r.Chunks, Directory: dir, Catalog: r.Catalog, Streams: stream.NewStreams(r.Docs), DeadLetters: r,
	}, worker.Assignment{Stream: 1, Position: 20, LogEnd: 100})
	for i := int64(20); i < 100; i++ {
		m := r.message("d0", past+i, 1)
		require.NoError(t, former.Take(context.Background(), admit.Record{Offset: i, Time: past + i, Value: m.Value}))
	}
	require.NoError(t, former.Finish(context.Background()))

	for i := range 30 {
		r.publish(0, r.message("d0", past+1000+int64(i), 2))
	}
	r.run(r.ingester(nil))
	r.settled()
	require.Equal(t, r.want, r.Stored())
}

// Partitions that are added are read without a restart.
func TestAddedPartitionsAreRead(t *testing.T) {
	r := newRig(t, 1)
	in := r.ingester(nil)
	r.run(in)
	r.publish(0, r.message("d0", past, 1))
	r.settled()
	res, err := r.client().CreatePartitions(context.Background(),
		&kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: 3}}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[topic])
	for p := range 3 {
		r.publish(p, r.message(fmt.Sprintf("d%d", p), past+1, 2))
	}
	r.settled()
	r.whole()
	require.Eventually(t, in.CaughtUp, patience, time.Millisecond)
}

// Members come and go while records flow: all of them are stored, once.
func TestGroupRebalances(t *testing.T) {
	const seed = 17
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t, 4)
	var stops []func()
	n := int64(0)
	flow := func(records int) {
		batches := map[int][]kafkago.Message{}
		for range records {
			d := int(n % 12)
			batches[d%4] = append(batches[d%4], r.message(fmt.Sprintf("d%02d", d), past+n, float64(n)))
			n++
		}
		for p, b := range batches {
			r.publishAs(p, kafkago.Lz4, b...)
		}
	}
	for range ingesttest.Rounds(5, 3) {
		if len(stops) > 1 && rnd.IntN(2) == 0 {
			i := rnd.IntN(len(stops))
			stops[i]()
			stops = append(stops[:i], stops[i+1:]...)
		} else {
			in := r.ingester(nil)
			stops = append(stops, r.run(in))
			r.watch(in)
		}
		for range 5 {
			flow(20 + rnd.IntN(50))
		}
	}
	flow(40)
	r.settled()
	r.whole()
}

// watch asks a head all the time, as queries do, until the test ends: its snapshots are whole, whatever the
// partitions do.
func (r *rig) watch(in *ingest.Ingester) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			heads, err := in.Heads(context.Background(), store.HeadRequest{Tenant: "acme", Range: binning.All})
			if err != nil {
				r.t.Errorf("heads: %v", err)
			}
			for _, h := range heads {
				for rows := range h.Rows {
					if rows.Source.Through >= h.Position {
						r.t.Errorf("partition %d shows offset %d at position %d", h.Partition, rows.Source.Through, h.Position)
					}
				}
			}
			in.CaughtUp()
		}
	}()
	r.t.Cleanup(func() {
		close(done)
		<-over
	})
}

// More was published than fits in memory, and the store is slow: all of it is stored.
func TestMemoryBoundSlowsIngest(t *testing.T) {
	r := newRig(t, 2)
	for i := range 20 {
		var batch []kafkago.Message
		for k := range 100 {
			n := int64(i*100 + k)
			batch = append(batch, r.message(fmt.Sprintf("d%d", n%7), past+n, float64(n)))
		}
		r.publish(i%2, batch...)
	}
	r.run(r.ingester(func(c *ingest.Config, _ *ingest.Stores) {
		c.Hold, c.MemoryBytes, c.MaxWrites = time.Hour, 20<<10,
			2
	}))
	require.Eventually(t, func() bool { return len(r.Stored()) > 1500 }, patience, 10*time.Millisecond)
}

// Records larger than a fetch asks for are read, and so are batches that begin before the offset asked for.
func TestLargeRecordsAndCompressedBatches(t *testing.T) {
	r := newRig(t, 1)
	pad := strings.Repeat("x", 900_000)
	for i := range int64(3) {
		m := r.message("d0", past+i, 1)
		m.Value = fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"pad":%q,"values":{"a":1}}`, past+i, pad)
		r.publish(0, m)
	}
	var batch []kafkago.Message
	for i := range int64(50) {
		batch = append(batch, r.message("d0", past+100+i, float64(i)))
	}
	r.publishAs(0, kafkago.Zstd, batch...)
	b := r.cluster.Topic(topic)
	for _, from := range []int64{0, 1, 3, 20, 52, 53} {
		var got kafka.Batch
		require.Eventually(t, func() bool {
			var err error
			got, err = b.Fetch(context.Background(), 0, from)
			return err == nil // a busy machine may take longer than a request may
		}, patience, time.Millisecond)
		require.Equal(t, got.Next, from+int64(len(got.Records)))
		for i, r := range got.Records {
			require.Equal(t, from+int64(i), r.Offset)
		}
		require.Equal(t, from < 53, len(got.Records) > 0)
		got.Release()
	}
	r.run(r.ingester(nil))
	r.settled()
	r.whole()
}

// A record that a broker takes only just can become a dead letter all the same.
func TestOversizedDeadLettersAreTruncated(t *testing.T) {
	r := newRig(t, 1)
	u := ingest.NewTopicDeadLetterWriter(r.cluster.Topic(letter))
	const large = 1_048_450 // what the broker takes, less a record's own overhead
	letters := []write.DeadLetter{
		{Topic: topic, Record: admit.Record{Offset: 1, Headers: []admit.Header{{Key: "h",
			Value: ingesttest.Random(large, 1)}}}},
		{Topic: topic, Record: admit.Record{Offset: 2, Key: ingesttest.Random(large, 1), Value: []byte("bad")}},
		{Topic: topic, Record: admit.Record{Offset: 3, Value: ingesttest.Random(large, 1)}},
		{Topic: topic, Record: admit.Record{Offset: 4, Value: []byte("bad")}, Bare: true},
	}
	require.NoError(t, u.Publish(ingesttest.Deadline(t), letters))
	b := r.cluster.Topic(letter)
	n := 0
	for from := int64(0); n < len(letters); {
		got, err := b.Fetch(context.Background(), 0, from)
		require.NoError(t, err)
		n, from = n+len(got.Records), got.Next
		got.Release()
	}
	require.Equal(t, len(letters), n)
}
