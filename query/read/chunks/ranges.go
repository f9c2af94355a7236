package chunks

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/sharding"
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

// ranges are the known ranges of a key, each with the columns of the same metrics.
type ranges struct {
	key  sharding.Key
	room *kept.Room
	item *kept.Item

	mu  sync.Mutex // guards below
	all []*known   // the one that was used last in front
}

// known is a range of a key with all its chunks that were stored before a moment. What is known of one range says
// nothing about another range.
type known struct {
	of     *ranges
	number uint64 // no other range has it

	// Guarded by of.mu.
	r       telemetry.Range
	queue   []telemetry.Range // ranges of the queries that read it or wait to
	bytes   int64
	dropped bool

	reading chan struct{} // a lock that a context can end; it guards what follows
	asOf    int64         // s since 1970 UTC, by the service's clock; 0: nothing is known
	read    time.Time     // the start of the last read of the whole range
	stored  map[chunkRef]*knownChunk
	changes kept.Changes // versions of stored
	date    int64        // ms since 1970 UTC, by the service's clock: when the last load was answered; 0 is not known
	expires int64        // the first expiry of a stored chunk
	load    uint64       // number of the last load
	paid    uint64       // the same, also of a load of a part
	note    heads.Note   // the last complete answer's (rule R4)
}

type chunkRef struct{ device, id string }

// knownChunk is a chunk that was read. Only its frame changes.
type knownChunk struct {
	chunk   *chunk.Chunk
	expires int64 // ms since 1970 UTC: from then on the service may have removed it
	load    uint64
	of      *known

	mu      sync.Mutex // guards below
	frame   *chunk.Frame
	removed bool // its range has dropped it
}

// find returns the known range that has all of r, or else at least half of it and can be made longer. If no range
// fits, find adds an empty one, unless the number for it is 0: then it returns nil.
func (s *ranges) find(r telemetry.Range, number uint64) *known {
	s.mu.Lock()
	defer s.mu.Unlock()
	best, most := -1, length(r)/2
	for i, k := range s.all {
		part := length(piece.Within(k.r, r))
		if part > most || best >= 0 && part == most && length(k.r) > length(s.all[best].r) {
			best, most = i, part
		}
	}
	var k *known
	switch {
	case best >= 0:
		k = s.all[best]
		s.all = slices.Delete(s.all, best, best+1)
	case number == 0:
		return nil
	default:
		k = &known{of: s, number: number, r: r, reading: make(chan struct{}, 1), stored: make(map[chunkRef]*knownChunk)}
	}
	if s.all = slices.Insert(s.all, 0, k); len(s.all) > maxRanges {
		s.drop(s.all[maxRanges])
	}
	return k
}

// drop drops a range. A query that is reading it finishes with the chunks that it has. The caller holds mu.
func (s *ranges) drop(k *known) {
	i := slices.Index(s.all, k)
	s.all = slices.Delete(s.all, i, i+1)
	s.room.Grow(s.item, -k.bytes)
	k.bytes, k.dropped = 0, true
}

// extend changes the range that is known, and drops others that lie in it.
func (k *known) extend(r telemetry.Range) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	k.r = r
	for _, other := range slices.Clone(k.of.all) {
		if other != k && len(other.queue) == 0 && contains(r, other.r) {
			k.of.drop(other)
		}
	}
}

// grow adds to what a range takes in the room. With ifFree it does not where something would have to be evicted.
func (k *known) grow(bytes int64, ifFree bool) bool {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	if k.dropped || ifFree && !k.of.room.GrowIfFree(k.of.item, bytes) {
		return false
	}
	k.bytes += bytes
	if !ifFree {
		k.of.room.Grow(k.of.item, bytes)
	}
	return true
}

func length(r telemetry.Range) int64 { return r.To - r.From }

func contains(r, part telemetry.Range) bool { return r.From <= part.From && r.To >= part.To }

// errLongerRead says that a much longer range is being read, or will be before: a scan is faster.
var errLongerRead = errors.New("a longer range is being read")

// acquire waits until the range may be read and changed, for a query of r.
func (k *known) acquire(ctx context.Context, r telemetry.Range) error {
	k.of.mu.Lock()
	if slices.ContainsFunc(k.queue, func(other telemetry.Range) bool { return length(other) > longer*length(r) }) {
		k.of.mu.Unlock()
		return errLongerRead
	}
	k.queue = append(k.queue, r)
	k.of.mu.Unlock()
	select {
	case k.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		k.leave(r)
		return ctx.Err()
	}
}

// release ends what acquire has begun.
func (k *known) release(r telemetry.Range) {
	k.leave(r)
	<-k.reading
}

func (k *known) leave(r telemetry.Range) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	if i := slices.Index(k.queue, r); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
	}
}

// tryAcquire begins what acquire does, unless the query would have to wait.
func (k *known) tryAcquire() bool {
	select {
	case k.reading <- struct{}{}:
		return true
	default:
		return false
	}
}

// isKnown reports whether the range is known and must not be read again as a whole.
func (k *known) isKnown(now time.Time, age time.Duration) bool {
	return k.asOf > 0 && now.Sub(k.read) < age
}

// windows returns the scans after which all of r is known, and the range that is known then. The scans ask for chunks
// stored since asOf in the known range and for everything outside it, or for everything in r.
func (k *known) windows(r telemetry.Range, isKnown bool) (out []store.Window, next telemetry.Range) {
	if !isKnown {
		return []store.Window{{Range: r}}, r
	}
	next = telemetry.Range{From: min(k.r.From, r.From), To: max(k.r.To, r.To)}
	for _, w := range []store.Window{
		{Range: telemetry.Range{From: next.From, To: k.r.From}},
		{Range: k.r, Since: k.asOf},
		{Range: telemetry.Range{From: k.r.To, To: next.To}},
	} {
		if !w.Range.Empty() {
			out = append(out, w)
		}
	}
	return out, next
}

// put puts in what a load found, and returns the first instant of a chunk that has come or gone. After a load of
// everything a chunk that was not found is gone from the store. One with the ETag of the known chunk is that (rule R7),
// and keeps its decoded rows.
func (k *known) put(found map[chunkRef]*knownChunk, everything bool) (changed int64) {
	changed = kept.Never
	grown := int64(0)
	for id, s := range k.stored {
		next := found[id]
		switch {
		case next != nil && next.chunk.ETag() != "" && next.chunk.ETag() == s.chunk.ETag():
			found[id] = s
		case next != nil || everything:
			grown -= s.remove()
			changed = min(changed, s.chunk.Header.From)
			delete(k.stored, id)
		}
	}
	k.expires = math.MaxInt64
	for id, s := range found {
		if k.stored[id] == nil {
			k.stored[id] = s
			grown += piece.ChunkBytes(s.chunk)
			changed = min(changed, s.chunk.Header.From)
		}
	}
	for _, s := range k.stored {
		k.expires = min(k.expires, s.expires)
	}
	k.grow(grown, false)
	return changed
}

// within returns the chunks that may have rows in r and have not expired.
func (k *known) within(r telemetry.Range) (out []*knownChunk) {
	for _, s := range k.stored {
		if h := &s.chunk.Header; h.From < r.To && h.To >= r.From && s.expires > k.date {
			out = append(out, s)
		}
	}
	return out
}

// Expiry returns the earliest time at which the service may remove a chunk.
func Expiry(h *chunk.Header) int64 {
	if h.TTL == 0 {
		return math.MaxInt64
	}
	return h.Cut + 1000*int64(h.TTL)
}

// remove notes that a chunk is no longer known, and returns how many bytes it took.
func (s *knownChunk) remove() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = true
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
	if err == nil && !s.removed && s.of.grow(piece.FrameBytes(f), true) {
		s.frame = &f
	}
	return f, err
}

// foundChunks is chunks of a range, as of one load.
type foundChunks struct {
	all     []*knownChunk
	load    uint64 // 0 if another query has paid for it
	changes kept.Changes
	date    int64
	due     time.Time // the store must be asked again then
}

// loaded is a range that a query has read, and what heads had counted before.
type loaded struct {
	*known
	load uint64
	note heads.Note
}
