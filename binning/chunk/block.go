package chunk

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// codec says how the packed part of a block is kept. Numbers are stored and never change meaning.
type codec byte

const (
	stored     codec = 1 // as it is
	zstdPacked codec = 2 // a zstd frame without its four magic bytes
)

func (c codec) String() string {
	switch c {
	case stored:
		return "stored"
	case zstdPacked:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", byte(c))
}

// zstdMagic opens every zstd frame (RFC 8878, 3.1.1) and so need not be stored.
const zstdMagic = "\x28\xb5\x2f\xfd"

// leastPacked is the size below which zstd can't win over its own headers.
const leastPacked = 16

// section is what a column or the time stream writes: plain holds headers, varints and planes that don't compress,
// packed holds what zstd is worth trying on. Readers take from both in the order of writing.
type section struct{ plain, packed []byte }

// appendBlock appends the block of one or more sections: codec, length of plain as a varint, plain, packed.
func (e *encoder) appendBlock(dst []byte, s section) []byte {
	c, packed := stored, s.packed
	if len(packed) >= leastPacked {
		e.frame = e.zstd.EncodeAll(packed, e.frame[:0])
		if body := e.frame[len(zstdMagic):]; len(body) < len(packed) {
			c, packed = zstdPacked, body
		}
	}
	dst = append(dst, byte(c))
	dst = binary.AppendUvarint(dst, uint64(len(s.plain)))
	dst = append(dst, s.plain...)
	return append(dst, packed...)
}

// openBlock is the inverse of appendBlock: it makes b's section the one that d reads. The section's parts alias b and d's
// buffers until the next openBlock.
func (d *decoder) openBlock(b []byte) (c codec, err error) {
	if len(b) == 0 {
		return 0, corrupt("an empty block")
	}
	c = codec(b[0])
	n, used := binary.Uvarint(b[1:])
	if used <= 0 || n > uint64(len(b)-1-used) {
		return c, corrupt("the length of a block's plain part")
	}
	d.s = section{plain: b[1+used : 1+used+int(n)], packed: b[1+used+int(n):]}
	switch c {
	case stored:
		return c, nil
	case zstdPacked:
		d.s.packed, err = d.unpack(d.s.packed)
		return c, err
	}
	return c, corrupt("%s is unknown", c)
}

// closeBlock tells whether all of the block was read.
func (d *decoder) closeBlock() error {
	if n := len(d.s.plain) + len(d.s.packed); n > 0 {
		return corrupt("%d bytes too many in a block", n)
	}
	return nil
}

// unpack decodes a zstd frame without its magic, within what is left of maxUnpacked.
func (d *decoder) unpack(b []byte) ([]byte, error) {
	d.frame = append(append(d.frame[:0], zstdMagic...), b...)
	var h zstd.Header
	if err := h.Decode(d.frame); err != nil || !h.HasFCS || h.Skippable {
		return nil, corrupt("the header of a zstd frame")
	}
	if h.FrameContentSize > uint64(d.unpackable) {
		return nil, corrupt("a zstd frame of %d bytes where %d are left", h.FrameContentSize, d.unpackable)
	}
	n := int(h.FrameContentSize)
	d.unpackable -= n
	if cap(d.unpacked) < n {
		d.unpacked = make([]byte, 0, n+n/4+64)
	}
	out, err := d.zstd.DecodeAll(d.frame, d.unpacked[:0])
	if err != nil || len(out) != n {
		return nil, corrupt("a zstd frame")
	}
	return out, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// encoders and decoders keep the scratch memory of earlier calls, zstd's tables included.
var (
	encoders = sync.Pool{New: func() any { return newEncoder() }}
	decoders = sync.Pool{New: func() any { return newDecoder() }}
)

func newEncoder() *encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return &encoder{zstd: w, texts: map[string]int64{}}
}

func newDecoder() *decoder {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return &decoder{zstd: r}
}
