package heat

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"binnacle/internal/wire/bytesread"

	"github.com/klauspost/compress/flate"
)

// Version is the version of the documents.
const Version = 1

// TargetBytes is what a document aims at, at most: charges for a KB are the least just below 32 KB.
const TargetBytes = 31 << 10

const (
	maxUnpacked = 8 << 20 // bytes of the columns of one document
	maxNumber   = 1 << 53
)

// ErrCorrupt says that a document is not what this version writes.
var ErrCorrupt = errors.New("heat: not a document of heat")

// packers are compressors to use again. DEFLATE, as zstd packs few bytes no better and starts goroutines.
var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

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

func (c *columns) rus(v float64) { c.uint(hundredths(v)) }

func hundredths(v float64) uint64 {
	if !(v > 0) {
		return 0
	}
	return uint64(math.Min(math.Round(v*100), maxNumber))
}

func (c *columns) packed() string {
	var b bytes.Buffer
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&b)
	if _, err := w.Write(c.b); err != nil {
		panic(err) // a buffer takes all
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// reader reads what columns has appended.
type reader struct{ bytesread.Reader }

func unpack(data string) (*reader, error) {
	packed, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(b) > maxUnpacked {
		return nil, fmt.Errorf("%w: its columns have more than %d bytes", ErrCorrupt, maxUnpacked)
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
