package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"binnacle/internal/wire/bytesread"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"golang.org/x/sync/semaphore"
)

// Sizes of one fetch. The broker answers as soon as there is a byte, so the wait only bounds the time after which an
// idle partition notices that it was revoked. A longer batch comes as a whole. A megabyte takes 5 % more CPU a value.
const (
	fetchBytes = 256 << 10
	fetchWait  = 250 * time.Millisecond

	// maxAnswer is more than any sensible limit of a batch.
	maxAnswer = 256 << 20
)

// Batch is the result of one fetch.
type Batch struct {
	Records []Record // committed ones, in the order of their offsets
	Refused *Refusal // offsets that can't be read; then there are no records
	Next    int64    // the offset to fetch next, also where offsets have no record
	First   int64    // the first offset in the log; negative where the broker does not report it
	End     int64    // the last stable offset: below it every transaction has ended
	Bytes   int      // memory of Records, approximately

	release func()  // gives Bytes back; nil: nothing to give back
	memory  *memory // has the records, and those before them
}

// Refusal is a range of a log that can never be read: its batch was damaged before it was sent, or exceeds the bound
// of memory.
type Refusal struct {
	First, Through int64  // offsets
	Time           int64  // greatest timestamp of its records, ms, by the batch; negative: unknown
	Bytes          int    // size of the batch in the log
	TooLarge       bool   // false: it is damaged
	Why            string // for people
}

// Fetch reads committed records of a partition from an offset on. It waits a moment when there are none. It fails with
// Kafka's errors, such as OffsetOutOfRange and UnknownTopicOrPartition, where a batch was damaged on its way, and at a
// message from before Kafka 0.11. The caller must call Release on the result.
func (t *Topic) Fetch(ctx context.Context, partition int, offset int64) (Batch, error) {
	waiting := ctx // for memory, without a timeout
	ctx, cancel := context.WithTimeout(ctx, t.client.cfg.RequestTimeout+fetchWait)
	defer cancel()
	ask := &fetchRequest{t.client.cfg.ClientID, t.name, int32(partition), offset, &t.client.unpack.used, 0}
	answer, err := t.client.api.Transport.RoundTrip(ctx, t.client.api.Addr, ask)
	if err != nil {
		return Batch{}, fmt.Errorf("fetch %s/%d from offset %d: %w", t.name, partition, offset,
			t.client.explain(ctx, t.name, err))
	}
	most := maxAnswerBytes(t.client.unpack.max)
	if err := t.client.budget.Acquire(waiting, int64(most)); err != nil {
		return Batch{}, err
	}
	m := answer.(*memory)
	got, err := m.read(offset)
	if m.made = got.Records[:0]; len(got.Records) > 0 {
		got.memory, got.Bytes = m, max(got.Bytes, m.bytes())
	} else {
		got.Records = nil
		m.giveBack()
	}
	got.keep(most, t.client.budget)
	if err != nil {
		return Batch{}, fmt.Errorf("fetch %s/%d from offset %d: %w", t.name, partition, offset, err)
	}
	return got, nil
}

// fetchRequest is a fetch over kafka-go's connections with an answer that is decoded here.
type fetchRequest struct {
	client    string
	topic     string
	partition int32
	offset    int64
	used      *sync.Pool // memory for the answer
	version   int16      // set by Required
}

// leastFetch is the first version with the aborted transactions: Kafka 0.11.
const leastFetch = 4

// ApiKey implements protocol.Message.
func (*fetchRequest) ApiKey() protocol.ApiKey { return protocol.Fetch }

// Broker implements protocol.BrokerMessage: the partition's leader.
func (f *fetchRequest) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	p, ok := cluster.Topics[f.topic].Partitions[f.partition]
	if !ok {
		return protocol.Broker{ID: -1}, kafkago.UnknownTopicOrPartition
	}
	b, ok := cluster.Brokers[p.Leader]
	if !ok {
		return protocol.Broker{ID: -1}, kafkago.LeaderNotAvailable
	}
	return b, nil
}

// Required implements protocol.RawExchanger.
func (f *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	f.version = versions[protocol.Fetch]
	return true
}

// RawExchange implements protocol.RawExchanger. It may still run after its caller has given up, so it
// shares no memory with it.
func (f *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if f.version < leastFetch {
		return nil, fmt.Errorf("the broker supports version %d of fetch, %d is needed", f.version, leastFetch)
	}
	const correlation = 1 // a connection carries one request at a time
	if err := protocol.WriteRequest(rw, f.version, correlation, f.client, f.request()); err != nil {
		return nil, err
	}
	var head [8]byte // length, correlation id
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:4])
	if length < 4 || length > maxAnswer || binary.BigEndian.Uint32(head[4:]) != correlation {
		return nil, fmt.Errorf("an answer of %d bytes: %w", length, io.ErrUnexpectedEOF)
	}
	m := f.used.Get().(*memory)
	m.version = f.version
	m.body = slices.Grow(m.body[:0], int(length-4))[:length-4]
	if _, err := io.ReadFull(rw, m.body); err != nil {
		return nil, err
	}
	return m, nil
}

func (f *fetchRequest) request() *fetch.Request {
	const readCommitted, none = 1, -1
	return &fetch.Request{
		ReplicaID: none, MaxWaitTime: int32(fetchWait.Milliseconds()), MinBytes: 1, MaxBytes: fetchBytes,
		IsolationLevel: readCommitted, SessionEpoch: none,
		Topics: []fetch.RequestTopic{{Topic: f.topic, Partitions: []fetch.RequestPartition{{
			Partition: f.partition, CurrentLeaderEpoch: none, FetchOffset: f.offset, LogStartOffset: none,
			PartitionMaxBytes: fetchBytes,
		}}}},
	}
}

// ApiKey implements protocol.Message.
func (*memory) ApiKey() protocol.ApiKey { return protocol.Fetch }

// read decodes the answer about one partition, and the records in it from an offset on.
func (m *memory) read(offset int64) (Batch, error) {
	in := answerReader{bytesread.Reader{Rest: m.body}}
	in.int32() // throttle time
	if m.version >= 7 {
		if code := in.int16(); code != 0 {
			return Batch{}, kafkago.Error(code)
		}
		in.int32() // session
	}
	topics := in.int32()
	in.Take(int(in.int16())) // the topic's name
	partitions := in.int32()
	in.int32() // the partition
	code, high, stable, first := in.int16(), in.int64(), in.int64(), int64(-1)
	if m.version >= 5 {
		first = in.int64()
	}
	var aborted []transaction
	for n := in.int32(); n > 0 && in.Err == nil; n-- {
		aborted = append(aborted, transaction{producer: in.int64(), first: in.int64()})
	}
	if m.version >= 11 {
		in.int32() // the replica to read from
	}
	set := in.Take(int(max(0, in.int32())))
	switch {
	case in.Err != nil || topics != 1 || partitions != 1:
		return Batch{}, fmt.Errorf("an answer about %d topics: %w", topics, io.ErrUnexpectedEOF)
	case code != 0:
		return Batch{}, kafkago.Error(code)
	}
	got, err := newLogReader(m, offset, aborted).read(set)
	if got.First, got.End = first, stable; stable < 0 { // brokers without transactions
		got.End = high
	}
	return got, err
}

// answerReader reads the numbers of an answer.
type answerReader struct{ bytesread.Reader }

func (r *answerReader) int16() int16 { return int16(r.number(2)) }
func (r *answerReader) int32() int32 { return int32(r.number(4)) }
func (r *answerReader) int64() int64 { return int64(r.number(8)) }

// number reads n bytes, the highest first.
func (r *answerReader) number(n int) (out uint64) {
	for _, b := range r.Take(n) {
		out = out<<8 | uint64(b)
	}
	return out
}

// Span is a range of offsets of one partition.
type Span struct {
	Partition int
	From, To  int64 // To is exclusive
}

// Each calls f with the records of a span, and step, if not nil, with the number of offsets passed since the last
// call. A record that f keeps holds its whole batch in memory. Each skips what can't be read. It fails where the log
// ends before the span does: what was there was lost.
func (t *Topic) Each(ctx context.Context, in Span, f func(*Record) error, step func(offsets int64)) error {
	for from := in.From; from < in.To; {
		batch, err := t.Fetch(ctx, in.Partition, from)
		if err != nil {
			return err
		}
		for i := range batch.Records {
			if batch.Records[i].Offset >= in.To {
				break
			}
			if err := f(&batch.Records[i]); err != nil {
				batch.Release()
				return err
			}
		}
		if step != nil {
			step(min(batch.Next, in.To) - from)
		}
		batch.Release()
		if batch.Next == from && batch.End <= from {
			return fmt.Errorf("%s/%d ends at offset %d, and not at %d any more", t.name, in.Partition, batch.End, in.To)
		}
		from = batch.Next
	}
	return nil
}

// maxAnswerBytes returns the most memory of one answer: all its batches but the last, and the last.
func maxAnswerBytes(batch int) int { return maxAnswerBeforeLast + batch }

// Release returns the memory of the records to the budget for further fetches. The caller must call it after the last
// use of the records; a second call does nothing. A Batch with an error needs no call.
func (b *Batch) Release() {
	if b.release != nil {
		b.release()
	}
}

// Reuse does what Release does, and lets further fetches have the memory of the records: nobody may hold a part of them
// any more. A second call does nothing.
func (b *Batch) Reuse() {
	b.Release()
	if m := b.memory; m != nil {
		clear(m.made[:cap(m.made)]) // what is not overwritten soon would keep other memory
		m.giveBack()
	}
	*b = Batch{}
}

// keep keeps the memory that the batch takes, of what was acquired for its answer.
func (b *Batch) keep(taken int, budget *semaphore.Weighted) {
	held := min(b.Bytes, taken)
	budget.Release(int64(taken - held))
	if held > 0 {
		b.release = sync.OnceFunc(func() { budget.Release(int64(held)) })
	}
}
