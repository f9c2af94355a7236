package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// errExpands is the error of a batch that exceeds the bound of memory.
var errExpands = errors.New("it takes more memory than --kafka-max-batch-mb allows")

// unpacker decompresses batches up to a bound. It is safe for any number of callers.
type unpacker struct {
	max  int
	zstd *zstd.Decoder
	used sync.Pool // holds *memory of answers that nobody reads any more
}

func newUnpacker(max int) *unpacker {
	// Constant options give no error. A decoder of whole batches needs no Close.
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max)))
	u := &unpacker{max: max, zstd: d}
	u.used.New = func() any { return &memory{unpacker: u} }
	return u
}

// memory is what an answer and its records take. Another answer gets it once nobody reads them any more.
type memory struct {
	*unpacker
	version int16  // of the answer
	body    []byte // the answer as it came: the caller of the exchange decodes it
	text    []byte // unpacked batches, end to end; those that found no room lie elsewhere
	made    []Record
}

// maxReused bounds the bytes of a memory that is used again.
const maxReused = 4 << 20

func (m *memory) bytes() int { return cap(m.body) + cap(m.text) + cap(m.made)*recordBytes }

// giveBack lets further answers have the memory: nobody reads the records any more.
func (m *memory) giveBack() {
	if m.text = m.text[:0]; m.bytes() <= maxReused {
		m.used.Put(m)
	}
}

// unpack decompresses by a codec, by its number in batches. More than max bytes are errExpands; max must not exceed the
// unpacker's own bound.
func (m *memory) unpack(codec int16, packed []byte, max int) ([]byte, error) {
	switch codec {
	case 0:
		return packed, nil
	case 1:
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		return m.readUpTo(r, len(packed), max)
	case 2:
		return unpackSnappy(packed, max)
	case 3:
		if out, ok := m.lz4Blocks(packed, max); ok {
			return out, nil
		}
		return m.readUpTo(lz4.NewReader(bytes.NewReader(packed)), len(packed), max)
	case 4:
		out, err := m.zstd.DecodeAll(packed, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) || len(out) > max {
			return nil, errExpands
		}
		return out, err
	}
	return nil, fmt.Errorf("compression %d is unknown", codec)
}

// readUpTo reads the decompressed bytes of a batch.
func (m *memory) readUpTo(r io.Reader, packed, most int) ([]byte, error) {
	from := m.room(packed, most)
	for {
		n, err := r.Read(m.text[len(m.text):min(cap(m.text), from+most+1)])
		m.text = m.text[:len(m.text)+n]
		out := m.text[from:len(m.text):len(m.text)]
		switch {
		case len(out) > most:
			return nil, errExpands
		case err == io.EOF:
			return out, nil
		case err != nil:
			return out, err
		case len(m.text) == cap(m.text):
			m.text, from = append(make([]byte, 0, min(2*len(out), most+1)), out...), 0
		}
	}
}

// room makes room behind the text for what a batch becomes as a rule, and returns where it begins.
func (m *memory) room(packed, most int) (from int) {
	const ratio, least = 5, 4 << 10
	if n := min(ratio*packed+least, most+1); cap(m.text)-len(m.text) < n {
		m.text = make([]byte, 0, max(n, min(2*cap(m.text), maxReused)))
	}
	return len(m.text)
}

// lz4Blocks decompresses the frames that producers make: independent blocks, with a checksum of all or without, which
// the batch's own makes superfluous. ok is false for others, damaged ones, and those that find too little room.
func (m *memory) lz4Blocks(packed []byte, most int) (out []byte, ok bool) {
	const head, checked = "\x04\x22\x4d\x18\x60", 4
	if len(packed) < len(head)+2 || string(packed[:4]) != head[:4] || packed[4]&^checked != head[4] {
		return nil, false
	}
	from := m.room(len(packed), most)
	out = m.text[from:from:min(cap(m.text), from+most)]
	for rest := packed[len(head)+2:]; len(rest) >= 4; {
		size := int(binary.LittleEndian.Uint32(rest))
		if rest = rest[4:]; size == 0 {
			m.text = m.text[:from+len(out)]
			return out[:len(out):len(out)], len(rest) == int(packed[4]&checked)
		}
		if size > len(rest) { // as is that of a block which is not compressed
			break
		}
		n, err := lz4.UncompressBlock(rest[:size], out[len(out):cap(out)])
		if err != nil {
			break
		}
		out, rest = out[:len(out)+n], rest[size:]
	}
	return nil, false
}

// Java's producers wrap snappy: a magic, two versions, and blocks with their length before them.
var (
	xerial       = []byte("\x82SNAPPY\x00")
	xerialHeader = len(xerial) + 8
)

func unpackSnappy(packed []byte, max int) (out []byte, err error) {
	if !bytes.HasPrefix(packed, xerial) || len(packed) < xerialHeader {
		return appendSnappy(nil, packed, max)
	}
	for rest := packed[xerialHeader:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		length := int64(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; length > int64(len(rest)) {
			return nil, io.ErrUnexpectedEOF
		}
		if out, err = appendSnappy(out, rest[:length], max); err != nil {
			return nil, err
		}
		rest = rest[length:]
	}
	return out, nil
}

// appendSnappy appends the decompressed bytes of one block.
func appendSnappy(out, block []byte, max int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > max-len(out) {
		return nil, errExpands
	}
	plain, err := s2.Decode(nil, block)
	return append(out, plain...), err
}
