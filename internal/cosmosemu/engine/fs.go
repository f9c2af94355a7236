package engine

import "github.com/cockroachdb/pebble/v2/vfs"

// pageCacheFS is a file system whose syncs do nothing. A commit with pebble.Sync then returns when
// its log record has been handed to the operating system, which is what survives the end of the
// process: Pebble's log writer answers a commit that asked for a sync only after it has written all
// of the log up to it (record.LogWriter.flushPending). A commit without that request would not do:
// it returns while the record is still in a buffer of the process.
type pageCacheFS struct{ vfs.FS }

// Unwrap returns the file system beneath.
func (fs pageCacheFS) Unwrap() vfs.FS { return fs.FS }

func (fs pageCacheFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(fs.FS.Create(name, category))
}

func (fs pageCacheFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return unsynced(fs.FS.OpenReadWrite(name, category, opts...))
}

func (fs pageCacheFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(fs.FS.ReuseForWrite(oldname, newname, category))
}

func (fs pageCacheFS) OpenDir(name string) (vfs.File, error) { return unsynced(fs.FS.OpenDir(name)) }

func unsynced(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                  { return nil }
func (unsyncedFile) SyncData() error              { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error)   { return false, nil }
func (unsyncedFile) Preallocate(_, _ int64) error { return nil }
