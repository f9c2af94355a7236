package spill

import (
	"errors"
	"fmt"
	"hash/crc32"
)

// Ref locates a piece and has its checksum, in 16 bytes. The zero Ref refers to no piece.
type Ref struct {
	segment uint32 // number of the segment, from 1; never given twice
	offset  uint32
	length  uint32
	sum     uint32 // CRC-32C of the piece
}

// Len returns the number of bytes of the piece.
func (r Ref) Len() int { return int(r.length) }

// String describes the piece for errors and logs.
func (r Ref) String() string {
	return fmt.Sprintf("%d bytes at %d of segment %d", r.length, r.offset, r.segment)
}

// ErrLost says that a piece is not there as it was put: its file is shorter, holds something else, or is gone. Errors
// that say which wrap it.
var ErrLost = errors.New("the spilled bytes are lost")

// castagnoli is the polynomial for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func (r Ref) freed() error { return fmt.Errorf("%w: %s were freed", ErrLost, r) }

// verify compares bytes that were read with the Ref's checksum.
func (r Ref) verify(b []byte) error {
	if got := sum(b); got != r.sum {
		return fmt.Errorf("%w: %s have the checksum %08x, and were put with %08x", ErrLost, r, got, r.sum)
	}
	return nil
}
