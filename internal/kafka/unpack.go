package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// errExpands is the error of a batch that exceeds the bound of memory.
var errExpands = errors.New("it takes more memory than --kafka-max-batch-mb allows")

// unpacker decompresses batches up to a bound. It is safe for any number of callers.
type unpacker struct {
	max   int
	zstd  *zstd.Decoder
	gzips sync.Pool     // holds *gzip.Reader
	lz4s  sync.Pool     // holds *lz4.Reader
	ratio atomic.Uint64 // bits of a float64: the last ratio of decompressed to compressed bytes, rounded up
}

func newUnpacker(max int) *unpacker {
	// Constant options give no error. A decoder of whole batches needs no Close.
	d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max)))
	return &unpacker{
		max: max, zstd: d,
		gzips: sync.Pool{New: func() any { return new(gzip.Reader) }},
		lz4s:  sync.Pool{New: func() any { return lz4.NewReader(nil) }},
	}
}

// unpack decompresses by a codec, by its number in batches. More than max bytes are errExpands; max must not exceed
// the unpacker's own bound.
func (u *unpacker) unpack(codec int16, packed []byte, max int) ([]byte, error) {
	switch codec {
	case 0:
		return packed, nil
	case 1:
		r := u.gzips.Get().(*gzip.Reader)
		defer u.gzips.Put(r)
		if err := r.Reset(bytes.NewReader(packed)); err != nil {
			return nil, err
		}
		return u.readUpTo(r, len(packed), max)
	case 2:
		return unpackSnappy(packed, max)
	case 3:
		r := u.lz4s.Get().(*lz4.Reader)
		defer u.lz4s.Put(r)
		r.Reset(bytes.NewReader(packed))
		return u.readUpTo(r, len(packed), max)
	case 4:
		out, err := u.zstd.DecodeAll(packed, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) || len(out) > max {
			return nil, errExpands
		}
		return out, err
	}
	return nil, fmt.Errorf("compression %d is unknown", codec)
}

// readUpTo reads the decompressed bytes of a batch. It allocates by the compression ratio of the batch before:
// batches of a topic are alike.
func (u *unpacker) readUpTo(r io.Reader, packed, most int) ([]byte, error) {
	guess := int(float64(packed)*math.Float64frombits(u.ratio.Load())) + leastRoom
	out := make([]byte, 0, min(guess, most+1))
	for {
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case len(out) > most:
			return nil, errExpands
		case err == io.EOF:
			u.ratio.Store(math.Float64bits(min(roomShare*float64(len(out))/float64(max(1, packed)), mostRatio)))
			return out, nil
		case err != nil:
			return out, err
		case len(out) == cap(out):
			out = append(make([]byte, 0, min(2*cap(out), most+1)), out...)
		}
	}
}

const (
	leastRoom = 4 << 10
	roomShare = 1.05 // factor on the expected bytes
	mostRatio = 16   // the largest ratio that is allocated ahead
)

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
