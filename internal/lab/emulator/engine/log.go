package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"

	"binnacle/internal/lab/emulator/kv"
)

// The log of a physical partition says in which order its items were last written: one small key for
// every item that is stored, moved to the end when the item is written and removed with it.
//
//	l <container:4> <partition:2> <lsn:8> <epk:16 x levels> <id>   = _ts:8
//
// Every write of a transaction has its own sequence number. After a split the entries stay where they are: a
// child reads its ancestors' entries, as far as they lie in its range, before its own. So a split copies
// nothing, and a page of the change feed reads only new entries.

// ancestor is a partition that another came from by splits.
type ancestor struct {
	ID string `json:"id"`
	// LSN is the last sequence number that the ancestor gave. Its children go on above it.
	LSN uint64 `json:"lsn"`

	number uint64 // the same as ID
}

// author returns the number of the partition that gave out a sequence number which an item of p has.
func (p *partition) author(lsn uint64) uint64 {
	for i := range p.Parents {
		if lsn <= p.Parents[i].LSN {
			return p.Parents[i].number
		}
	}
	return p.number
}

func appendLogPrefix(dst []byte, container uint32, author uint64) []byte {
	return binary.BigEndian.AppendUint16(appendPrefix(dst, spaceLog, container), uint16(author))
}

// logName returns the key of an item's entry. name is the key of its header.
func (p *partition) logName(dst, name []byte, lsn uint64) []byte {
	dst = appendLogPrefix(dst[:0], binary.BigEndian.Uint32(name[1:]), p.author(lsn))
	dst = binary.BigEndian.AppendUint64(dst, lsn)
	return append(dst, name[prefixLen:]...)
}

// logged adds the entry of an item that is written.
func (p *partition) logged(b *kv.Batch, buf, name []byte, h *header) []byte {
	buf = p.logName(buf, name, h.lsn)
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(h.modified))
	b.Set(buf, at[:])
	return buf
}

// unlogged removes the entry of a version that is written over, or removed.
func (p *partition) unlogged(b *kv.Batch, buf, name []byte, lsn uint64) []byte {
	buf = p.logName(buf, name, lsn)
	b.Delete(buf)
	return buf
}

type entry struct {
	lsn      uint64
	modified int64
	item     []byte // key of the item without its prefix
}

// logHead is the length of the key of an entry up to the item.
const logHead = prefixLen + 2 + 8

func readEntry(e *kv.Entry) (entry, error) {
	key, value := e.Key(), e.Value()
	if len(key) < logHead || len(value) != 8 {
		return entry{}, errLog
	}
	return entry{binary.BigEndian.Uint64(key[logHead-8:]), int64(binary.BigEndian.Uint64(value)), key[logHead:]}, nil
}

var errLog = errors.New("the log of a physical partition is damaged")

// entries visits the log of a partition above a sequence number, in order, until visit reports false.
func (p *partition) entries(from kv.Reader, container uint32, above uint64, visit func(entry) (bool, error)) error {
	for _, a := range p.Parents {
		if above >= a.LSN {
			continue
		}
		more, err := p.entriesOf(from, container, a.number, above, visit)
		if !more || err != nil {
			return err
		}
		above = a.LSN
	}
	_, err := p.entriesOf(from, container, p.number, above, visit)
	return err
}

func (p *partition) entriesOf(
	from kv.Reader, container uint32, author, above uint64, visit func(entry) (bool, error),
) (more bool, err error) {
	prefix := appendLogPrefix(nil, container, author)
	low := binary.BigEndian.AppendUint64(bytes.Clone(prefix), above+1)
	for stored := range from.Ascend(low, after(prefix)) {
		e, err := readEntry(stored)
		if err != nil {
			return false, err
		}
		if author != p.number && !p.holds(e.item) {
			continue // a sibling's
		}
		if more, err := visit(e); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// maxRecent bounds what recent returns: of more a walk through all items takes less.
const maxRecent = 256

// recent returns the keys of the items that were written at or after a second; few is false if these are many.
func (p *partition) recent(from kv.Reader, since int64) (items [][]byte, few bool) {
	for e := range p.newest(from) {
		if e.modified < since { // as are all before it
			break
		}
		if len(items) == maxRecent {
			return nil, false
		}
		items = append(items, e.item)
	}
	return items, true
}

// newest visits the log of a partition from its end.
func (p *partition) newest(from kv.Reader) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for i := len(p.Parents); i >= 0; i-- {
			author := p.number
			if i < len(p.Parents) {
				author = p.Parents[i].number
			}
			prefix := appendLogPrefix(nil, binary.BigEndian.Uint32(p.counter[1:]), author)
			for e := range from.Descend(prefix, after(prefix)) {
				if read, err := readEntry(e); err == nil && !yield(read) {
					return
				}
			}
		}
	}
}
