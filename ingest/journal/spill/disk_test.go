package spill_test

import (
	"io"
	"os"
	"sync"
	"syscall"
	"testing"

	"binnacle/ingest/journal/spill"

	"github.com/stretchr/testify/require"
)

// disk is a disk of a size. It can be damaged.
type disk struct {
	mu    sync.Mutex // guards all that follows, and what its files hold
	room  int        // bytes; counted when they are written first
	files []*diskFile
	open  int
	sick  error // what every read says
}

// diskFile is a file on a disk.
type diskFile struct {
	on     *disk
	bytes  []byte
	closed bool
}

func (d *disk) create() (spill.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &diskFile{on: d}
	d.files = append(d.files, f)
	d.open++
	return f, nil
}

// WriteAt implements io.WriterAt. A disk that gets full takes what it has room for.
func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	f.on.mu.Lock()
	defer f.on.mu.Unlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	n := min(len(b), len(f.bytes)-int(at)+f.on.room)
	if more := int(at) + n - len(f.bytes); more > 0 {
		f.on.room -= more
		f.bytes = append(f.bytes, make([]byte, more)...)
	}
	copy(f.bytes[at:], b[:n])
	if n < len(b) {
		return n, &os.PathError{Op: "write", Path: "segment", Err: syscall.ENOSPC}
	}
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (f *diskFile) ReadAt(b []byte, at int64) (int, error) {
	f.on.mu.Lock()
	defer f.on.mu.Unlock()
	if f.closed {
		return 0, os.ErrClosed
	}
	if f.on.sick != nil {
		return 0, f.on.sick
	}
	n := copy(b, f.bytes[min(int(at), len(f.bytes)):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (f *diskFile) Close() error {
	f.on.mu.Lock()
	defer f.on.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.closed = true
	f.on.open--
	f.on.room += len(f.bytes)
	f.bytes = nil
	return nil
}

// on is a Store with segments of so many bytes on a disk, and closed when the test ends.
func on(t *testing.T, d *disk, limit int64) *spill.Store {
	t.Helper()
	s, err := spill.OpenFiles(d.create, limit)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.Zero(t, d.open, "files are left open")
	})
	return s
}
