package replay

import (
	"time"

	"binnacle/internal/control"
	"binnacle/internal/kafka"
)

// The bounds of a batch, before compression. Kafka's default is to refuse one of more than 1,048,588
// bytes after it, Event Hubs one of 1,046,528.
const (
	maxBatchBytes   = 1 << 19
	maxBatchRecords = 10_000
	maxMessage      = 1_000_000
)

// batch is what goes to one Kafka partition in one request.
type batch struct {
	bytes []byte
	ends  []ends
}

// ends are where a record's key and value end in the bytes of a batch. A record without a key has an
// empty one.
type ends struct {
	key, value int
	grant      string // the backfill that it belongs to, empty for none
}

func (b *batch) add(m message) {
	b.bytes = append(b.bytes, m.key...)
	k := len(b.bytes)
	b.bytes = append(b.bytes, m.value...)
	b.ends = append(b.ends, ends{k, len(b.bytes), m.grant})
}

// fits reports whether a record may be added.
func (b *batch) fits(size int) bool {
	return len(b.ends) == 0 || len(b.ends) < maxBatchRecords && len(b.bytes)+size <= maxBatchBytes
}

var headers = []kafka.Header{{Key: "content-type", Value: []byte("application/json")}}

// messages returns the batch's records, which share its bytes.
func (b *batch) messages(at time.Time) []kafka.Message {
	out := make([]kafka.Message, len(b.ends))
	begin := 0
	for i, e := range b.ends {
		out[i] = kafka.Message{Time: at, Value: b.bytes[e.key:e.value], Headers: headers}
		if e.grant != "" {
			out[i].Headers = append(headers[:len(headers):len(headers)],
				kafka.Header{Key: control.BackfillHeader, Value: []byte(e.grant)})
		}
		if e.key > begin {
			out[i].Key = b.bytes[begin:e.key]
		}
		begin = e.value
	}
	return out
}
