package kafka

import (
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a log. Its bytes are parts of what was fetched: who keeps one keeps its whole batch in
// memory.
type Record struct {
	Offset  int64
	Time    int64 // Kafka timestamp, milliseconds since 1970; negative when the record has none
	Epoch   int32 // of the leader that appended it; negative when the record does not tell
	Key     []byte
	Value   []byte
	Headers []Header
}

// Message is a record to be produced. A key or value of nil is none, which is not the same as an empty one.
type Message struct {
	Time    time.Time // the broker's or the client's clock when zero
	Key     []byte
	Value   []byte
	Headers []Header
}

// What a record takes in a batch beside its bytes, at most: lengths, deltas and counts as varints.
const (
	recordOverhead = 32
	headerOverhead = 10
)

// Bytes is what the message takes of a request before compression, at most.
func (m *Message) Bytes() int {
	n := recordOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += headerOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

// record is the message as kafka-go takes it. Its readers are spent by one attempt.
func (m *Message) record() kafkago.Record {
	r := kafkago.Record{Time: m.Time, Key: kafkago.NewBytes(m.Key), Value: kafkago.NewBytes(m.Value)}
	if len(m.Headers) > 0 {
		r.Headers = make([]kafkago.Header, len(m.Headers))
		for i, h := range m.Headers {
			r.Headers[i] = kafkago.Header{Key: h.Key, Value: h.Value}
		}
	}
	return r
}

// PartitionOf is where a key belongs among the partitions of a topic, by murmur2 as Java's producer and librdkafka's
// murmur2 partitioner place it: records of one key are in one partition whoever sends them. Partitions are as Topic
// gives them.
func PartitionOf(key []byte, partitions []int) int {
	return kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: key}, partitions...)
}
