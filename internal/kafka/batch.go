package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"
)

// Offsets of the fields in the head of a record batch.
const (
	batchEpoch      = 12
	batchCRC        = 17
	batchAttributes = 21
	batchLastDelta  = 23
	batchFirstTime  = 27
	batchMaxTime    = 35
	batchProducer   = 43
	batchCount      = 57
	batchHead       = 61
)

// Bits of the attributes of a batch.
const (
	attributeCodec         = 0x07
	attributeAppendTime    = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20
)

// Memory of a record and of a header beside their bytes.
const (
	recordBytes = int(unsafe.Sizeof(Record{}))
	headerBytes = int(unsafe.Sizeof(Header{}))
)

// batch reads a record batch, the only kind of entry from Kafka 0.11 on.
func (r *logReader) batch(f frame) (*Refusal, error) {
	if len(f) < batchHead {
		return nil, fmt.Errorf("a batch of %d bytes: %w", len(f), errChecksum)
	}
	if crc32.Checksum(f[batchAttributes:], castagnoli) != binary.BigEndian.Uint32(f[batchCRC:]) {
		return nil, fmt.Errorf("offset %d: %w", f.offset(), errChecksum)
	}
	last := f.last()
	if last < r.from {
		return nil, nil
	}
	attributes, producer := f.int16(batchAttributes), f.int64(batchProducer)
	skip := attributes&attributeTransactional != 0 && r.aborted.has(producer, last)
	if skip && attributes&attributeControl == 0 {
		r.out.Next = last + 1
		return nil, nil
	}
	records, bytes, err := r.records(f)
	if err != nil {
		return &Refusal{
			First: max(f.offset(), r.from), Through: last, Time: f.int64(batchMaxTime),
			Records: int(max(0, f.int32(batchCount))),
			Bytes:   len(f), TooLarge: errors.Is(err, errExpands), Why: err.Error(),
		}, nil
	}
	if attributes&attributeControl != 0 {
		if len(records) > 0 && abortMarker(records[0].Key) {
			r.aborted.ends(producer)
		}
	} else {
		for i := range records {
			if records[i].Offset >= r.from {
				if r.out.Records == nil {
					r.out.Records = records[i:]
				} else {
					r.out.Records = append(r.out.Records, records[i:]...)
				}
				break
			}
		}
		r.out.Bytes += bytes
	}
	r.out.Next = last + 1
	return nil, nil
}

// last returns the offset of a batch's last record, even if compaction has removed it.
func (f frame) last() int64 { return f.offset() + int64(max(0, f.int32(batchLastDelta))) }

// abortMarker reports whether the key of a control record, its version and type, is that of an abort.
func abortMarker(key []byte) bool { return len(key) >= 4 && key[2] == 0 && key[3] == 0 }

func (f frame) int16(at int) int16 { return int16(binary.BigEndian.Uint16(f[at:])) }
func (f frame) int32(at int) int32 { return int32(binary.BigEndian.Uint32(f[at:])) }
func (f frame) int64(at int) int64 { return int64(binary.BigEndian.Uint64(f[at:])) }

// records returns the records of a batch and the memory that they take. The count in the batch can't be trusted
// before it is checked against the bound of memory.
func (r *logReader) records(f frame) ([]Record, int, error) {
	left := r.unpack.max
	count := int(f.int32(batchCount))
	if count < 0 {
		return nil, 0, fmt.Errorf("a batch of %d records", count)
	}
	if left -= count * recordBytes; left < 0 {
		return nil, 0, errExpands
	}
	plain, err := r.unpack.unpack(f.int16(batchAttributes)&attributeCodec, f[batchHead:], left)
	if err != nil {
		return nil, 0, err
	}
	if left -= len(plain); left < 0 {
		return nil, 0, errExpands
	}
	if count > len(plain) {
		return nil, 0, fmt.Errorf("a batch of %d records in %d bytes", count, len(plain))
	}
	out := make([]Record, 0, count)
	fields := varints{plain, nil}
	for at := f.offset() - 1; len(out) < count; {
		rec := Record{Epoch: f.int32(batchEpoch)}
		body := varints{fields.bytes(), fields.err}
		if body.rest == nil {
			return nil, 0, errRecord
		}
		body.skip(1) // attributes, without meaning
		rec.Time = f.int64(batchFirstTime) + body.int()
		if f.int16(batchAttributes)&attributeAppendTime != 0 {
			rec.Time = f.int64(batchMaxTime)
		}
		rec.Time = max(rec.Time, -1)
		rec.Offset = f.offset() + body.int()
		rec.Key, rec.Value = body.bytes(), body.bytes()
		n := body.int()
		if n < 0 || n > int64(len(body.rest)) {
			return nil, 0, errRecord
		}
		if left -= int(n) * headerBytes; left < 0 {
			return nil, 0, errExpands
		}
		if n > 0 {
			rec.Headers = make([]Header, n)
		}
		for i := range rec.Headers {
			rec.Headers[i] = Header{string(body.bytes()), body.bytes()}
		}
		if body.err != nil || rec.Offset <= at || rec.Offset > f.last() {
			return nil, 0, errRecord
		}
		at = rec.Offset
		out = append(out, rec)
	}
	return out, r.unpack.max - left, nil
}

var errRecord = errors.New("a record of the batch is damaged")

// varints reads the fields of a record. After an error it reads nothing.
type varints struct {
	rest []byte
	err  error
}

func (v *varints) int() int64 {
	x, n := binary.Varint(v.rest)
	if n <= 0 || v.err != nil {
		v.fail()
		return 0
	}
	v.rest = v.rest[n:]
	return x
}

// bytes reads a length and that many bytes; nil when the length is negative.
func (v *varints) bytes() []byte {
	n := v.int()
	if n < 0 || v.err != nil {
		return nil
	}
	if n > int64(len(v.rest)) {
		v.fail()
		return nil
	}
	b := v.rest[:n:n]
	v.rest = v.rest[n:]
	return b
}

func (v *varints) skip(n int) {
	if n > len(v.rest) {
		v.fail()
		return
	}
	v.rest = v.rest[n:]
}

func (v *varints) fail() { v.rest, v.err = nil, io.ErrUnexpectedEOF }
