package heatlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/store"

	"github.com/gofrs/flock"
)

// Counters that are not stored yet are kept in a file, where the process has a data directory: what a killed process
// has counted, another process of that directory stores. It is not synchronized to the disk, and so survives the
// process but not the machine.
const (
	fileEvery = 100 * time.Millisecond // at the soonest
	fileShare = 20                     // writing takes at most one part in so many of the time
	fileLook  = 5 * time.Second        // between two looks for files of dead processes
)

// Names of files.
const (
	filePrefix = "charges-"
	fileSuffix = ".json"
	newSuffix  = ".new"
	lockSuffix = ".lock"
)

type chargesFile struct {
	dir, path string
	lock      *flock.Flock // held as long as the process lives
	kept      float64      // RU that the counter had when it was written
	next      time.Time
	looked    time.Time // for files of others
}

// keptDocument is a document in a file.
type keptDocument struct {
	ID      string          `json:"id"`
	Month   string          `json:"month"`
	Queries bool            `json:"queries,omitempty"`
	Body    json.RawMessage `json:"body"`
}

// KeepIn has what is not stored yet kept in a directory, which is made.
func (w *ChargesWriter) KeepIn(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("keep charges: %w", err)
	}
	path := filepath.Join(dir, filePrefix+w.counter.Writer()+fileSuffix)
	f := &chargesFile{dir: dir, path: path, lock: flock.New(path + lockSuffix), kept: -1}
	locked, err := f.lock.TryLock()
	if err == nil && !locked {
		err = fmt.Errorf("%s is in use", path)
	}
	if err != nil {
		return fmt.Errorf("keep charges: %w", err)
	}
	w.file = f
	return nil
}

// keep writes what is not stored yet if it has changed, and stores what dead processes have left.
func (w *ChargesWriter) keep(ctx context.Context, now time.Time) (err error) {
	f := w.file
	if rus := w.counter.RUs(); rus != f.kept && !now.Before(f.next) {
		var docs []charges.Document
		docs, err = w.counter.Take(now, w.own.estimate)
		w.counter.PutBack(docs)
		if err == nil {
			err = f.write(docs)
		}
		if err == nil {
			f.kept = rus
		}
		f.next = now.Add(max(fileEvery, fileShare*time.Since(now)))
	}
	if now.Sub(f.looked) >= fileLook {
		f.looked = now
		err = errors.Join(err, w.adopt(ctx))
	}
	if err != nil {
		return fmt.Errorf("keep charges: %w", err)
	}
	return nil
}

func (f *chargesFile) write(docs []charges.Document) error {
	all := make([]keptDocument, 0, len(docs))
	for _, d := range docs {
		all = append(all, keptDocument{d.ID, d.Month.String(), d.Queries, d.Body})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.path+newSuffix, text, 0o600); err != nil {
		return err
	}
	return os.Rename(f.path+newSuffix, f.path)
}

// precede has the file hold what will be stored next, so that it never has less than the store: it may be stored again.
// Where it can't be written, such as on a full disk, there is none.
func (f *chargesFile) precede(docs []charges.Document) error {
	if f.write(docs) == nil {
		return nil
	}
	return remove(f.path) // keep reports that files can't be written
}

// release gives the file up: for good where all is stored, else to another process.
func (f *chargesFile) release(stored bool) {
	if stored && remove(f.path) == nil {
		_, _ = remove(f.path+newSuffix), remove(f.path+lockSuffix)
	}
	_ = f.lock.Unlock()
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// adopt stores what dead processes have counted: those that hold no lock any more.
func (w *ChargesWriter) adopt(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(w.file.dir, filePrefix+"*"+fileSuffix))
	if err != nil {
		return err
	}
	for _, path := range files {
		if path == w.file.path {
			continue
		}
		left := &chargesFile{path: path, lock: flock.New(path + lockSuffix)}
		locked, err := left.lock.TryLock()
		if err != nil {
			return err
		}
		if !locked {
			continue
		}
		err = w.storeLeft(ctx, path)
		if left.release(err == nil); err != nil {
			return fmt.Errorf("store charges of a process that has died: %w", err)
		}
	}
	return nil
}

// storeLeft stores a file's documents under the ids that the dead process would have stored them. It may have done so:
// the documents are the same. A file that can't be read has nothing to store.
func (w *ChargesWriter) storeLeft(ctx context.Context, path string) error {
	all, err := readKept(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process has stored it
		w.trouble.Log.Warn("charges that a process has left can't be read", "file", path, "error", err)
	}
	for _, d := range all {
		if _, err := w.docs.PutHeat(ctx, chargesDocument(d)); err != nil {
			return err
		}
	}
	return nil
}

// readKept reads the documents of a file: all or none. Their month may not have begun by the clock of this process.
func readKept(path string) (out []charges.Document, err error) {
	var all []keptDocument
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		begin, err := time.Parse("2006-01", d.Month)
		if err == nil {
			err = charges.NewSum().Add(d.Body)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, charges.Document{ID: d.ID, Month: charges.MonthOf(begin), Queries: d.Queries, Body: d.Body})
	}
	return out, nil
}

func chargesDocument(d charges.Document) store.HeatDocument {
	keep := KeepCharges
	if d.Queries {
		keep = KeepSources
	}
	return store.HeatDocument{Key: chargesKey(d.Month), ID: d.ID, TTL: keep, Body: d.Body}
}
