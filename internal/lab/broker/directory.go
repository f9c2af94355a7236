package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrInUse is the error of Open when another broker has the data directory.
var ErrInUse = errors.New("in use by another broker")

// directory is a data directory that this process owns until it is released.
type directory struct {
	lock *flock.Flock
	// log is kfake's folder; kfake removes *.tmp files there, so no other program may keep files in it.
	log string
}

// openDirectory creates the directory if it is missing, and locks it: kfake takes no lock, and two of them would ruin
// the log.
func openDirectory(path string) (*directory, error) {
	d := &directory{lock: flock.New(filepath.Join(path, "lock")), log: filepath.Join(path, "log")}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	if err := makePrivate(d.log); err != nil {
		return nil, err
	}
	locked, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the directory: %w", err)
	}
	if !locked {
		return nil, ErrInUse
	}
	// kfake would prefer this file's users to the users of its configuration, and keeps their passwords in
	// clear text.
	if err := os.Remove(filepath.Join(d.log, "sasl.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// makePrivate creates a directory that only this user may read: kfake makes its files readable to all.
func makePrivate(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(path, 0o700)
}

func (d *directory) release() error { return d.lock.Close() }
