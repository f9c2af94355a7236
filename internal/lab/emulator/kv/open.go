package kv

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// ErrFormer is the error of a directory that an earlier release has written, by Pebble.
var ErrFormer = errors.New("it was written by an earlier release, in a format that this one does not read: " +
	"serve it with that release's `binnacle emulator`, or give --data-dir an empty directory")

const suffix = ".kv"

// notPebble is a file by which releases with Pebble refuse the directory, because they do not know its format.
// Without it, they would begin an empty store in the same directory.
const notPebble = "marker.format-version.000001.999"

// Open opens a store. A directory that another process holds is an error.
func Open(opts Options) (*Store, error) {
	opts.SegmentBytes = cmp.Or(opts.SegmentBytes, 32<<20)
	s := &Store{opts: opts, live: newView()}
	if opts.Dir == "" {
		return s, nil
	}
	if former, _ := filepath.Glob(filepath.Join(opts.Dir, "MANIFEST-*")); len(former) > 0 {
		return nil, ErrFormer
	}
	s.lock = flock.New(filepath.Join(opts.Dir, "lock"))
	switch held, err := s.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock it: %w", err)
	case !held:
		return nil, errors.New("it is in use by another process")
	}
	if err := s.load(); err != nil {
		_ = s.Close() // the error that matters is the other one
		return nil, err
	}
	return s, nil
}

// load reads the segments, and begins the first one in an empty directory.
func (s *Store) load() error {
	files, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return err
	}
	var numbers []uint64
	for _, f := range files {
		if n, err := strconv.ParseUint(strings.TrimSuffix(f.Name(), suffix), 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	var floor uint64
	for i, n := range numbers {
		g, err := s.openSegment(n)
		if err != nil {
			return err
		}
		if floor, err = s.replay(g, i == len(numbers)-1, floor); err != nil {
			return fmt.Errorf("read %s: %w", g.path, err)
		}
	}
	s.forget(floor)
	if len(s.segments) > 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(s.opts.Dir, notPebble), nil, 0o644); err != nil {
		return err
	}
	return s.begin(1)
}

// forget drops the segments below the floor: they were compacted, and not all of their deletions are known.
func (s *Store) forget(floor uint64) {
	if len(s.segments) == 0 || s.segments[0].number >= floor {
		return
	}
	var old []*Entry
	for e := range s.live.Ascend(nil, nil) {
		if e.segment.number < floor {
			old = append(old, e)
		}
	}
	for _, e := range old {
		s.live.tree.Delete(e)
	}
	for len(s.segments) > 0 && s.segments[0].number < floor {
		_ = s.segments[0].file.Close()
		_ = os.Remove(s.segments[0].path) // else the next time
		s.segments = s.segments[1:]
	}
}

// openSegment opens or makes a file and appends it to the segments.
func (s *Store) openSegment(number uint64) (*segment, error) {
	g := &segment{number: number, path: filepath.Join(s.opts.Dir, fmt.Sprintf("%010d%s", number, suffix))}
	var err error
	if g.file, err = os.OpenFile(g.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	s.segments = append(s.segments, g)
	return g, nil
}

// begin makes a segment, to which is written from now on.
func (s *Store) begin(number uint64) error {
	g, err := s.openSegment(number)
	if err != nil {
		return err
	}
	return s.head(g)
}

func (s *Store) head(g *segment) error {
	if _, err := s.write(g.file, []byte(magic)); err != nil {
		return err
	}
	g.size = int64(len(magic))
	if !s.opts.Sync {
		return nil
	}
	dir, err := os.Open(s.opts.Dir)
	if err != nil {
		return err
	}
	_ = dir.Sync() // not everywhere can directories be synced
	return cmp.Or(dir.Close(), g.file.Sync())
}

// replay does the operations of a segment, and returns the floor. The newest may end in the middle of a record.
func (s *Store) replay(g *segment, newest bool, floor uint64) (uint64, error) {
	info, err := g.file.Stat()
	if err != nil {
		return 0, err
	}
	total := info.Size()
	begin := make([]byte, len(magic))
	if _, err := g.file.ReadAt(begin, 0); err != nil || string(begin) != magic {
		if newest && strings.HasPrefix(magic, string(begin[:min(total, int64(len(begin)))])) {
			return floor, cmp.Or(g.file.Truncate(0), s.head(g))
		}
		return 0, errors.New("it is not a log of this release")
	}
	g.size = int64(len(magic))
	r := records{segment: g, total: total, bodies: newest, reader: bufio.NewReaderSize(nil, 16<<10)}
	r.seek(g.size)
	for g.size < total {
		ops, length, err := r.next(g.size)
		if errors.Is(err, errRecord) && newest {
			return floor, g.file.Truncate(g.size)
		}
		if err != nil {
			return 0, err
		}
		for i := range ops {
			if ops[i].kind == opFloor {
				floor, _ = binary.Uvarint(ops[i].key)
			}
			s.do(&ops[i], g)
		}
		g.size += length
		s.end += length
	}
	return floor, nil
}

// records reads the records of a segment in their order.
type records struct {
	segment *segment
	total   int64
	bodies  bool // they are checked
	reader  *bufio.Reader
	buf     []byte
	ops     []operation
}

func (r *records) seek(to int64) {
	r.reader.Reset(io.NewSectionReader(r.segment.file, to, r.total-to))
}

// next returns the operations of the record at an offset, valid until the next call, and the record's length.
func (r *records) next(offset int64) ([]operation, int64, error) {
	left := r.total - offset
	var head [recordHead]byte
	if left < recordHead {
		return nil, 0, errRecord
	}
	if _, err := io.ReadFull(r.reader, head[:]); err != nil {
		return nil, 0, err
	}
	length, bodies := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	whole := recordHead + int64(length) + int64(bodies)
	if whole > left {
		return nil, 0, errRecord
	}
	r.buf = append(slices.Grow(r.buf[:0], 12+int(length)), head[4:]...)[:12+length]
	if _, err := io.ReadFull(r.reader, r.buf[12:]); err != nil {
		return nil, 0, err
	}
	if crc32.Checksum(r.buf, castagnoli) != binary.LittleEndian.Uint32(head[:]) {
		return nil, 0, errRecord
	}
	if err := r.pass(offset+whole, int(bodies), binary.LittleEndian.Uint32(head[12:])); err != nil {
		return nil, 0, err
	}
	var err error
	r.ops, err = decodeOperations(r.ops[:0], r.buf[12:], offset)
	return r.ops, whole, err
}

// pass passes over the bodies of a record that ends at an offset.
func (r *records) pass(end int64, n int, sum uint32) error {
	switch {
	case r.bodies:
		h := crc32.New(castagnoli)
		if _, err := io.CopyN(h, r.reader, int64(n)); err != nil {
			return err
		}
		if h.Sum32() != sum {
			return errRecord
		}
	case n <= r.reader.Buffered():
		_, err := r.reader.Discard(n)
		return err
	default:
		r.seek(end)
	}
	return nil
}
