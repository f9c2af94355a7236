package kv

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/gofrs/flock"
)

// Options say where a store keeps its data.
type Options struct {
	// Dir is the directory of the log, which must exist; "": in memory.
	Dir string
	// Sync makes what Wait has returned for survive a power failure.
	Sync bool
	// Fatal ends the process: the log cannot be written. A method that called it does not return, and nothing is
	// acknowledged any more.
	Fatal func(error)
	// SegmentBytes is the size at which a segment ends. Default 32 MB.
	SegmentBytes int64
	// Write replaces File.Write: tests fill a disk by it.
	Write func(*os.File, []byte) (int, error)
}

// Store is ordered keys with values and bodies. It is safe for concurrent use.
type Store struct {
	opts Options
	lock *flock.Flock

	mu   sync.RWMutex // guards below
	live *View
	// shown is a snapshot of live; nil after a change of live.
	shown    *View
	segments []*segment
	// end counts the bytes that were ever appended.
	end int64
	buf []byte

	syncing sync.Mutex // guards below; held before mu
	// synced is the value of end up to which the log survives a power failure.
	synced int64
}

// Get returns the entry of a key; nil without one.
func (s *Store) Get(key []byte) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.live.Get(key)
}

// Ascend visits the entries of a snapshot as View.Ascend.
func (s *Store) Ascend(low, high []byte) iter.Seq[*Entry] { return s.Snapshot().Ascend(low, high) }

// Descend visits the entries of a snapshot as View.Descend.
func (s *Store) Descend(low, high []byte) iter.Seq[*Entry] { return s.Snapshot().Descend(low, high) }

// Snapshot returns a snapshot of the store.
func (s *Store) Snapshot() *View {
	s.mu.RLock()
	v := s.shown
	s.mu.RUnlock()
	if v != nil {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown == nil {
		s.shown = &View{s.live.tree.Clone()}
	}
	return s.shown
}

// Fork returns a batch that can be read: it shows a snapshot of the store with the batch's changes.
func (s *Store) Fork() *Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Batch{own: &View{s.live.tree.Clone()}}
}

// Apply makes a batch visible, and safe from the end of the process. It is safe from a power failure when Wait has
// returned.
func (s *Store) Apply(b *Batch) {
	if len(b.ops) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(b.ops)
	b.upTo = s.end
	if s.rollIfLong() {
		s.compact()
	}
}

// append writes operations to the log and does them. mu is held.
func (s *Store) append(ops []operation) {
	s.shown = nil
	var active *segment
	if s.opts.Dir != "" {
		active = s.segments[len(s.segments)-1]
		s.buf = appendRecord(s.buf[:0], ops, active.size)
		if n, err := s.write(active.file, s.buf); err != nil {
			s.fatal(err)
		} else {
			active.size += int64(n)
			s.end += int64(n)
		}
	}
	for i := range ops {
		s.do(&ops[i], active)
	}
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
}

// do applies an operation of a segment to the tree. mu is held.
func (s *Store) do(o *operation, in *segment) {
	var e *Entry
	if o.kind == opSet {
		e = newEntry(o, in == nil)
		e.segment, e.at, e.bodyLen = in, o.at, uint32(cmp.Or(o.bodyLen, len(o.body)))
		if in != nil {
			in.live += e.size()
		}
	}
	for _, old := range s.live.change(o, e) {
		if old.segment != nil {
			old.segment.live -= old.size()
		}
	}
}

func (s *Store) write(f *os.File, p []byte) (int, error) {
	if s.opts.Write != nil {
		return s.opts.Write(f, p)
	}
	return f.Write(p)
}

func (s *Store) fatal(err error) {
	s.opts.Fatal(err)
	select {} // nothing is answered any more
}

// Wait returns when an applied batch survives what the options say.
func (s *Store) Wait(b *Batch) { s.wait(b.upTo) }

// Settle returns when all that is visible now survives what the options say, so that it may be answered.
func (s *Store) Settle() {
	if s.opts.Sync {
		s.mu.RLock()
		end := s.end
		s.mu.RUnlock()
		s.wait(end)
	}
}

// wait syncs the log up to a position. One sync serves all concurrent callers.
func (s *Store) wait(upTo int64) {
	if !s.opts.Sync || upTo == 0 {
		return
	}
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.synced >= upTo {
		return
	}
	s.mu.RLock()
	end, active := s.end, s.segments[len(s.segments)-1]
	s.mu.RUnlock()
	// Segments before it were synced when they ended.
	if err := active.file.Sync(); err != nil {
		s.fatal(err)
	}
	s.synced = end
}

// Commit applies a batch and waits for it.
func (s *Store) Commit(b *Batch) {
	s.Apply(b)
	s.Wait(b)
}

// Close closes the files. Nothing may use the store any more.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, g := range s.segments {
		err = cmp.Or(err, g.file.Close())
	}
	if s.lock != nil {
		err = cmp.Or(err, s.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", s.opts.Dir, err)
	}
	return nil
}
