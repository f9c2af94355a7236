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
)

// Counters that are not stored yet are kept in a file, where the process has a data directory: what a killed process
// has counted, another process of that directory stores. It is not synchronized to the disk, and so survives the
// process but not the machine.
const (
	fileEvery  = 100 * time.Millisecond // at the soonest
	fileShare  = 50                     // writing takes at most one part in so many of the time
	fileFresh  = time.Second            // a living process touches its file so often
	fileOrphan = 10 * time.Second       // a file that nobody has touched for so long is that of a dead process
)

const filePrefix, fileSuffix = "charges-", ".json"

// chargesFile is the file of a process.
type chargesFile struct {
	dir, path string
	kept      float64 // RU that the counter had when it was written
	next      time.Time
	touched   time.Time
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
	w.file = &chargesFile{dir: dir, path: filepath.Join(dir, filePrefix+w.counter.Writer()+fileSuffix), kept: -1}
	return nil
}

// keep writes what is not stored yet if it has changed, and stores what dead processes have left.
func (w *ChargesWriter) keep(ctx context.Context, now time.Time) error {
	f := w.file
	if now.Sub(f.looked) >= fileOrphan/2 {
		f.looked = now
		if err := w.adopt(ctx, now); err != nil {
			return err
		}
	}
	if now.Before(f.next) {
		return nil
	}
	if rus := w.counter.RUs(); rus != f.kept {
		docs, err := w.counter.Take(now, 0)
		w.counter.PutBack(docs)
		if err == nil {
			err = f.write(docs, now)
		}
		if err != nil {
			return fmt.Errorf("keep charges: %w", err)
		}
		f.kept = rus
		f.next = now.Add(max(fileEvery, fileShare*time.Since(now)))
		return nil
	}
	if now.Sub(f.touched) >= fileFresh {
		f.touched = now
		if err := os.Chtimes(f.path, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep charges: %w", err)
		}
	}
	return nil
}

// write replaces the file.
func (f *chargesFile) write(docs []charges.Document, now time.Time) error {
	f.touched = now
	all := make([]keptDocument, 0, len(docs))
	for _, d := range docs {
		all = append(all, keptDocument{d.ID, d.Month.String(), d.Queries, d.Body})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.path+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Chtimes(f.path+".new", now, now); err != nil {
		return err
	}
	return os.Rename(f.path+".new", f.path)
}

// adopt stores what dead processes have counted, under the ids that they would have stored it. Another process may do
// so at the same time, or the dead one have done it: the documents are the same. A file that can't be read is removed.
func (w *ChargesWriter) adopt(ctx context.Context, now time.Time) error {
	files, err := filepath.Glob(filepath.Join(w.file.dir, filePrefix+"*"+fileSuffix))
	if err != nil {
		return err
	}
	for _, path := range files {
		about, err := os.Stat(path)
		if path == w.file.path || err != nil || now.Sub(about.ModTime()) < fileOrphan {
			continue
		}
		var all []keptDocument
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &all)
		}
		if err != nil {
			w.trouble.Log.Warn("charges that a process has left can't be read", "file", path, "error", err)
			all = nil
		}
		for _, d := range all {
			month, err := charges.ParseMonth(d.Month, now)
			if err != nil {
				return err
			}
			if _, err := w.docs.PutHeat(ctx, chargesDocument(charges.Document{ID: d.ID, Month: month, Queries: d.Queries,
				Body: d.Body})); err != nil {
				return fmt.Errorf("store charges of a process that has died: %w", err)
			}
		}
		_ = os.Remove(path + ".new") // that it died while writing
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// chargesDocument returns the document of the store for one of a counter.
func chargesDocument(d charges.Document) store.HeatDocument {
	keep := KeepCharges
	if d.Queries {
		keep = KeepSources
	}
	return store.HeatDocument{Key: chargesKey(d.Month), ID: d.ID, TTL: keep, Body: d.Body}
}
