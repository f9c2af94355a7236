package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
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
	before := len(r.out.Records)
	bytes, err := r.records(f)
	records := r.out.Records[before:]
	if attributes&attributeControl != 0 || err != nil {
		r.out.Records = r.out.Records[:before]
	}
	if err != nil {
		return &Refusal{
			First: max(f.offset(), r.from), Through: last, Time: f.int64(batchMaxTime),
			Bytes: len(f), TooLarge: errors.Is(err, errExpands), Why: err.Error(),
		}, nil
	}
	if attributes&attributeControl != 0 {
		if len(records) > 0 && abortMarker(records[0].Key) {
			r.aborted.ends(producer)
		}
	} else {
		n := 0
		for n < len(records) && records[n].Offset < r.from { // the first batch may begin below
			n++
		}
		r.out.Records = slices.Delete(r.out.Records, before, before+n)
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

// records appends the records of a batch to the answer, and returns their memory. It checks the count that the batch
// declares against the bound of memory before it trusts it.
func (r *logReader) records(f frame) (int, error) {
	left := r.max
	count := int(f.int32(batchCount))
	if count < 0 {
		return 0, fmt.Errorf("a batch of %d records", count)
	}
	if left -= count * recordBytes; left < 0 {
		return 0, errExpands
	}
	plain, err := r.unpack(f.int16(batchAttributes)&attributeCodec, f[batchHead:], left)
	if err != nil {
		return 0, err
	}
	if left -= len(plain); left < 0 {
		return 0, errExpands
	}
	if count > len(plain) {
		return 0, fmt.Errorf("a batch of %d records in %d bytes", count, len(plain))
	}
	r.out.Records = slices.Grow(r.out.Records, count)
	fields := varints{text: plain}
	epoch, first, last := f.int32(batchEpoch), f.offset(), f.last()
	begins, ends := f.int64(batchFirstTime), f.int64(batchMaxTime)
	appended := f.int16(batchAttributes)&attributeAppendTime != 0
	at := first - 1
	for range count {
		r.out.Records = append(r.out.Records, Record{Epoch: epoch})
		rec := &r.out.Records[len(r.out.Records)-1]
		body := varints{text: fields.bytes(), err: fields.err}
		if body.text == nil {
			return 0, errRecord
		}
		body.skip(1) // attributes, without meaning
		rec.Time = begins + body.int()
		if appended {
			rec.Time = ends
		}
		rec.Time = max(rec.Time, -1)
		rec.Offset = first + body.int()
		rec.Key, rec.Value = body.bytes(), body.bytes()
		n := body.int()
		if n < 0 || n > int64(body.left()) {
			return 0, errRecord
		}
		if left -= int(n) * headerBytes; left < 0 {
			return 0, errExpands
		}
		if n > 0 {
			rec.Headers = make([]Header, n)
		}
		for i := range rec.Headers {
			rec.Headers[i] = Header{string(body.bytes()), body.bytes()}
		}
		if body.err != nil || rec.Offset <= at || rec.Offset > last {
			return 0, errRecord
		}
		at = rec.Offset
	}
	return r.max - left, nil
}

var errRecord = errors.New("a record of the batch is damaged")

// varints reads the fields of a record. After an error nothing is left to be read.
type varints struct {
	text []byte
	at   int // an index: to move a slice would be a write barrier for each field
	err  error
}

func (v *varints) left() int { return len(v.text) - v.at }

func (v *varints) int() int64 {
	if v.at < len(v.text) && v.text[v.at] < 0x80 { // most are a byte
		x := v.text[v.at]
		v.at++
		return int64(x>>1) ^ -int64(x&1)
	}
	x, n := binary.Varint(v.text[v.at:])
	if n <= 0 {
		v.fail()
		return 0
	}
	v.at += n
	return x
}

// bytes reads a length and that many bytes; nil when the length is negative.
func (v *varints) bytes() []byte {
	n := v.int()
	if n < 0 || v.err != nil {
		return nil
	}
	if n > int64(v.left()) {
		v.fail()
		return nil
	}
	from := v.at
	v.at += int(n)
	return v.text[from:v.at:v.at]
}

func (v *varints) skip(n int) {
	if n > v.left() {
		v.fail()
		return
	}
	v.at += n
}

func (v *varints) fail() { v.text, v.at, v.err = nil, 0, io.ErrUnexpectedEOF }
