package loadtest

import "context"

// What Kafka stores beside the value of a record, in bytes: in a batch each record has lengths, attributes, its
// distance in time and offset, no key and no header; the batch has its own head.
const (
	recordBytes = 10
	batchBytes  = 61
)

// journal is the journal's partition: it counts what Kafka would keep.
type journal struct {
	next  int64
	bytes int // since the window opened
}

// Append implements ingest.Journal.
func (j *journal) Append(ctx context.Context, _ string, _ int32, values [][]byte) (base int64, err error) {
	base = j.next
	j.next += int64(len(values))
	j.bytes += batchBytes
	for _, v := range values {
		j.bytes += recordBytes + len(v)
	}
	return base, ctx.Err()
}
