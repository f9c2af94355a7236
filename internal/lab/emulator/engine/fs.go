package engine

import "github.com/cockroachdb/pebble/v2/vfs"

// wrappedFS is a file system that wraps the files which are written.
type wrappedFS struct {
	vfs.FS
	file func(vfs.File, error) (vfs.File, error)
}

// Unwrap returns the file system beneath.
func (fs wrappedFS) Unwrap() vfs.FS { return fs.FS }

// Create makes a file.
func (fs wrappedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.file(fs.FS.Create(name, category))
}

// OpenReadWrite opens a file.
func (fs wrappedFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return fs.file(fs.FS.OpenReadWrite(name, category, opts...))
}

// ReuseForWrite renames a file and opens it.
func (fs wrappedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.file(fs.FS.ReuseForWrite(oldname, newname, category))
}

// OpenDir opens a directory, which may be synced.
func (fs wrappedFS) OpenDir(name string) (vfs.File, error) { return fs.file(fs.FS.OpenDir(name)) }

// pageCacheFS returns a file system with syncs that do nothing. A commit with pebble.Sync then returns when its log
// record has been handed to the operating system, which survives the end of the process: Pebble's log writer answers a
// commit that asked for a sync only after it has written all of the log up to it (record.LogWriter.flushPending). A
// commit without that request would not do: it returns while the record is still in a buffer of the process.
func pageCacheFS(fs vfs.FS) vfs.FS { return wrappedFS{fs, unsynced} }

func unsynced(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

type unsyncedFile struct{ vfs.File }

// Sync does nothing: what is written is in the page cache, which outlives the process.
func (unsyncedFile) Sync() error { return nil }

// SyncData does nothing, as Sync.
func (unsyncedFile) SyncData() error { return nil }

// SyncTo does nothing, and says that it did not sync all.
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }

// Preallocate does nothing: files grow as they are written.
func (unsyncedFile) Preallocate(_, _ int64) error { return nil }
