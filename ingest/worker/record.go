package worker

import (
	"bytes"
	"hash/crc32"
	"slices"
	"time"

	"binnacle/ingest/decode"
	"binnacle/ingest/throttle"
	"binnacle/internal/control"
	"binnacle/internal/stream/deadletter"
)

// Record is one record of a Kafka partition.
type Record struct {
	Offset  int64
	Time    int64 // Kafka timestamp, milliseconds since 1970; negative when the record has none
	Key     []byte
	Value   []byte
	Headers []Header
}

// Header is one header of a record.
type Header = decode.Header

// Unreadable is a part of the log that can't be read: a batch that is damaged, or too large.
type Unreadable struct {
	First, Through int64 // offsets
	Time           int64 // greatest Kafka timestamp in it, as far as that is known; else negative
	Bytes          int   // of it in the log
	Bad            decode.Bad
}

// clone returns a copy that shares no bytes with what was fetched.
func (r *Record) clone() Record {
	out := *r
	out.Key, out.Value, out.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
	for i := range out.Headers {
		out.Headers[i].Value = bytes.Clone(out.Headers[i].Value)
	}
	return out
}

// decode returns the readings of the record.
func (r *Record) decode(d *decode.Decoder) decode.Result {
	return d.Decode(decode.Record{
		Value: r.Value, ContentType: r.contentType(), Headers: r.Headers, Timestamp: r.Time,
	})
}

const contentTypeHeader = "content-type"

func (r *Record) contentType() string { return r.header(contentTypeHeader) }

// header returns the value of the first header of a name, empty when there is none.
func (r *Record) header(name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// Mark returns a mark of the record, which another record at the same offset of another incarnation does not have (rule
// W9).
func (r *Record) Mark() control.Mark {
	return control.Mark{Offset: r.Offset, Timestamp: r.Time, CRC: crc32.ChecksumIEEE(r.Value)}
}

// bytes returns about how much memory the record takes.
func (r *Record) bytes() int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// feed is a record that is being taken, with what its readings are judged by.
type feed struct {
	throttle.Feed
	record   *Record
	index    []int             // of each reading, its place in the record
	grant    control.Backfill  // that the record names
	replayed *deadletter.ID    // the dead letter that the record was first, nil for none
	oversize map[chainKey]bool // chains with more readings than fit a document
}

func newFeed(rec *Record, snapshot *control.Snapshot, now time.Time) feed {
	return feed{record: rec, Feed: throttle.Feed{
		Offset: rec.Offset, Time: rec.Time, Bytes: len(rec.Value), Snapshot: snapshot, Now: now,
	}}
}
