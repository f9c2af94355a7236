package heat

import (
	"bytes"
	"encoding/base64"
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

// columns are values that are appended, then packed; or unpacked, then read. Each function of columns does both.
type columns struct{ bytesread.Codec }

func newColumns() *columns { return &columns{bytesread.Codec{Appends: true}} }

// front appends or reads a text after one that it shares its beginning with.
func (c *columns) front(before string, s *string) {
	n := 0
	for n < len(before) && n < len(*s) && before[n] == (*s)[n] {
		n++
	}
	rest := (*s)[n:]
	bytesread.Uint(&c.Codec, &n, maxNumber)
	c.Text(&rest)
	switch {
	case c.Appends:
	case n > len(before):
		c.Failf("a text shares %d bytes with one of %d", n, len(before))
	default:
		*s = before[:n] + rest
	}
}

func (c *columns) rus(v *float64) {
	n := hundredths(*v)
	if bytesread.Uint(&c.Codec, &n, maxNumber); !c.Appends {
		*v = float64(n) / 100
	}
}

func (c *columns) number(v *int64) {
	n := min(*v, maxNumber)
	if bytesread.Uint(&c.Codec, &n, maxNumber); !c.Appends {
		*v = n
	}
}

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
	if _, err := w.Write(c.Out); err != nil {
		panic(err) // a buffer takes all
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func unpack(data string) (*columns, error) {
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
	return &columns{bytesread.Codec{Reader: bytesread.Reader{Rest: b}}}, nil
}

// end returns the error of the reading, or that something is left.
func (c *columns) end() error {
	if err := c.End(); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}
