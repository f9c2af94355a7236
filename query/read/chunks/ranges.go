package chunks

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/sharding"

	"golang.org/x/sync/semaphore"
)

// maxRanges is how many ranges of a key are known at most.
const maxRanges = 8

// longer bounds the read that a query waits for, as a multiple of the query's own range.
const longer = 4

// rangesKey names ranges.
type rangesKey struct {
	sharding.Key        // without a device for a first-level key
	metrics      string // their names
}

// ranges are the known ranges of a key, each with the columns of the same metrics. One query at a time reads the store
// for them.
type ranges struct {
	key  rangesKey           // in the room
	turn *semaphore.Weighted // its one holder may replace ranges

	mu    sync.Mutex        // guards below
	queue []telemetry.Range // ranges of the queries that have the turn or wait for it
	all   []*known          // the one that was used last in front
}

// known is a range of a key with all its chunks that were stored before a moment. What is known of one range says
// nothing about another range. It does not change, but for its note.
type known struct {
	in      *ranges
	number  uint64 // the same in a range and in what takes its place
	r       telemetry.Range
	asOf    int64     // s since 1970 UTC, by the service's clock; 0: nothing is known
	read    time.Time // the start of the last read of the whole range
	stored  map[chunkRef]*knownChunk
	changes kept.Changes // versions of stored
	date    int64        // ms since 1970 UTC, by the service's clock: when the last load was answered; 0 is not known
	expires int64        // the first expiry of a stored chunk
	load    uint64       // number of the load that read the whole range up to date
	note    atomic.Pointer[heads.Note]
	// complete becomes the note if the query that has loaded the range finds that it lacks nothing.
	complete heads.Note
}

// foundRange is a range that was known, or was read.
type foundRange struct {
	*known
	paid uint64    // the number of the load that the query has made for it; 0 for none
	due  time.Time // the store must be asked again then; zero if it was asked
}

type chunkRef struct {
	device string
	id     chunk.ID
}

// knownChunk is a chunk that was read. Only its frame changes.
type knownChunk struct {
	chunk   *chunk.Chunk
	expires int64  // ms since 1970 UTC: from then on the service may have removed it
	load    uint64 // that has read it
	room    *kept.Room
	in      *ranges

	mu    sync.Mutex // guards below
	frame *chunk.Frame
}

// find returns the known range that has all of r, or else at least half of it and can be made longer, nil for none.
func (s *ranges) find(r telemetry.Range) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(k *known) bool { return contains(k.r, r) })
	if i < 0 {
		i = slices.IndexFunc(s.all, func(k *known) bool { return length(piece.Within(k.r, r)) > length(r)/2 })
	}
	if i < 0 {
		return nil
	}
	k := s.all[i]
	s.all = slices.Insert(slices.Delete(s.all, i, i+1), 0, k)
	return k
}

// replace puts a range in the place of an older one, and of others that lie in it. It returns about how much memory all
// ranges take. The caller has the turn.
func (s *ranges) replace(old, next *known) (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(s.all, func(k *known) bool { return k == old || contains(next.r, k.r) })
	s.all = slices.Insert(rest, 0, next)
	s.all = s.all[:min(len(s.all), maxRanges)]
	for _, k := range s.all {
		for _, c := range k.stored {
			bytes += c.bytes()
		}
	}
	return bytes
}

func length(r telemetry.Range) int64 { return r.To - r.From }

func contains(r, part telemetry.Range) bool { return r.From <= part.From && r.To >= part.To }

// wait waits for the turn, for a query of r. It returns false at once if a much longer range is being read, or will be
// before: a scan is faster. With true and no error the caller leaves.
func (s *ranges) wait(ctx context.Context, r telemetry.Range) (ok bool, err error) {
	s.mu.Lock()
	ok = !slices.ContainsFunc(s.queue, func(other telemetry.Range) bool { return length(other) > longer*length(r) })
	if ok {
		s.queue = append(s.queue, r)
	}
	s.mu.Unlock()
	if ok {
		if err = s.turn.Acquire(ctx, 1); err != nil {
			s.unqueue(r)
		}
	}
	return ok && err == nil, err
}

func (s *ranges) leave(r telemetry.Range) {
	s.unqueue(r)
	s.turn.Release(1)
}

func (s *ranges) unqueue(r telemetry.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, r)
	s.queue = slices.Delete(s.queue, i, i+1)
}

// isKnown reports whether the range is known and must not be read again as a whole.
func (k *known) isKnown(now time.Time, age time.Duration) bool {
	return k != nil && k.asOf > 0 && now.Sub(k.read) < age
}

// windows returns the scans after which all of r and of the known range is known. They ask for everything outside the
// known range, and there for chunks stored since asOf, unless it is as new as it has to be.
func (k *known) windows(r telemetry.Range, isNew bool) (out []store.Window) {
	for _, w := range []store.Window{
		{Range: telemetry.Range{From: r.From, To: k.r.From}},
		{Range: k.r, Since: k.asOf},
		{Range: telemetry.Range{From: k.r.To, To: r.To}},
	} {
		if !w.Range.Empty() && !(isNew && w.Since > 0) {
			out = append(out, w)
		}
	}
	return out
}

// put sets what is stored: what a load has found, and what was known before. A found chunk with the ETag of the known
// one is that (rule R7), and keeps its decoded rows. After a load of everything a chunk that was not found is gone.
func (k *known) put(before *known, found map[chunkRef]*knownChunk, everything bool) {
	k.stored, k.changes, k.expires = found, before.changes, math.MaxInt64
	changed := int64(kept.Never)
	for id, s := range before.stored {
		next := found[id]
		switch {
		case next != nil && next.chunk.ETag() != "" && next.chunk.ETag() == s.chunk.ETag():
			found[id] = s
		case next != nil || everything:
			changed = min(changed, s.chunk.Header.From)
		default:
			found[id] = s
		}
	}
	for id, s := range found {
		if before.stored[id] != s {
			changed = min(changed, s.chunk.Header.From)
		}
		k.expires = min(k.expires, s.expires)
	}
	k.changes = k.changes.With(changed)
}

// Expiry returns the earliest time at which the service may remove a chunk. The service counts from when it took the
// document, which of a copy is long after its cut (rule T5).
func Expiry(c *chunk.Chunk) int64 {
	if c.Header.TTL == 0 {
		return math.MaxInt64
	}
	return 1000 * (cmp.Or(c.Stored(), c.Header.Cut/1000) + int64(c.Header.TTL))
}

// bytes returns how many bytes the chunk takes, with its decoded rows.
func (s *knownChunk) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := piece.ChunkBytes(s.chunk)
	if s.frame != nil {
		n += piece.FrameBytes(*s.frame)
	}
	return n
}

// Decode implements piece.Decoder. It keeps the rows while there is room: decoding a chunk again is cheaper than
// reading another one again.
func (s *knownChunk) Decode() (chunk.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frame != nil {
		return *s.frame, nil
	}
	f, err := s.chunk.Frame(nil)
	if err == nil && s.room.GrowIfFree(s.in.key, piece.FrameBytes(f)) {
		s.frame = &f
	}
	return f, err
}
