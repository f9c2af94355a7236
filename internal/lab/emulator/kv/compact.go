// Package kv stores the data of an emulated account: ordered keys with small values, and bodies that belong to
// some values. Keys and values are in memory, in a B-tree with snapshots that cost nothing. Writes go to a log
// of segments, from which Open builds the tree; bodies stay in the log. The package must not know the meaning
// of keys. The format of the log is in record.go, and its reasons in
// docs/internals/adr/0002-embedded-cosmos-db.md.
package kv

import (
	"bufio"
	"encoding/binary"
	"os"
)

// rollIfLong begins a segment when the newest is long enough. mu is held.
func (s *Store) rollIfLong() bool {
	if s.opts.Dir == "" {
		return false
	}
	active := s.segments[len(s.segments)-1]
	if active.size < s.opts.SegmentBytes {
		return false
	}
	if s.opts.Sync {
		if err := active.file.Sync(); err != nil {
			s.fatal(err)
		}
	}
	if err := s.begin(active.number + 1); err != nil {
		s.fatal(err)
	}
	return true
}

// compactions is how many segments are compacted when one is full: so the log shrinks while it is written.
const compactions = 2

// compact frees the oldest segments while less than half of the log counts. mu is held.
func (s *Store) compact() {
	for range compactions {
		var total, live int64
		for _, g := range s.segments {
			total += g.size
			live += g.live
		}
		if len(s.segments) < 3 || total-live < live+s.opts.SegmentBytes {
			return
		}
		s.free(s.segments[0])
	}
}

// free writes what counts of the oldest segment to the newest, and removes it. What it deletes needs no trace, for
// nothing older is there. mu is held.
func (s *Store) free(g *segment) {
	r := records{segment: g, total: g.size, reader: bufio.NewReaderSize(nil, 16<<10)}
	at := int64(len(magic))
	r.seek(at)
	for at < g.size && g.live > 0 {
		ops, length, err := r.next(at)
		if err != nil {
			s.fatal(err)
		}
		s.copyLive(g, ops)
		at += length
	}
	s.append([]operation{{kind: opFloor, key: binary.AppendUvarint(nil, g.number+1)}})
	if s.opts.Sync {
		if err := s.segments[len(s.segments)-1].file.Sync(); err != nil {
			s.fatal(err)
		}
	}
	// Snapshots may read it still, so its file is closed when nothing refers to it any more. Where an open file cannot
	// be removed, the next Open does it.
	_ = os.Remove(g.path)
	s.segments = s.segments[1:]
}

// copyLive appends the operations of a segment that still count. mu is held.
func (s *Store) copyLive(g *segment, ops []operation) {
	var keep []operation
	for i := range ops {
		o := &ops[i]
		if o.kind != opSet {
			continue
		}
		e := s.live.Get(o.key)
		if e == nil || e.segment != g || e.at != o.at {
			continue
		}
		body, err := e.Body(nil)
		if err != nil {
			s.fatal(err)
		}
		keep = append(keep, operation{kind: opSet, key: o.key, value: o.value, body: body})
	}
	if len(keep) > 0 {
		s.append(keep)
		s.rollIfLong()
	}
}
