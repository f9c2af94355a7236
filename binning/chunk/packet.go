package chunk

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// codec says how the packed part of a packet is kept. Numbers are stored and never change meaning.
type codec byte

const (
	stored     codec = 1 // unchanged
	zstdPacked codec = 2 // a zstd frame without its four magic bytes
	huffPacked codec = 3 // its length as a varint, then zstd's Huffman code alone: a tree description and one stream
)

// String returns the codec's name in errors and in what is printed of a chunk.
func (c codec) String() string {
	switch c {
	case stored:
		return "stored"
	case zstdPacked:
		return "zstd"
	case huffPacked:
		return "huffman"
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

// appendPacket appends the packet of one or more sections: codec, length of plain as a varint, plain, packed.
func (e *encoder) appendPacket(dst []byte, s section) []byte {
	c, packed := e.pack(s.packed)
	dst = append(dst, byte(c))
	dst = binary.AppendUvarint(dst, uint64(len(s.plain)))
	dst = append(dst, s.plain...)
	return append(dst, packed...)
}

// pack returns the smallest encoding of b. zstd looks for repeats, which noisy telemetry has only by chance; a repeat
// costs more than the symbols that it replaces, so that the Huffman code alone is often smaller. The fastest level of
// zstd decides whether there are repeats worth the best level, which evicts the processor's caches. The texts
// of a block are few, and have few repeats.
func (e *encoder) pack(b []byte) (codec, []byte) {
	c, best := stored, b
	if len(b) < leastPacked {
		return c, best
	}
	if len(b) <= huff0.BlockSizeMax {
		e.huff.Reuse = huff0.ReusePolicyNone
		if h, _, err := huff0.Compress1X(b, &e.huff); err == nil {
			e.huffed = append(binary.AppendUvarint(e.huffed[:0], uint64(len(b))), h...)
			if len(e.huffed) < len(best) {
				c, best = huffPacked, e.huffed
			}
		}
	}
	if e.brief {
		return c, best
	}
	if e.frame = fastZstd().EncodeAll(b, e.frame[:0]); len(e.frame)-len(zstdMagic) >= len(best) {
		return c, best
	}
	e.frame = bestZstd().EncodeAll(b, e.frame[:0])
	if z := e.frame[len(zstdMagic):]; len(z) < len(best) {
		c, best = zstdPacked, z
	}
	return c, best
}

// openPacket inverts appendPacket: it makes b's section the one that d reads. The section's parts alias
// b and d's buffers until the next openPacket.
func (d *decoder) openPacket(b []byte) (c codec, err error) {
	if len(b) == 0 {
		return 0, corrupt("an empty packet")
	}
	c = codec(b[0])
	n, used := binary.Uvarint(b[1:])
	if used <= 0 || n > uint64(len(b)-1-used) {
		return c, corrupt("the length of a packet's plain part")
	}
	d.s = section{plain: b[1+used : 1+used+int(n)], packed: b[1+used+int(n):]}
	switch c {
	case stored:
		return c, nil
	case zstdPacked:
		d.s.packed, err = d.unpack(d.s.packed)
		return c, err
	case huffPacked:
		d.s.packed, err = d.unhuff(d.s.packed)
		return c, err
	}
	return c, corrupt("%s is unknown", c)
}

func (d *decoder) closePacket() error {
	if n := len(d.s.plain) + len(d.s.packed); n > 0 {
		return corrupt("%d bytes too many in a packet", n)
	}
	return nil
}

// unpack decodes a zstd frame without its magic, within the rest of maxUnpacked.
func (d *decoder) unpack(b []byte) ([]byte, error) {
	d.frame = append(append(d.frame[:0], zstdMagic...), b...)
	var h zstd.Header
	if err := h.Decode(d.frame); err != nil || !h.HasFCS || h.Skippable {
		return nil, corrupt("the header of a zstd frame")
	}
	if h.FrameContentSize > uint64(d.unpackable) {
		return nil, corrupt("a zstd frame of %d bytes where %d are left", h.FrameContentSize, d.unpackable)
	}
	out, err := unzstd.DecodeAll(d.frame, d.room(int(h.FrameContentSize)))
	if err != nil || uint64(len(out)) != h.FrameContentSize {
		return nil, corrupt("a zstd frame")
	}
	return out, nil
}

// unhuff decodes a length and a Huffman code, within the rest of maxUnpacked.
func (d *decoder) unhuff(b []byte) ([]byte, error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > huff0.BlockSizeMax || n > uint64(d.unpackable) {
		return nil, corrupt("the length of a Huffman code")
	}
	s, stream, err := huff0.ReadTable(b[used:], &d.huff)
	if err != nil {
		return nil, corrupt("a Huffman tree")
	}
	out, err := s.Decoder().Decompress1X(d.room(int(n))[:0:n], stream)
	if err != nil || uint64(len(out)) != n {
		return nil, corrupt("a Huffman code")
	}
	return out, nil
}

// room returns an empty slice of d's with room for n bytes, which are taken off what may still be unpacked.
func (d *decoder) room(n int) []byte {
	d.unpackable -= n
	if cap(d.unpacked) < n {
		d.unpacked = make([]byte, 0, n+n/4+64)
	}
	return d.unpacked[:0]
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// keptScratch is the most bytes of one buffer, or of a document that a parser has read, that are kept for later calls.
const keptScratch = 1 << 20

// bestAtOnce bounds the memory of concurrent calls: zstd's tables at its best level are 34 MB for each.
const bestAtOnce = 2

// The encoders of zstd are shared by all calls, and made when they are needed: the best one only by what has repeats.
var (
	fastZstd = sync.OnceValue(func() *zstd.Encoder { return newZstd(zstd.WithEncoderLevel(zstd.SpeedFastest)) })
	bestZstd = sync.OnceValue(func() *zstd.Encoder {
		return newZstd(zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(bestAtOnce))
	})
)

func newZstd(options ...zstd.EOption) *zstd.Encoder {
	w, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))...)
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return w
}

var encoders = sync.Pool{New: func() any { return &encoder{texts: map[string]int64{}} }}

// takeEncoder returns an encoder of documents, or of blocks if brief.
func takeEncoder(brief bool) *encoder {
	e := encoders.Get().(*encoder)
	e.brief = brief
	return e
}

// release gives e back for later calls, unless an unusual frame has made it large.
func (e *encoder) release() {
	if max(cap(e.s.packed), cap(e.s.plain), cap(e.doc)) <= keptScratch {
		encoders.Put(e)
	}
}

// decoders are small, and queries come in bursts: the garbage collector may have the idle ones.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

func takeDecoder() *decoder {
	d := decoders.Get().(*decoder)
	d.values, d.cells, d.unpackable = MaxValues, MaxCells, maxUnpacked
	return d
}

// release gives d back for later calls, without memory that only an unusual chunk needs.
func (d *decoder) release() {
	d.s, d.brief = section{}, false
	d.index.reset()
	if cap(d.unpacked) > keptScratch {
		d.unpacked = nil
	}
	decoders.Put(d)
}

// unzstd is shared by all calls. As many unpack at a time as there are processors. It is made at the start of the
// process, since a channel made in a bubble of testing/synctest may not be used outside that bubble.
var unzstd = func() *zstd.Decoder {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return r
}()
