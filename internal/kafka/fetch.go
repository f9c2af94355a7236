package kafka

import (
	"context"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sizes of one fetch. The broker answers as soon as there is a byte, so the wait bounds only how long an idle partition
// takes to notice that it was revoked. A batch that is longer comes whole all the same.
const (
	fetchBytes = 1 << 20
	fetchWait  = 250 * time.Millisecond

	// maxAnswer is more than any broker's limit of a batch that makes sense.
	maxAnswer = 256 << 20
)

// Batch is what one fetch returned of a log.
type Batch struct {
	Records []Record // committed ones, in the order of their offsets
	Refused *Refusal // a stretch that can't be read; then there are no records
	Next    int64    // where to go on: the offset after all this, also where the log has offsets without a record
	First   int64    // of the first record that the log still has; negative where the broker does not tell
	End     int64    // the offset after the last record that may be read: below it every transaction has ended
	Bytes   int      // of memory that Records take, about

	release func() // gives Bytes back; nil is nothing
}

// Refusal is a stretch of a log that can't be read, and never will be: its batch is damaged though it is as it was
// sent, or takes more memory than it may.
type Refusal struct {
	First, Through int64  // offsets
	Time           int64  // greatest timestamp of its records, ms, as the batch says; negative when it does not
	Records        int    // how many there are, as the batch says; 0 when it does not
	Bytes          int    // of the batch in the log
	TooLarge       bool   // else it is damaged
	Why            string // for people
}

// Fetch reads a partition from an offset on: committed records only. It waits a moment when there are none. It fails
// with Kafka's errors, OffsetOutOfRange and UnknownTopicOrPartition among them, and where a batch is not as it was
// sent. What it returns must be given back by Release.
func (t *Topic) Fetch(ctx context.Context, partition int, offset int64) (Batch, error) {
	waiting := ctx // for room, as long as it takes
	ctx, cancel := context.WithTimeout(ctx, t.client.cfg.RequestTimeout+fetchWait)
	defer cancel()
	ask := &fetchRequest{client: t.client.cfg.ClientID, topic: t.name, partition: int32(partition), offset: offset}
	answer, err := t.client.api.Transport.RoundTrip(ctx, t.client.api.Addr, ask)
	if err != nil {
		return Batch{}, fmt.Errorf("fetch %s/%d from offset %d: %w", t.name, partition, offset,
			t.client.explain(ctx, t.name, err))
	}
	most := mostOfAnswer(t.client.unpack.max)
	give, err := t.client.room.take(waiting, most)
	if err != nil {
		return Batch{}, err
	}
	got, err := answer.(*fetchAnswer).read(t.client.unpack, offset)
	got.hold(most, give)
	if err != nil {
		return Batch{}, fmt.Errorf("fetch %s/%d from offset %d: %w", t.name, partition, offset, err)
	}
	return got, nil
}

// fetchRequest is a fetch that goes over kafka-go's connections, but is written and read here.
type fetchRequest struct {
	client    string
	topic     string
	partition int32
	offset    int64
	version   int16 // set by Required
}

// leastFetch is the version from which on brokers tell which transactions were aborted: Kafka 0.11.
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

// RawExchange implements protocol.RawExchanger. A caller that gave up leaves it behind, so what it reads into is its own.
func (f *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if f.version < leastFetch {
		return nil, fmt.Errorf("the broker fetches by version %d, %d is needed", f.version, leastFetch)
	}
	body, err := exchange(rw, f.client, f.request())
	if err != nil {
		return nil, err
	}
	return &fetchAnswer{body: body, version: f.version}, nil
}

func (f *fetchRequest) request() *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.partition, f.offset, fetchBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = f.topic, []kmsg.FetchRequestTopicPartition{p}
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MinBytes, r.MaxBytes, r.MaxWaitMillis = f.version, 1, fetchBytes, int32(fetchWait.Milliseconds())
	r.IsolationLevel = 1 // read committed
	r.Topics = []kmsg.FetchRequestTopic{t}
	return r
}

// fetchAnswer is the body of an answer. It is taken apart by who asked, not by the connection's goroutine.
type fetchAnswer struct {
	body    []byte
	version int16
}

// ApiKey implements protocol.Message.
func (*fetchAnswer) ApiKey() protocol.ApiKey { return protocol.Fetch }

func (f *fetchAnswer) read(u *unpacker, offset int64) (Batch, error) {
	var res kmsg.FetchResponse
	res.SetVersion(f.version)
	if err := res.ReadFrom(f.body); err != nil {
		return Batch{}, err
	}
	if res.ErrorCode != 0 {
		return Batch{}, kafkago.Error(res.ErrorCode)
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return Batch{}, fmt.Errorf("an answer about %d topics: %w", len(res.Topics), io.ErrUnexpectedEOF)
	}
	p := &res.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return Batch{}, kafkago.Error(p.ErrorCode)
	}
	got, err := readLog(u, p.RecordBatches, p.AbortedTransactions, offset)
	got.First, got.End = p.LogStartOffset, p.LastStableOffset
	if got.End < 0 { // what brokers without transactions tell
		got.End = p.HighWatermark
	}
	return got, err
}

// Each calls f with the records of a partition from an offset to before another, and step, where there is one, with how
// far it has come since the last call. A record that f keeps holds its whole batch in memory. What can't be read is
// passed over.
func (t *Topic) Each(ctx context.Context, partition int, from, to int64, f func(*Record) error,
	step func(offsets int64)) error {
	for from < to {
		batch, err := t.Fetch(ctx, partition, from)
		if err != nil {
			return err
		}
		for i := range batch.Records {
			if batch.Records[i].Offset >= to {
				break
			}
			if err := f(&batch.Records[i]); err != nil {
				batch.Release()
				return err
			}
		}
		if step != nil {
			step(min(batch.Next, to) - from)
		}
		from = batch.Next
		batch.Release()
	}
	return nil
}
