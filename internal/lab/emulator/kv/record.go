package kv

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A segment is a file named by its number, with these bytes and then records, each of one batch. Numbers in them are
// little-endian.
//
//	crc32c:4    of what follows up to the bodies
//	length:4    of the operations
//	bodies:4    length of the bodies
//	crc32c:4    of the bodies
//	operations  each a kind and its fields: see below; lengths are varints
//	bodies      one after the other
//
// The tree is built of the operations; bodies are passed over, but in the newest segment, which a crash may have
// left with a torn end: Open cuts it off from the first record that is not whole.
const magic = "binnacle kv 1\n\x00\x00"

const recordHead = 16

// Kinds of operations, with the fields that stand behind them.
const (
	opSet    = 's' // length and bytes of the key, then of the value; length of the body
	opDelete = 'd' // length and bytes of the key
	opRange  = 'r' // length and bytes of the first key, then of the one after the last
	opFloor  = 'f' // number of the oldest segment that counts
)

// operation is one change of a batch.
type operation struct {
	kind byte
	// value is the end of a range where the kind is opRange.
	key, value, body []byte

	// at is the offset in the segment of the operation, or of the body where it has one.
	at int64
	// bodyLen is the length of the body of a decoded operation.
	bodyLen int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errRecord = errors.New("a record of the log is damaged")

// appendRecord appends a record that will stand at an offset, and sets where its operations are.
func appendRecord(dst []byte, ops []operation, offset int64) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, recordHead)...)
	for i := range ops {
		o := &ops[i]
		o.at = offset + int64(len(dst)-start)
		dst = appendField(append(dst, o.kind), o.key)
		switch o.kind {
		case opSet:
			dst = binary.AppendUvarint(appendField(dst, o.value), uint64(len(o.body)))
		case opRange:
			dst = appendField(dst, o.value)
		}
	}
	bodies := len(dst)
	for i := range ops {
		if o := &ops[i]; len(o.body) > 0 {
			o.at = offset + int64(len(dst)-start)
			dst = append(dst, o.body...)
		}
	}
	head := dst[start:]
	binary.LittleEndian.PutUint32(head[4:], uint32(bodies-start-recordHead))
	binary.LittleEndian.PutUint32(head[8:], uint32(len(dst)-bodies))
	binary.LittleEndian.PutUint32(head[12:], crc32.Checksum(dst[bodies:], castagnoli))
	binary.LittleEndian.PutUint32(head, crc32.Checksum(dst[start+4:bodies], castagnoli))
	return dst
}

func appendField(dst, field []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

// decodeOperations reads the operations of a record at an offset. They refer to data.
func decodeOperations(ops []operation, data []byte, offset int64) ([]operation, error) {
	body := offset + recordHead + int64(len(data))
	rest := data
	for len(rest) > 0 {
		o := operation{kind: rest[0], at: offset + recordHead + int64(len(data)-len(rest))}
		var err error
		if o.key, rest, err = field(rest[1:]); err != nil {
			return nil, err
		}
		switch o.kind {
		case opSet:
			if o.value, rest, err = field(rest); err != nil {
				return nil, err
			}
			n, width := binary.Uvarint(rest)
			if width <= 0 {
				return nil, errRecord
			}
			rest = rest[width:]
			if o.bodyLen = int(n); n > 0 {
				o.at = body
				body += int64(n)
			}
		case opRange:
			if o.value, rest, err = field(rest); err != nil {
				return nil, err
			}
		case opDelete, opFloor:
		default:
			return nil, errRecord
		}
		ops = append(ops, o)
	}
	return ops, nil
}

func field(data []byte) (value, rest []byte, err error) {
	n, width := binary.Uvarint(data)
	if width <= 0 || n > uint64(len(data)-width) {
		return nil, nil, errRecord
	}
	data = data[width:]
	return data[:n:n], data[n:], nil
}

// Batch is changes that are applied together.
type Batch struct {
	ops []operation
	// kept is the keys and values of ops.
	kept []byte
	// own shows the store with the changes of the batch, in a batch that Fork made.
	own *View
	// upTo is the end of the log with the batch in it, once applied.
	upTo int64
}

// Set sets the value of a key.
func (b *Batch) Set(key, value []byte) { b.SetBody(key, value, nil) }

// SetBody sets the value and the body of a key. The body must not change until the batch is applied.
func (b *Batch) SetBody(key, value, body []byte) {
	b.add(operation{kind: opSet, key: b.keep(key), value: b.keep(value), body: body})
}

// Delete removes a key.
func (b *Batch) Delete(key []byte) { b.add(operation{kind: opDelete, key: b.keep(key)}) }

// DeleteRange removes the keys from one on to another, which is not removed.
func (b *Batch) DeleteRange(low, high []byte) {
	b.add(operation{kind: opRange, key: b.keep(low), value: b.keep(high)})
}

func (b *Batch) add(o operation) {
	if b.own != nil {
		b.own.change(&o, newEntry(&o, true))
	}
	b.ops = append(b.ops, o)
}

// keep copies what the caller uses again.
func (b *Batch) keep(p []byte) []byte {
	if b.kept == nil {
		b.kept, b.ops = make([]byte, 0, 512), make([]operation, 0, 6)
	}
	n := len(b.kept)
	b.kept = append(b.kept, p...)
	return b.kept[n:len(b.kept):len(b.kept)]
}
