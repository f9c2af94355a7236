// Package spill keeps bytes on disk that memory has no room for: the blocks of open bins that have not been touched for
// longest, above all.
//
// It is a cache. Bytes that are put here are also elsewhere, in the journal: nothing is synced, nothing outlives the
// process, and losing a file costs a read of the journal. What comes back is what was put, or an error: the checksum
// of a piece is in its Ref and not in the file, so a file holds pieces end to end and nothing else.
//
// Files are segments of 64 MiB that are appended to. A segment goes when none of its pieces is live; pieces are never
// moved. What has been freed in a segment that is still needed stays on disk, so the disk holds at most what was put in
// the time for which the longest-lived piece lives, and two segments: the one that is written to, and the rest of the
// oldest. Where pieces live for a day at most, that is the pieces of a day.
//
// The package must not know what the bytes are, nor what they are for.
package spill

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sync"
)

// segmentBytes is how long a segment becomes, unless a single piece is longer.
const segmentBytes = 64 << 20

// Store keeps pieces in files. It is safe for any number of callers.
type Store struct {
	create func() (File, error)
	limit  int64 // how long segments become

	// Held while a piece is written. Guards each segment's end; taken before mu.
	writing sync.Mutex

	mu       sync.RWMutex        // guards what follows; never held while a file is worked on
	current  uint32              // number of the segment that is written to; changes under writing too
	segments map[uint32]*segment // segments with live pieces, and the current one; nil once closed
	live     int64               // bytes
	onDisk   int64
}

// Open makes a Store with files in dir, which must be there. Files that a process left behind are removed.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spill: %w", err)
	}
	if err := sweep(dir); err != nil {
		return nil, fmt.Errorf("open spill: %w", err)
	}
	return OpenFiles(func() (File, error) { return create(dir, os.Remove) }, segmentBytes)
}

// OpenFiles makes a Store of files that become so long. The first is made at once, so that a fault shows at the start.
func OpenFiles(create func() (File, error), limit int64) (*Store, error) {
	s := &Store{create: create, limit: limit, segments: map[uint32]*segment{}}
	if _, err := s.begin(); err != nil {
		return nil, fmt.Errorf("open spill: %w", err)
	}
	return s, nil
}

// Put keeps a copy of b until it is freed. After an error, such as that the disk is full, all that was put before is as
// it was, and another Put may go well.
func (s *Store) Put(b []byte) (Ref, error) {
	if len(b) > math.MaxInt32 {
		return Ref{}, fmt.Errorf("spill %d bytes: at most %d can be", len(b), math.MaxInt32)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	at, err := s.segmentFor(len(b))
	if err == nil {
		_, err = at.file.WriteAt(b, at.end) // the next Put overwrites bytes that a failed one has written
	}
	if err != nil {
		return Ref{}, fmt.Errorf("spill %d bytes: %w", len(b), err)
	}
	r := Ref{segment: s.current, offset: uint32(at.end), length: uint32(len(b)), sum: sum(b)}
	at.end += int64(len(b))
	s.extend(at, len(b))
	return r, nil
}

// segmentFor returns the segment for a piece of n bytes. The caller holds writing.
func (s *Store) segmentFor(n int) (*segment, error) {
	s.mu.RLock()
	at := s.segments[s.current]
	s.mu.RUnlock()
	if at == nil {
		return nil, os.ErrClosed
	}
	if at.end == 0 || at.end+int64(n) <= s.limit {
		return at, nil
	}
	return s.begin()
}

// begin makes the segment that pieces go to from here on. The caller holds writing, or is alone.
func (s *Store) begin() (*segment, error) {
	if s.current == math.MaxUint32 {
		return nil, errors.New("all numbers of segments are used up")
	}
	f, err := s.create()
	if err != nil {
		return nil, fmt.Errorf("begin a segment: %w", err)
	}
	next := &segment{file: f}
	s.mu.Lock()
	full := s.current
	s.current++
	s.segments[s.current] = next
	idle := s.retire(full)
	s.mu.Unlock()
	idle.close()
	return next, nil
}

func (s *Store) extend(at *segment, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.pieces++
	at.size += int64(n)
	s.live += int64(n)
	s.onDisk += int64(n)
}

// retire removes a segment without live pieces and returns it to be closed, or nil. The caller holds mu.
func (s *Store) retire(number uint32) *segment {
	at := s.segments[number]
	if at == nil || at.pieces > 0 {
		return nil
	}
	delete(s.segments, number)
	s.onDisk -= at.size
	return at
}

// Get appends the piece to dst. An error is an ErrLost where the piece is not as it was put, and else what the file
// said; dst is returned as it was then.
func (s *Store) Get(dst []byte, r Ref) ([]byte, error) {
	s.mu.RLock()
	at, closed := s.segments[r.segment], s.segments == nil
	s.mu.RUnlock()
	switch {
	case closed:
		return dst, fmt.Errorf("read %s: %w", r, os.ErrClosed)
	case at == nil:
		return dst, r.freed()
	}
	out := slices.Grow(dst, r.Len())[:len(dst)+r.Len()]
	b := out[len(dst):]
	n, err := at.file.ReadAt(b, int64(r.offset))
	switch {
	case n == len(b): // io.ReaderAt may tell of the end even so
	case errors.Is(err, io.EOF):
		return dst, fmt.Errorf("%w: of %s only %d are there", ErrLost, r, n)
	case errors.Is(err, os.ErrClosed): // since we looked
		return dst, r.freed()
	default:
		return dst, fmt.Errorf("read %s: %w", r, err)
	}
	if err := r.verify(b); err != nil {
		return dst, err
	}
	return out, nil
}

// Free gives the piece up. The caller calls it once for each piece; the zero Ref is no piece, and Free does nothing.
func (s *Store) Free(r Ref) {
	s.unref(r).close()
}

// unref counts a piece out, and returns the segment if that was its last and it is written to no more.
func (s *Store) unref(r Ref) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.segments[r.segment]
	if at == nil || at.pieces == 0 {
		return nil
	}
	at.pieces--
	s.live -= int64(r.length)
	if r.segment == s.current {
		return nil
	}
	return s.retire(r.segment)
}

// Bytes returns how many bytes are in pieces that are live, and how many the files have.
func (s *Store) Bytes() (live, onDisk int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live, s.onDisk
}

// Close gives everything up. Each later call but Bytes, Free and Close fails.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	segments := s.segments
	s.segments, s.live, s.onDisk = nil, 0, 0
	s.mu.Unlock()
	var errs []error
	for _, at := range segments {
		errs = append(errs, at.file.Close())
	}
	return errors.Join(errs...)
}

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
