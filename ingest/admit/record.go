package admit

import (
	"bytes"
	"hash/crc32"
	"slices"

	"binnacle/ingest/decode"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
)

// Record is one record of a Kafka partition.
type Record struct {
	Offset int64
	// Time is Kafka's timestamp, milliseconds since 1970; negative when the record has none.
	Time    int64
	Key     []byte
	Value   []byte
	Headers []Header
}

// Header is one header of a record.
type Header = decode.Header

// Unreadable is a part of the log that can't be read: a batch that is damaged, or too large.
type Unreadable struct {
	// First and Through are the first and the last offset.
	First, Through int64
	// Time is the greatest Kafka timestamp in it, as far as that is known; else negative.
	Time int64
	// Bytes is how much of the log it takes.
	Bytes int
	Bad   decode.Bad
}

// ContentType is the header with the format of a record's value.
const ContentType = "content-type"

// Clone returns a copy that shares no bytes with what was fetched.
func (r *Record) Clone() Record {
	out := *r
	out.Key, out.Value, out.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	for i := range out.Headers {
		out.Headers[i].Value = bytes.Clone(out.Headers[i].Value)
	}
	return out
}

// Bytes returns about how much memory the record takes.
func (r *Record) Bytes() int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// Mark returns a mark of the record, which another record at the same offset of another incarnation does not have (rule
// W9).
func (r *Record) Mark() stream.Mark {
	return stream.Mark{Offset: r.Offset, Timestamp: r.Time, CRC: crc32.ChecksumIEEE(r.Value)}
}

// Chain names a chain within one partition of one stream.
type Chain struct {
	Tenant string
	Device string
	Day    telemetry.Day
}

// ChainOf returns the chain of a reading.
func ChainOf(r *telemetry.Reading) Chain { return Chain{r.Tenant, r.Device, telemetry.DayOf(r.Time)} }
