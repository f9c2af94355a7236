package worker

import (
	"hash/crc32"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
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

const contentTypeHeader = "content-type"

func (r *Record) contentType() string { return r.header(contentTypeHeader) }

// header is the value of the first header of a name, empty when there is none.
func (r *Record) header(name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// Mark is what tells this record from another one at the same offset of another incarnation (rule W9).
func (r *Record) Mark() control.Mark {
	return control.Mark{Offset: r.Offset, Timestamp: r.Time, CRC: crc32.ChecksumIEEE(r.Value)}
}

// bytes is about how much memory the record takes.
func (r *Record) bytes() int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
