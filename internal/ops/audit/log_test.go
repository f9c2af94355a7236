package audit_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/decode"
	"binnacle/ingest/journal"
	"binnacle/internal/erasure"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/ops/audit"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// logRig is a rig with a log: acme's l1 publishes a record of two readings and eight of one to partition 0, of the
// audited day, then one of another day, then one that is not committed. The element 1 of the first and all of the
// record 4 are dead letters; the chunks have the rest.
func logRig(t *testing.T) (*rig, func(*audit.Config)) {
	b, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0", Partitions: 4,
		Topics: []string{"telemetry", "telemetry.dlq"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	cfg := kafka.Config{Brokers: []string{b.Addr()}}
	client, err := kafka.New(cfg)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	produce := func(topic string, value string, headers ...kafka.Header) {
		_, err := client.Topic(topic).Produce(t.Context(), 0, []kafka.Message{{Value: []byte(value), Headers: headers}})
		require.NoError(t, err)
	}
	reading := func(at int64) string {
		return fmt.Sprintf(`{"tenant":"acme","device":"l1","ts":%d,"values":{"v":1}}`, at)
	}
	produce("telemetry", "["+reading(today.Start())+","+reading(today.Start()+1)+"]")
	for i := range int64(8) {
		produce("telemetry", reading(today.Start()+2+i))
	}
	produce("telemetry", reading((today - 9).Start()))
	produce("telemetry", reading(today.Start()))
	letter := func(offset, index int) {
		var headers []kafka.Header
		for name, value := range map[string]string{"reason": "limit", "topic": "telemetry", "partition": "0",
			"offset": fmt.Sprint(offset), "index": fmt.Sprint(index)} {
			headers = append(headers, kafka.Header{Key: "binnacle-" + name, Value: []byte(value)})
		}
		produce("telemetry.dlq", "", headers...)
	}
	letter(0, 1)
	letter(4, decode.Whole)

	transport := &kafkago.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	commits := &kafkago.Client{Addr: kafkago.TCP(b.Addr()), Transport: transport}
	commit := func(group string, offset int64) {
		_, err := commits.OffsetCommit(t.Context(), &kafkago.OffsetCommitRequest{GroupID: group, GenerationID: -1,
			Topics: map[string][]kafkago.OffsetCommit{"telemetry": {{Offset: offset}}}})
		require.NoError(t, err)
	}
	commit("binnacle", 10)
	commit("ahead", 99)

	cluster, _, err := client.Topic("telemetry").Describe(t.Context())
	require.NoError(t, err)
	r := newRigOf(t, 1, cluster)
	for _, s := range r.memory.Documents() {
		r.memory.Damage(s.Key, s.ID, nil)
	}
	for n, c := range [][4]int64{{0, 1, -1, 2}, {2, 3, 1, 2}, {5, 8, 3, 4}} {
		id := chunk.ID{Day: today, Stream: 1, Number: uint32(n)}
		r.create("acme", "l1", chunk.Header{ID: id, First: c[0], Through: c[1], After: c[2], Readings: int(c[3])})
	}
	return r, func(c *audit.Config) {
		c.NoKafka, c.Log, c.Group, c.Kafka = false, true, "binnacle", cfg
	}
}

// An audit of the log that looks at nothing of it says so: the group has committed nothing, or is another one.
func TestLogThatIsNotLookedAt(t *testing.T) {
	r, of := logRig(t)
	_, sum := r.audit(func(c *audit.Config) { of(c); c.Group = "nobody" })
	require.Equal(t, []int64{0, 11}, []int64{sum.Records, sum.InLog})
	require.ErrorIs(t, sum.Check(), audit.ErrLogUnread)
	var said strings.Builder
	require.NoError(t, sum.Print(&said, false))
	require.Regexp(t, `(?m)^records of the log +0 of 11, the committed ones$`, said.String())
	require.Regexp(t, `(?m)^findings +\d+ in the store; the log was not looked at$`, said.String())
	_, sum = r.audit(of)
	require.Equal(t, []int64{10, 11}, []int64{sum.Records, sum.InLog})
	require.NoError(t, sum.Check())
	_, sum = r.audit(func(c *audit.Config) { of(c); c.Log = false })
	require.NoError(t, sum.Check())
}

// Of the log each reading must be in a chunk or in the dead letters, as often as the chunk says.
func TestLogAudit(t *testing.T) {
	base, log := logRig(t)
	good := base.memory.Documents()
	require.Len(t, good, 3)
	for name, c := range map[string]struct {
		damage func(r *rig)
		group  string
		want   []audit.Kind
		first  int64
	}{
		"nothing": {func(*rig) {}, "", nil, 0},
		"the last chunk is gone": {func(r *rig) { r.memory.Damage(good[2].Key, good[2].ID, nil) }, "",
			[]audit.Kind{audit.Lost}, 5},
		"a reading too few":    {func(r *rig) { r.change(good[1], "readings", 1) }, "", []audit.Kind{audit.Count}, 2},
		"a reading too many":   {func(r *rig) { r.change(good[0], "readings", 3) }, "", []audit.Kind{audit.Count}, 0},
		"behind the log's end": {func(r *rig) { r.change(good[2], "through", 70) }, "", []audit.Kind{audit.Beyond}, 5},
		"a group behind the log's end": {func(*rig) {}, "ahead", []audit.Kind{audit.Beyond, audit.Lost},
			10},
		"a group that has committed nothing": {func(r *rig) { r.memory.Damage(good[2].Key, good[2].ID, nil) }, "new", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range good {
				base.memory.Damage(s.Key, s.ID, s.Doc)
			}
			c.damage(base)
			found, sum := base.audit(func(cfg *audit.Config) {
				log(cfg)
				if c.group != "" {
					cfg.Group = c.group
				}
			})
			var kinds []audit.Kind
			for _, f := range found {
				kinds = append(kinds, f.Kind)
				if f.Kind != audit.Beyond || c.group == "" {
					require.Equal(t, c.first, f.First, "%s", f)
					require.Equal(t, "l1", f.Device)
				}
			}
			require.Equal(t, c.want, kinds, "%v", found)
			if c.group == "" {
				require.EqualValues(t, 10, sum.Records)
			}
			require.EqualValues(t, 2, sum.DeadLetters)
		})
	}
}

// What an order of erasure covers is neither lost nor missing in its chunk; what was published later is.
func TestLogAuditOfErasedReadings(t *testing.T) {
	r, log := logRig(t)
	good := r.memory.Documents()
	r.memory.Damage(good[1].Key, good[1].ID, nil) // an ingester that knows the order stores nothing of it
	r.memory.Damage(good[2].Key, good[2].ID, nil)
	parsed, err := chunk.Parse(good[0].Doc)
	require.NoError(t, err)
	h := parsed.Header
	doc, err := chunk.EncodeErased(h, []chunk.Erased{{Order: "o", Rows: 2, Digest: "d"}})
	require.NoError(t, err)
	r.memory.Damage(good[0].Key, good[0].ID, doc)
	orders := erasure.NewOrders(r.docs, time.Now)
	o, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", Device: "l1", To: erasure.EveryDay})
	require.NoError(t, err)
	require.NoError(t, orders.Acknowledge(t.Context(), o.ID, []erasure.Position{{Stream: 1, Through: 6}}))
	found, _ := r.audit(log)
	require.Len(t, found, 1, "%v", found)
	require.Equal(t, audit.Lost, found[0].Kind)
	require.EqualValues(t, 7, found[0].First)
}

// Where a stream began after an order, timestamps decide: ingesters store nothing of what is older (rule E-R2).
func TestLogAuditOfAStreamThatBeganAfterAnOrder(t *testing.T) {
	for device, want := range map[string]int{"l1": 0, "l2": 1} {
		r, log := logRig(t)
		for _, d := range r.memory.Documents() {
			r.memory.Damage(d.Key, d.ID, nil)
		}
		orders := erasure.NewOrders(r.docs, time.Now)
		o, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", Device: device, To: erasure.EveryDay})
		require.NoError(t, err)
		require.NoError(t, orders.Acknowledge(t.Context(), o.ID, []erasure.Position{{Stream: 9, Through: 6}}))
		found, _ := r.audit(log)
		require.Len(t, found, want, "%s: %v", device, found)
	}
}

// A log that drops what is committed while the audit runs has lost nothing, though the audit has asked before how far
// the group was.
func TestLogGrowsMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		commit int64
		want   []audit.Kind
	}{"read": {11, nil}, "not read": {10, []audit.Kind{audit.Lost}}} {
		r, log := logRig(t)
		var cfg audit.Config
		log(&cfg)
		goOn := sync.OnceFunc(func() {
			commitAt(t, cfg.Kafka.Brokers[0], c.commit)
			deleteRecords(t, cfg.Kafka.Brokers[0], 11)
		})
		commitAt(t, cfg.Kafka.Brokers[0], 10)
		r.memory.Fault = func(op storetest.Op) *storetest.Fault {
			if op.Kind == storetest.Headers {
				goOn()
			}
			return nil
		}
		found, _ := r.audit(log)
		var kinds []audit.Kind
		for _, f := range found {
			kinds = append(kinds, f.Kind)
		}
		require.Equal(t, c.want, kinds, "%s: %v", name, found)
	}
}

// commitAt has the group commit an offset of the first partition.
func commitAt(t *testing.T, broker string, offset int64, metadata ...string) {
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	_, err := (&kafkago.Client{Addr: kafkago.TCP(broker), Transport: transport}).OffsetCommit(t.Context(),
		&kafkago.OffsetCommitRequest{GroupID: "binnacle", GenerationID: -1,
			Topics: map[string][]kafkago.OffsetCommit{"telemetry": {
				{Offset: offset, Metadata: strings.Join(metadata, "")}}}})
	require.NoError(t, err)
}

// Where an owner of a former stream has committed last, nothing is known of the log that is there now but that all
// below its mark is stored: what lies above is not lost (rule W9).
func TestLogAuditOfACommitInAFormerStream(t *testing.T) {
	r, log := logRig(t)
	var cfg audit.Config
	log(&cfg)
	streams := stream.NewStreams(r.docs)
	all, err := streams.All(t.Context())
	require.NoError(t, err)
	now, err := streams.Next(t.Context(), all[0], 4)
	require.NoError(t, err)
	require.NoError(t, streams.Advance(t.Context(), now.Number, 0, stream.Mark{Offset: 2}))
	for _, c := range []struct {
		of      uint32
		offset  int64
		records int64
		want    []audit.Kind
	}{
		{now.Number, 11, 11, []audit.Kind{audit.Lost}},
		{all[0].Number, 11, 2, nil},
		{all[0].Number, 99, 2, nil},
	} {
		commitAt(t, cfg.Kafka.Brokers[0], c.offset, journal.Commit{Stream: c.of}.Metadata())
		found, sum := r.audit(log)
		var kinds []audit.Kind
		for _, f := range found {
			kinds = append(kinds, f.Kind)
		}
		require.Equal(t, c.want, kinds, "%+v: %v", c, found)
		require.Equal(t, c.records, sum.Records)
	}
	deleteRecords(t, cfg.Kafka.Brokers[0], 5) // the mark is older
	found, _ := r.audit(log)
	require.Empty(t, found)
}

// deleteRecords has the broker forget the records of the first partition below an offset, as retention does.
func deleteRecords(t *testing.T, broker string, below int64) {
	conn, err := net.Dial("tcp", broker)
	require.NoError(t, err)
	defer conn.Close()
	ask := kmsg.NewPtrDeleteRecordsRequest()
	ask.Version, ask.TimeoutMillis = 1, 5000
	ask.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "telemetry",
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: below}}}}
	_, err = conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, ask, 1))
	require.NoError(t, err)
	head := make([]byte, 8) // length, correlation id
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	_, err = io.ReadFull(conn, body)
	require.NoError(t, err)
	answer := ask.ResponseKind().(*kmsg.DeleteRecordsResponse)
	require.NoError(t, answer.ReadFrom(body))
	require.Zero(t, answer.Topics[0].Partitions[0].ErrorCode)
}

// The group is set back to the first lost reading, once all days of the log were audited and nothing that is lost lies
// below a later chunk.
func TestSetBack(t *testing.T) {
	r, log := logRig(t)
	good := r.memory.Documents()
	set := func(lost int, from string) (audit.Summary, error) {
		for _, s := range good {
			r.memory.Damage(s.Key, s.ID, s.Doc)
		}
		r.memory.Damage(good[lost].Key, good[lost].ID, nil)
		cfg := config()
		log(&cfg)
		cfg.SetBack, cfg.From, cfg.To = true, from, today.String()
		return audit.Run(t.Context(), cfg, r.stores(), func(audit.Finding) error { return nil })
	}
	committed := func() int64 {
		var cfg audit.Config
		log(&cfg)
		client, err := kafka.New(cfg.Kafka)
		require.NoError(t, err)
		defer client.Close()
		at, err := client.Topic("telemetry").Commits(t.Context(), "binnacle", 0)
		require.NoError(t, err)
		return at[0].Offset
	}
	_, err := set(2, today.String())
	require.ErrorContains(t, err, "readings in the log (1) are of days that were not audited: --from")
	_, err = set(0, (today - 9).String())
	require.ErrorContains(t, err, "lost readings of telemetry/0 (2) lie below chunks that were written later")
	require.EqualValues(t, 10, committed())
	sum, err := set(2, (today - 9).String())
	require.NoError(t, err)
	require.Equal(t, []audit.SetBack{{Topic: "telemetry", Partition: 0, From: 10, To: 5}}, sum.SetBack)
	require.EqualValues(t, 5, committed())

	cfg := config()
	cfg.SetBack = true
	_, err = audit.Run(t.Context(), cfg, r.stores(), nil)
	require.ErrorContains(t, err, "--set-back needs --log")
}
