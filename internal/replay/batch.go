package replay

import (
	"io"
	"time"

	"binnacle/internal/control"

	"github.com/segmentio/kafka-go"
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

// fits tells whether a record may be added.
func (b *batch) fits(size int) bool {
	return len(b.ends) == 0 || len(b.ends) < maxBatchRecords && len(b.bytes)+size <= maxBatchBytes
}

// records reads the batch from its start, for one attempt to produce it.
func (b *batch) records(at time.Time) kafka.RecordReader {
	return &records{rest: b.ends, bytes: b.bytes, at: at}
}

type records struct {
	bytes []byte
	rest  []ends
	begin int
	at    time.Time
	now   kafka.Record
}

var headers = []kafka.Header{{Key: "content-type", Value: []byte("application/json")}}

// ReadRecord gives a record that is valid until the next call.
func (r *records) ReadRecord() (*kafka.Record, error) {
	if len(r.rest) == 0 {
		return nil, io.EOF
	}
	e := r.rest[0]
	r.now = kafka.Record{Time: r.at, Value: kafka.NewBytes(r.bytes[e.key:e.value]), Headers: headers}
	if e.grant != "" {
		r.now.Headers = append(headers[:len(headers):len(headers)], kafka.Header{Key: control.BackfillHeader, Value: []byte(e.grant)})
	}
	if e.key > r.begin {
		r.now.Key = kafka.NewBytes(r.bytes[r.begin:e.key])
	}
	r.begin, r.rest = e.value, r.rest[1:]
	return &r.now, nil
}
