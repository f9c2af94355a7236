package spill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The name of a segment is prefix, random characters, suffix.
const (
	prefix = "spill-"
	suffix = ".tmp"
)

// File is what a segment is written to.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// segment is a file of pieces, end to end.
type segment struct {
	file File
	end  int64 // where the next piece goes; guarded by Store.writing

	// The Store's mu guards these.

	pieces int   // live ones
	size   int64 // bytes of all pieces, live or not
}

// close gives the file back to the disk. It can't be of use any more, so an error means nothing. No segment is none.
func (g *segment) close() {
	if g != nil {
		_ = g.file.Close()
	}
}

// create makes a file for this process alone, which ends with it: the file loses its name at once, so a crash leaves
// nothing. Where the system keeps the name of an open file, Close takes it away, and what a crash leaves is swept.
func create(dir string, unlink func(name string) error) (File, error) {
	f, err := os.CreateTemp(dir, prefix+"*"+suffix)
	if err != nil {
		return nil, err
	}
	if err := unlink(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) { // another's sweep may have been first
		return named{f}, nil
	}
	return f, nil
}

// named is a file with a name that is removed when it is closed.
type named struct{ *os.File }

// Close implements io.Closer.
func (f named) Close() error {
	err := f.File.Close()
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// sweep removes what earlier processes left. A file that another process has open is none of these: it has no name, or
// the system does not let it go. That is why a file that can't be removed is no fault.
func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("find old segments: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return nil
}
