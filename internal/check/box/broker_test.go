package box_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/ingest/journal"
	"binnacle/internal/kafka"
	"binnacle/internal/store/storetest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/stretchr/testify/require"
)

// Topics of the box.
const (
	topic   = "telemetry"
	letters = "telemetry.dlq"
)

// partitionLog is one partition of a topic.
type partitionLog struct {
	records []logged
	first   int64 // offset of the first record that is left
	lags    bool  // the leader lacks, for one fetch, what its readers have read
}

func (l *partitionLog) end() int64 { return l.first + int64(len(l.records)) }

// logged is a record of a log.
type logged struct {
	time       int64
	key, value []byte
	headers    []kafkago.Header
	batch      []byte          // as a fetch returns it
	block      *journal.Record // what a record of the journal says, once it was looked at
}

// broker is a log in memory. The scheduler and calls that it lets go on use it, one after another.
type broker struct {
	cluster string // id
	topics  map[string][]*partitionLog
	commits map[string]kafka.Committed // by topic and partition
	late    map[string]bool            // the commit is of a process that is dead
	group   *group
}

func newBroker(cluster string, partitions int) *broker {
	k := &broker{cluster: cluster, topics: map[string][]*partitionLog{}, commits: map[string]kafka.Committed{},
		late:  map[string]bool{},
		group: &group{members: map[string]*groupMember{}}}
	for _, name := range []string{topic, kafka.JournalOf(topic)} {
		for range partitions {
			k.topics[name] = append(k.topics[name], &partitionLog{})
		}
	}
	k.topics[letters] = []*partitionLog{{}}
	return k
}

func (k *broker) partition(name string, p int32) *partitionLog {
	if all := k.topics[name]; int(p) < len(all) {
		return all[p]
	}
	return nil
}

// append appends a record, and returns its offset.
func (l *partitionLog) append(r logged) int64 {
	at := l.end()
	set := protocol.RecordSet{Version: 2, Records: protocol.NewRecordReader(protocol.Record{
		Offset: at, Time: time.UnixMilli(r.time), Key: bytesOf(r.key), Value: bytesOf(r.value), Headers: r.headers})}
	var out bytes.Buffer
	if _, err := set.WriteTo(&out); err != nil {
		panic(err)
	}
	r.batch = out.Bytes()[4:]                           // behind the length of all batches
	binary.BigEndian.PutUint64(r.batch, uint64(at))     // the first offset
	binary.BigEndian.PutUint32(r.batch[12:], uint32(1)) // the leader's epoch
	l.records = append(l.records, r)
	return at
}

func bytesOf(b []byte) protocol.Bytes {
	if b == nil {
		return nil
	}
	return protocol.NewBytes(b)
}

// carrier is the connection of an actor to the log: kafkago.RoundTripper.
type carrier struct{ a *actor }

var errNotSupported = errors.New("the log of the box has no such request")

// RoundTrip implements kafkago.RoundTripper.
func (x carrier) RoundTrip(ctx context.Context, _ net.Addr, req kafkago.Request) (kafkago.Response, error) {
	switch r := req.(type) {
	case *metadata.Request:
		return x.a.b.log.describe(r), ctx.Err()
	case *listoffsets.Request:
		return x.listOffsets(ctx, r)
	case *offsetfetch.Request:
		return x.commits(ctx, r)
	case *offsetcommit.Request:
		return x.commit(ctx, r)
	case *produce.Request:
		return x.produce(ctx, r)
	case protocol.RawExchanger:
		if !r.Required(map[protocol.ApiKey]int16{protocol.Fetch: 5, protocol.Metadata: 8}) {
			return nil, errNotSupported
		}
		return r.RawExchange(&exchange{ctx: ctx, of: x})
	}
	return nil, fmt.Errorf("%w: %T", errNotSupported, req)
}

// exchange is a request in bytes, and its answer.
type exchange struct {
	ctx     context.Context
	of      carrier
	request bytes.Buffer
	answer  *bytes.Reader
}

// Write implements io.Writer.
func (e *exchange) Write(p []byte) (int, error) { return e.request.Write(p) }

// Read implements io.Reader: the first call sends the request.
func (e *exchange) Read(p []byte) (int, error) {
	if e.answer == nil {
		version, correlation, _, msg, err := protocol.ReadRequest(&e.request)
		if err != nil {
			return 0, err
		}
		var out bytes.Buffer
		switch r := msg.(type) {
		case *metadata.Request:
			err = protocol.WriteResponse(&out, version, correlation, e.of.a.b.log.describe(r))
		case *fetch.Request:
			err = e.of.fetch(e.ctx, r, correlation, &out)
		case *offsetfetch.Request:
			var res kafkago.Response
			if res, err = e.of.commits(e.ctx, r); err == nil {
				err = protocol.WriteResponse(&out, version, correlation, res)
			}
		default:
			var res protocol.Message
			if res, err = e.of.answerGroup(e.ctx, r); err == nil {
				err = protocol.WriteResponse(&out, version, correlation, res)
			}
		}
		if err != nil {
			return 0, err
		}
		e.answer = bytes.NewReader(out.Bytes())
	}
	return e.answer.Read(p)
}

// describe answers about topics. It is no event: clients know the layout for a while.
func (k *broker) describe(r *metadata.Request) *metadata.Response {
	res := &metadata.Response{ClusterID: k.cluster, ControllerID: 1,
		Brokers: []metadata.ResponseBroker{{NodeID: 1, Host: "box", Port: 9092}}}
	names := r.TopicNames
	if names == nil {
		names = []string{topic, letters, kafka.JournalOf(topic)}
	}
	for _, name := range names {
		t := metadata.ResponseTopic{Name: name}
		if k.topics[name] == nil {
			t.ErrorCode = int16(kafkago.UnknownTopicOrPartition)
		}
		for p := range k.topics[name] {
			t.Partitions = append(t.Partitions, metadata.ResponsePartition{PartitionIndex: int32(p), LeaderID: 1,
				LeaderEpoch: 1, ReplicaNodes: []int32{1}, IsrNodes: []int32{1}})
		}
		res.Topics = append(res.Topics, t)
	}
	return res
}

func (x carrier) listOffsets(ctx context.Context, r *listoffsets.Request) (kafkago.Response, error) {
	res := &listoffsets.Response{}
	slices.SortFunc(r.Topics, func(a, b listoffsets.RequestTopic) int { return strings.Compare(a.Topic, b.Topic) })
	what := ""
	for _, t := range r.Topics {
		what += fmt.Sprintf("%s%v ", t.Topic, len(t.Partitions))
	}
	err := x.a.ask(ctx, &call{kind: "bounds", toLog: true, what: what, apply: func(view) {
		if x.a.around != nil && !x.a.b.calm() {
			x.a.around()
			defer x.a.around()
		}
		for _, t := range r.Topics {
			out := listoffsets.ResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				at := listoffsets.ResponsePartition{Partition: p.Partition, Timestamp: p.Timestamp}
				switch l := x.a.b.log.partition(t.Topic, p.Partition); {
				case l == nil:
					at.ErrorCode = int16(kafkago.UnknownTopicOrPartition)
				case p.Timestamp == kafkago.LastOffset:
					at.Offset = l.end()
				default:
					at.Offset = l.first
				}
				out.Partitions = append(out.Partitions, at)
			}
			res.Topics = append(res.Topics, out)
		}
	}})
	return res, err
}

func commitKey(name string, p int32) string { return fmt.Sprintf("%s/%d", name, p) }

func (x carrier) commits(ctx context.Context, r *offsetfetch.Request) (kafkago.Response, error) {
	res := &offsetfetch.Response{}
	what := ""
	for _, t := range r.Topics {
		what += fmt.Sprintf("%s%v", t.Name, t.PartitionIndexes)
	}
	err := x.a.ask(ctx, &call{kind: "commits", toLog: true, what: what, apply: func(view) {
		// Replicas lack until the end of their lag what the former owner has just stored.
		if b := x.a.b; time.Since(b.chunked) < maxLag {
			b.rush = b.chunked.Add(maxLag)
		}
		for _, t := range r.Topics {
			out := offsetfetch.ResponseTopic{Name: t.Name}
			for _, p := range t.PartitionIndexes {
				c, ok := x.a.b.log.commits[commitKey(t.Name, p)]
				if !ok {
					c.Offset = -1
				}
				out.Partitions = append(out.Partitions, offsetfetch.ResponsePartition{PartitionIndex: p,
					CommittedOffset: c.Offset, Metadata: c.Metadata})
			}
			res.Topics = append(res.Topics, out)
		}
	}})
	return res, err
}

func (x carrier) commit(ctx context.Context, r *offsetcommit.Request) (kafkago.Response, error) {
	t := r.Topics[0]
	p := t.Partitions[0]
	what := fmt.Sprintf("%s/%d at %d", t.Name, p.PartitionIndex, p.CommittedOffset)
	var why kafkago.Error
	err := x.a.ask(ctx, &call{kind: "commit", toLog: true, what: what, isWrite: true, apply: func(view) {
		key, k := commitKey(t.Name, p.PartitionIndex), x.a.b.log
		if why = k.group.refusesCommit(r.MemberID, r.GenerationID); why != 0 {
			return
		}
		if p.CommittedOffset > k.commits[key].Offset {
			x.a.b.committed = x.a
		}
		k.commits[key] = kafka.Committed{Offset: p.CommittedOffset, Metadata: p.CommittedMetadata}
		k.late[key] = x.a.dead()
		if o := x.a.b.oracle; o != nil {
			o.committed(x.a, p.PartitionIndex, k.commits[key])
		}
	}})
	return &offsetcommit.Response{Topics: []offsetcommit.ResponseTopic{{Name: t.Name,
		Partitions: []offsetcommit.ResponsePartition{{PartitionIndex: p.PartitionIndex, ErrorCode: int16(why)}}}}}, err
}

func (x carrier) produce(ctx context.Context, r *produce.Request) (kafkago.Response, error) {
	t := r.Topics[0]
	p := t.Partitions[0]
	var all []logged
	var values [][]byte
	for {
		rec, err := p.RecordSet.Records.ReadRecord()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		l := logged{time: rec.Time.UnixMilli(), headers: slices.Clone(rec.Headers)}
		if l.key, err = protocol.ReadAll(rec.Key); err != nil {
			return nil, err
		}
		if l.value, err = protocol.ReadAll(rec.Value); err != nil {
			return nil, err
		}
		all, values = append(all, l), append(values, l.value)
	}
	res := produce.ResponsePartition{Partition: p.Partition}
	if t.Topic == letters {
		x.a.b.oracle.refusing(x.a, all)
	}
	err := x.a.ask(ctx, &call{kind: "produce", toLog: true,
		what: fmt.Sprintf("%s/%d %d records %s", t.Topic, p.Partition, len(all),
			digest(values...)),
		isLetter: t.Topic == letters, isWrite: true, apply: func(view) {
			l := x.a.b.log.partition(t.Topic, p.Partition)
			if l == nil {
				res.ErrorCode = int16(kafkago.UnknownTopicOrPartition)
				return
			}
			res.BaseOffset = l.end()
			for _, rec := range all {
				if rec.time <= 0 {
					rec.time = time.Now().UnixMilli()
				}
				at := l.append(rec)
				if o := x.a.b.oracle; o != nil && t.Topic == kafka.JournalOf(topic) {
					o.appended(p.Partition, at, rec.value)
				}
				if t.Topic == letters {
					x.a.b.oracle.letter(x.a, &rec)
				}
			}
		}})
	return &produce.Response{Topics: []produce.ResponseTopic{{Topic: t.Topic,
		Partitions: []produce.ResponsePartition{res}}}}, err
}

// fetch answers with some of the records from an offset on, at least one if there is one.
func (x carrier) fetch(ctx context.Context, r *fetch.Request, correlation int32, out *bytes.Buffer) error {
	t := r.Topics[0]
	p := t.Partitions[0]
	code, end, set := kafkago.Error(0), int64(0), []byte(nil)
	l := x.a.b.log.partition(t.Topic, p.Partition)
	err := x.a.ask(ctx, &call{kind: "fetch", toLog: true,
		what:    fmt.Sprintf("%s/%d from %d", t.Topic, p.Partition, p.FetchOffset),
		isReady: func() bool { return l == nil || p.FetchOffset != l.end() || l.lags },
		apply: func(v view) {
			if l == nil {
				code = kafkago.UnknownTopicOrPartition
				return
			}
			end = l.end()
			if t.Topic == topic {
				x.a.b.nudge()
			}
			if p.FetchOffset < l.first || p.FetchOffset > end || l.lags && p.FetchOffset == end {
				l.lags = false
				code = kafkago.OffsetOutOfRange
				return
			}
			for _, rec := range l.records[p.FetchOffset-l.first : min(end, p.FetchOffset+int64(max(1, v.few)))-l.first] {
				set = append(set, rec.batch...)
			}
		}})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && l != nil && p.FetchOffset == l.end() {
		err, end = nil, l.end() // a broker that has nothing answers so
	}
	if err != nil {
		return err
	}
	body := binary.BigEndian.AppendUint32(nil, uint32(correlation))
	body = binary.BigEndian.AppendUint32(body, 0) // throttled
	body = binary.BigEndian.AppendUint32(body, 1)
	body = binary.BigEndian.AppendUint16(body, uint16(len(t.Topic)))
	body = append(body, t.Topic...)
	body = binary.BigEndian.AppendUint32(body, 1)
	body = binary.BigEndian.AppendUint32(body, uint32(p.Partition))
	body = binary.BigEndian.AppendUint16(body, uint16(code))
	body = binary.BigEndian.AppendUint64(body, uint64(end))
	body = binary.BigEndian.AppendUint64(body, uint64(end))
	body = binary.BigEndian.AppendUint64(body, 0) // the first offset
	body = binary.BigEndian.AppendUint32(body, 0) // no aborted transaction
	body = binary.BigEndian.AppendUint32(body, uint32(len(set)))
	body = append(body, set...)
	_ = binary.Write(out, binary.BigEndian, uint32(len(body)))
	_, _ = out.Write(body)
	return nil
}

// alone returns a world without a scheduler.
func alone() *world { return &world{rnd: rand.New(rand.NewPCG(1, 1)), settling: true} }

// The log keeps the contract of store.Log, by the suite that brokers keep.
func TestLogOfTheBox(t *testing.T) {
	storetest.RunLog(t, func(t *testing.T) storetest.LogFixture {
		b := &box{world: alone(), log: newBroker("box", 3)}
		source := b.newActor("reader").cluster().Topic(topic)
		return storetest.LogFixture{Log: source, Topic: topic, Partitions: 3, Append: func(partition, records int) {
			_, err := source.Produce(t.Context(), partition, make([]kafka.Message, records))
			require.NoError(t, err)
		}}
	})
}
