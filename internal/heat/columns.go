package heat

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"binnacle/internal/bytesread"

	"github.com/klauspost/compress/zstd"
)

// Version is that of the documents.
const Version = 1

// TargetBytes is what a document aims at, at most: charges for a KB are the least just below 32 KB.
const TargetBytes = 31 << 10

const (
	maxUnpacked = 8 << 20 // bytes of the columns of one document
	maxNumber   = 1 << 53
)

// ErrCorrupt says that a document is not what this version writes.
var ErrCorrupt = errors.New("heat: not a document of heat")

var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return w
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			panic(err) // the options are constants
		}
		return r
	})
)

// columns are bytes that are appended to, then packed.
type columns struct{ b []byte }

func (c *columns) uint(n uint64) { c.b = binary.AppendUvarint(c.b, n) }

func (c *columns) text(s string) {
	c.uint(uint64(len(s)))
	c.b = append(c.b, s...)
}

// front appends a text after one that it shares its beginning with.
func (c *columns) front(before, s string) {
	n := 0
	for n < len(before) && n < len(s) && before[n] == s[n] {
		n++
	}
	c.uint(uint64(n))
	c.text(s[n:])
}

// rus appends request units in hundredths.
func (c *columns) rus(v float64) { c.uint(hundredths(v)) }

func hundredths(v float64) uint64 {
	if !(v > 0) {
		return 0
	}
	return uint64(math.Min(math.Round(v*100), maxNumber))
}

func (c *columns) packed() string {
	return base64.StdEncoding.EncodeToString(packer().EncodeAll(c.b, nil))
}

// reader reads what columns has appended.
type reader struct{ bytesread.Reader }

func unpack(data string) (*reader, error) {
	packed, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	b, err := unpacker().DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return &reader{bytesread.Reader{Rest: b}}, nil
}

func (r *reader) number() int64 { return int64(r.Uvarint(maxNumber)) }

func (r *reader) rus() float64 { return float64(r.Uvarint(maxNumber)) / 100 }

func (r *reader) text() string { return string(r.Take(r.Count(1))) }

func (r *reader) front(before string) string {
	n := int(r.Uvarint(maxNumber))
	rest := r.text()
	if n > len(before) {
		r.Failf("a text shares %d bytes with one of %d", n, len(before))
		return ""
	}
	return before[:n] + rest
}

// end returns the error of the reading, or that something is left.
func (r *reader) end() error {
	if r.Err == nil && len(r.Rest) > 0 {
		r.Failf("%d bytes are left", len(r.Rest))
	}
	if r.Err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, r.Err)
	}
	return nil
}
