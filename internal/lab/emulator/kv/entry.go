package kv

import (
	"bytes"
	"fmt"
	"os"
)

// Entry is a key with its value, and a body where it was set with one. It never changes.
type Entry struct {
	// data is the key and the value. A scan reads it of every entry, so the body is kept apart from it.
	data    []byte
	keyLen  uint32
	bodyLen uint32
	// body is in memory; nil where it is in a segment.
	body []byte

	// segment is where the entry was written; nil: nowhere, the body is in data.
	segment *segment
	// at is the offset of the body in the segment, or of the operation that set the entry where it has no body.
	at int64
}

func newEntry(o *operation, withBody bool) *Entry {
	e := &Entry{keyLen: uint32(len(o.key)), bodyLen: uint32(len(o.body))}
	e.data = append(append(make([]byte, 0, len(o.key)+len(o.value)), o.key...), o.value...)
	if withBody {
		e.body = append(make([]byte, 0, len(o.body)), o.body...)
	}
	return e
}

// Key returns the key. It must not be changed.
func (e *Entry) Key() []byte { return e.data[:e.keyLen:e.keyLen] }

// Value returns the value. It must not be changed.
func (e *Entry) Value() []byte { return e.data[e.keyLen:] }

// Body returns the body, in buf where it has room. It must not be changed.
func (e *Entry) Body(buf []byte) ([]byte, error) {
	if e.segment == nil {
		return e.body, nil
	}
	if uint32(cap(buf)) < e.bodyLen {
		buf = make([]byte, e.bodyLen)
	}
	buf = buf[:e.bodyLen]
	if e.bodyLen == 0 {
		return buf, nil
	}
	if _, err := e.segment.file.ReadAt(buf, e.at); err != nil {
		return nil, fmt.Errorf("read a body: %w", err)
	}
	return buf, nil
}

// Stored reports whether the body is in a file, so that Body fills buf.
func (e *Entry) Stored() bool { return e.segment != nil }

// size returns about how many bytes of its segment the entry fills.
func (e *Entry) size() int64 { return int64(len(e.data)) + int64(e.bodyLen) + 8 }

// less orders entries by their keys.
func less(a, b *Entry) bool { return bytes.Compare(a.Key(), b.Key()) < 0 }

// segment is one file of the log.
type segment struct {
	number uint64
	path   string
	file   *os.File
	// size is the length of the segment up to the end of its last whole record.
	size int64
	// live is the bytes of the entries that count.
	live int64
}
