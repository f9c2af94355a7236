package kv

import (
	"bytes"
	"fmt"
	"iter"
	"os"

	"github.com/google/btree"
)

// Reader shows the entries of the store, of a snapshot, or of a batch.
type Reader interface {
	// Get returns the entry of a key; nil without one.
	Get(key []byte) *Entry
	// Ascend visits the entries from a key on, before another; high nil is the end.
	Ascend(low, high []byte) iter.Seq[*Entry]
	// Descend visits the same entries from the last to the first.
	Descend(low, high []byte) iter.Seq[*Entry]
}

// View is a snapshot. It is safe for concurrent use.
type View struct{ tree *btree.BTreeG[*Entry] }

func newView() *View { return &View{btree.NewG(32, less)} }

func probe(key []byte) *Entry { return &Entry{data: key, keyLen: uint32(len(key))} }

// Get returns the entry of a key; nil without one.
func (v *View) Get(key []byte) *Entry {
	e, _ := v.tree.Get(probe(key))
	return e
}

// Ascend visits the entries from a key on, before another; high nil is the end.
func (v *View) Ascend(low, high []byte) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		if high != nil && bytes.Compare(low, high) >= 0 {
			return
		}
		end := v.from(high)
		v.tree.AscendGreaterOrEqual(probe(low), func(e *Entry) bool { return e != end && yield(e) })
	}
}

// from returns the first entry from a key on; nil for none, and for the key nil.
func (v *View) from(key []byte) (first *Entry) {
	if key != nil {
		v.tree.AscendGreaterOrEqual(probe(key), func(e *Entry) bool {
			first = e
			return false
		})
	}
	return first
}

// Descend visits the same entries from the last to the first.
func (v *View) Descend(low, high []byte) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		visit := func(e *Entry) bool {
			if high != nil && bytes.Compare(e.Key(), high) >= 0 {
				return true // high itself
			}
			return bytes.Compare(e.Key(), low) >= 0 && yield(e)
		}
		if high == nil {
			v.tree.Descend(visit)
			return
		}
		v.tree.DescendLessOrEqual(probe(high), visit)
	}
}

// change does an operation; entry is what a set sets. It returns what counts no more.
func (v *View) change(o *operation, entry *Entry) (gone []*Entry) {
	var old *Entry
	switch o.kind {
	case opSet:
		old, _ = v.tree.ReplaceOrInsert(entry)
	case opDelete:
		old, _ = v.tree.Delete(probe(o.key))
	case opRange:
		for e := range v.Ascend(o.key, o.value) {
			gone = append(gone, e)
		}
		for _, e := range gone {
			v.tree.Delete(e)
		}
		return gone
	}
	if old != nil {
		gone = append(gone, old)
	}
	return gone
}

// Get returns the entry of a key as the batch leaves it. Only a batch made by Store.Fork can be read.
func (b *Batch) Get(key []byte) *Entry { return b.own.Get(key) }

// Ascend visits entries as View.Ascend.
func (b *Batch) Ascend(low, high []byte) iter.Seq[*Entry] { return b.own.Ascend(low, high) }

// Descend visits entries as View.Descend.
func (b *Batch) Descend(low, high []byte) iter.Seq[*Entry] { return b.own.Descend(low, high) }

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
