package kafka

import (
	"time"
	"unsafe"

	kafkago "github.com/segmentio/kafka-go"
)

// Header is a header of a record, the same type as in package decode.
type Header = struct {
	Key   string
	Value []byte
}

// Record is a record of a log. Its bytes are part of the fetched batch: a kept record keeps its whole batch in memory.
type Record struct {
	Offset  int64
	Time    int64 // Kafka timestamp, milliseconds since 1970; negative when the record has none
	Epoch   int32 // epoch of the leader that appended it; negative: unknown
	Key     []byte
	Value   []byte
	Headers []Header
}

// Memory that a record and a header take in addition to their bytes.
const (
	recordBytes = int(unsafe.Sizeof(Record{}))
	headerBytes = int(unsafe.Sizeof(Header{}))
)

// Message is a record to produce. A nil key or value is absent, which differs from an empty one.
type Message struct {
	Time    time.Time // zero: now, by the broker's or the client's clock
	Key     []byte
	Value   []byte
	Headers []Header
}

// Upper bounds of the lengths, deltas and counts that a batch adds to a record and a header, as varints.
const (
	recordOverhead = 32
	headerOverhead = 10
)

// Bytes returns at most how many bytes of a request the message takes before compression.
func (m *Message) Bytes() int {
	n := recordOverhead + len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += headerOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

// record returns the message for kafka-go. It serves one attempt: its readers are consumed.
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

// PartitionOf returns the partition of a key, by murmur2 as in Java's producer and librdkafka's murmur2 partitioner:
// records of one key are in one partition, from any sender. Partitions are as Topic.Partitions returns them.
func PartitionOf(key []byte, partitions []int) int {
	return kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: key}, partitions...)
}
