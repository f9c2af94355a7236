// Package bytesread reads what encoding/binary appends: numbers, and bytes with their length in front. Journal, heads,
// heat and blocks are read with it. A Codec also appends. The package knows none of their formats.
package bytesread

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Reader reads from the front of Rest. After the first error all reads return zeros, so that callers check Err once.
type Reader struct {
	// Rest is not read yet; nil after an error.
	Rest []byte
	Err  error
}

var errShort = errors.New("it ends too soon")

// Fail records an error, unless there is one, and ends reading.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.Rest = nil
}

// Failf records an error that fmt.Errorf makes.
func (r *Reader) Failf(format string, args ...any) { r.Fail(fmt.Errorf(format, args...)) }

// Take returns the next n bytes, or nil when fewer are left. They alias what is read.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.Rest) {
		r.Fail(errShort)
		return nil
	}
	out := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return out
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint64 reads eight bytes, the lowest first.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Uvarint reads a number of at most most.
func (r *Reader) Uvarint(most uint64) uint64 {
	n, used := binary.Uvarint(r.Rest)
	switch {
	case used <= 0:
		r.Fail(errShort)
		return 0
	case n > most:
		r.Failf("%d is above %d", n, most)
		return 0
	}
	r.Rest = r.Rest[used:]
	return n
}

// Varint reads a number with a sign.
func (r *Reader) Varint() int64 {
	n, used := binary.Varint(r.Rest)
	if used <= 0 {
		r.Fail(errShort)
		return 0
	}
	r.Rest = r.Rest[used:]
	return n
}

// Count reads the length of a list with elements of a least size in bytes, so that a length can't demand more memory
// than there are bytes.
func (r *Reader) Count(least int) int {
	n := r.Uvarint(1<<63 - 1)
	if n > uint64(len(r.Rest)/least) {
		r.Failf("a list of %d elements in %d bytes", n, len(r.Rest))
		return 0
	}
	return int(n)
}

// Bytes reads a length and that number of bytes, which alias Rest.
func (r *Reader) Bytes() []byte { return r.Take(r.Count(1)) }

// Text reads a length and a text.
func (r *Reader) Text() string { return string(r.Bytes()) }

// End returns the error, which is one also when something is left.
func (r *Reader) End() error {
	if r.Err == nil && len(r.Rest) > 0 {
		r.Failf("%d bytes too many", len(r.Rest))
	}
	return r.Err
}
