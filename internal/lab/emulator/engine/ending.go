package engine

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ending is how an account ends when its directory cannot be written: with the process, at once. A write that failed
// may be visible already, and the storage engine cannot go on after a hole in its log. Acknowledged writes are in the
// directory, as after kill -9, and others are not acknowledged: calls of ending do not return.
type ending struct {
	dir   string
	fatal func(error)
	early chan error // why it cannot be opened

	mu     sync.Mutex // guards below
	opened bool       // before, a failure is an error of Open
	begun  bool
}

func newEnding(dir string, fatal func(error)) *ending {
	return &ending{dir: dir, fatal: fatal, early: make(chan error, 1)}
}

// now ends the process.
func (e *ending) now(err error) {
	e.mu.Lock()
	first, opened := !e.begun, e.opened
	e.begun = true
	if first && !opened {
		e.early <- err
	}
	e.mu.Unlock()
	if first && opened {
		e.fatal(fmt.Errorf("data directory %s cannot be written: %w; what was acknowledged is stored: start again when it "+
			"can be", e.dir, err))
	}
	select {} // nothing is answered any more
}

// open opens the storage engine. What ends the process later on is an error here; what was begun then stands still for
// ever, for the storage engine has no other way back.
func (e *ending) open(open func() (*pebble.DB, error)) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	done := make(chan result, 1)
	go func() {
		db, err := open()
		done <- result{db, err}
	}()
	select {
	case err := <-e.early:
		return nil, err
	case r := <-done:
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.begun {
			return nil, <-e.early
		}
		e.opened = r.err == nil
		return r.db, r.err
	}
}

// onPanic ends the process when the storage engine has panicked, for it does so where it could not go on. A server of
// HTTP would take the panic for one of a request.
func (e *ending) onPanic() {
	if r := recover(); r != nil {
		e.now(fmt.Errorf("storage engine: %v", r))
	}
}

// watchedFS is a file system that ends the process when a write fails, in whichever goroutine of the storage engine.
// Without it some failures end in a panic, some are tried again for ever, and some are answered.
type watchedFS struct {
	wrappedFS
	end *ending
}

// watch returns a file system that is watched.
func watch(fs vfs.FS, end *ending) vfs.FS {
	w := watchedFS{wrappedFS{FS: fs}, end}
	w.file = func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, w.named(err)
		}
		return watchedFile{f, end}, nil
	}
	return w
}

// Rename renames a file, which may need room for a name.
func (fs watchedFS) Rename(oldname, newname string) error {
	return fs.named(fs.FS.Rename(oldname, newname))
}

// Link needs room for a name.
func (fs watchedFS) Link(oldname, newname string) error {
	return fs.named(fs.FS.Link(oldname, newname))
}

// named passes an error on, as the storage engine knows what to do about names that are there or are not, unless there
// is no room.
func (fs watchedFS) named(err error) error {
	if err != nil && full(err) {
		fs.end.now(err)
	}
	return err
}

// full reports that an operation failed for want of room.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) ||
		errors.Is(err, syscall.EROFS)
}

// watchedFile is a file. Any failure to write it ends the process.
type watchedFile struct {
	vfs.File
	end *ending
}

// Write writes to the file; where it fails, the process ends.
func (f watchedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.written(err)
}

// WriteAt writes to the file; where it fails, the process ends.
func (f watchedFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	return n, f.written(err)
}

// Sync syncs the file; where it fails, the process ends.
func (f watchedFile) Sync() error { return f.written(f.File.Sync()) }

// SyncData syncs the file's data; where it fails, the process ends.
func (f watchedFile) SyncData() error { return f.written(f.File.SyncData()) }

func (f watchedFile) written(err error) error {
	if err != nil {
		f.end.now(err)
	}
	return nil
}
