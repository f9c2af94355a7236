package read

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// margin exceeds what clocks of the service differ or step back, how long a request takes to be answered, and what
// replicas lag, together: what was stored that long before a read, by the service's clock, the next read asks for again
// (rule R7).
const margin = 5 * time.Minute

// Spans begin at multiples of spanStep, so that a range that moves with the time leaves few of them, and a keyCache has
// at most maxSpans. The span of a range that ends less than recentRange ago goes on to the end of the month: nothing is
// stored there yet, and the next range will end later.
const (
	spanStep    = 10 * time.Minute
	maxSpans    = 8
	recentRange = time.Hour
)

// keyCacheBytes is what an empty keyCache takes.
const keyCacheBytes = 512

// keyCache has the chunks of one key, each with the columns of the same metrics.
type keyCache struct {
	cache *cache
	key   cacheKey

	// Guarded by cache.mu.
	bytes   int64
	dropped bool

	loading chan struct{} // a lock that a context can end; it guards what follows
	spans   []*span       // in the order of time, none overlaps another
	stored  map[chunkRef]*cachedChunk
	loads   int
	changes changes // of stored
	date    int64   // ms since 1970 UTC, by the service's clock: when the last load was answered; 0 is not known
	expires int64   // when the first of stored does

	mu      sync.Mutex      // guards below
	next    *sharedRead     // that has not begun; nil if no query waits
	running telemetry.Range // that is being read; empty for none
}

type chunkRef struct{ device, id string }

// span is a range: all its chunks are known that were stored before asOf. What is known of it says nothing about
// another one.
type span struct {
	telemetry.Range
	asOf  int64     // s since 1970 UTC, by the service's clock; 0: nothing is known
	read  time.Time // when it was read as a whole
	asked asked     // for it, last; no heads unless that answer lacked nothing (rule R4)
}

// of returns what is known of a part of the span: the span itself for all of it, so that confirm finds it.
func (s *span) of(part telemetry.Range) *span {
	if part == s.Range {
		return s
	}
	return &span{part, s.asOf, s.read, s.asked}
}

// sharedRead is one read for all queries that joined it before it began: what was stored before they joined is in it
// (rule R1). known and err are set before done is closed.
type sharedRead struct {
	r       telemetry.Range // the union of their ranges
	waiting int             // how many queries wait; guarded by keyCache.mu
	done    chan struct{}
	known   knownChunks // that may have rows in r
	err     error
}

// knownChunks is chunks of a key, as of one load.
type knownChunks struct {
	all     []*cachedChunk
	load    int // 0 if another query has paid for it
	changes changes
	date    int64
	due     time.Time // when the key is asked again, whatever heads tell
}

// errReaderGone says that the query that read for others was cancelled or passed a limit of its own: another one must
// read.
var errReaderGone = errors.New("the query that read for this one has ended")

// errLongerRead says that a much longer range of the key is being read: a scan without the cache is faster.
var errLongerRead = errors.New("a longer range is being read")

// longer is how many times as long as its own range a read may be that a query waits for.
const longer = 4

// readCached reads the chunks of a target that may have rows in r, as scan does, but asks the store only for those that
// were stored since the last read.
func (q *Query) readCached(ctx context.Context, t target, r telemetry.Range, take func(*Piece) error) error {
	c := q.r.cache
	if c == nil || t.devices != nil {
		q.notes.noteInexact()
		return q.scan(ctx, t, r, take)
	}
	q.cost.visit(t.Key)
	var found knownChunks
	err := errReaderGone
	for l := c.key(cacheKey{t.Key, metricsKey(q.req.Metrics)}); errors.Is(err, errReaderGone); {
		if known, ok := l.standing(q, r); ok {
			found, err = known, nil
			break
		}
		found, err = l.read(ctx, q, t, r)
	}
	switch {
	case errors.Is(err, errLongerRead):
		q.notes.noteInexact()
		return q.scan(ctx, t, r, take)
	case err != nil:
		return err
	}
	q.notes.noteKey(t.Key, &found)
	expires := int64(math.MaxInt64)
	defer func() { q.notes.noteExpiry(expires) }()
	reused := 0
	defer func() {
		q.cost.add(Stats{Cached: reused})
		c.metrics.documents.WithLabelValues("hit").Add(float64(reused))
	}()
	for _, s := range found.all {
		expires = min(expires, s.expires)
		h := &s.chunk.Header
		if h.From >= r.To || h.To < r.From || q.visible.hides(h.Device, h.ID.Day) {
			continue
		}
		if s.load != found.load {
			reused++
		}
		p := q.pieceOf(s.chunk)
		p.cached = s
		if err := q.Memory.Take(p.bytes); err != nil {
			return err
		}
		if err := take(p); err != nil {
			return err
		}
	}
	return nil
}

// standing returns what read would, if the store need not be asked (rule R8).
func (l *keyCache) standing(q *Query, r telemetry.Range) (out knownChunks, ok bool) {
	select {
	case l.loading <- struct{}{}:
		defer func() { <-l.loading }()
	default: // another query reads it
		return out, false
	}
	if !isKnown(l.fetches(r, q.r.cfg.Now())) || !expiresLate(l.expires, l.date) {
		return out, false
	}
	ours := sharding.Key{Container: l.key.Container, TenantShard: l.key.TenantShard}
	placement := q.plan.tenant.Placement
	explained := func(c *laterTail) bool {
		if c.explained(r, l.date) {
			return true
		}
		for n := c.from; n <= c.tail.Number; n++ {
			at := placement.Key(c.device, c.day, n)
			id := chunk.ID{Day: c.day, Stream: c.stream, Partition: c.partition, Number: n}
			at.Device = ""
			if at == ours && l.stored[chunkRef{c.device, id.String()}] == nil {
				return false
			}
		}
		return true
	}
	out = knownChunks{load: -1, changes: l.changes, date: l.date}
	for _, a := range l.askedFor(r) {
		if !q.stands(a, explained) {
			return knownChunks{}, false
		}
		if out.due.IsZero() || a.due.Before(out.due) {
			out.due = a.due
		}
	}
	out.all = l.within(r)
	return out, true
}

// askedFor returns when the store was asked for the known parts of a range.
func (l *keyCache) askedFor(r telemetry.Range) (out []*asked) {
	for _, s := range l.spans {
		if !within(s.Range, r).Empty() {
			out = append(out, &s.asked)
		}
	}
	return out
}

// isKnown reports whether all of a range is known, by what fetches returns for it.
func isKnown(fetches []span) bool { return len(fetches) == 1 && fetches[0].asOf > 0 }

// tailStands reports whether what an earlier answer lacks can be read from known chunks, without asking the store:
// manifests of rollups would have to be read from time to time.
func (q *Query) tailStands() bool {
	if q.narrowed == nil || q.r.cache == nil {
		return false
	}
	for p := range q.plan.parts {
		for _, t := range p.targets {
			l := q.r.cache.key(cacheKey{t.Key, metricsKey(q.req.Metrics)})
			if r := within(t.Range, p.Range); !r.Empty() {
				if _, ok := l.standing(q, r); !ok {
					return false
				}
			}
		}
	}
	return true
}

// loaded is the keys that the query has asked the store for. It is safe for any number of callers.
type loaded struct {
	mu   sync.Mutex // guards below
	keys []loadedKey
}

type loadedKey struct {
	*keyCache
	span  *span
	asked asked // for it, by this query
}

func (l *loaded) add(k loadedKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, k)
}

// confirm notes of the spans that were loaded that they lack nothing, if that is so (rule R4).
func (q *Query) confirm() {
	if !q.countsStored || q.missing != nil || q.plan.tenant.Placement == nil {
		return
	}
	for _, k := range q.loaded.keys {
		select {
		case k.loading <- struct{}{}:
			k.span.asked = k.asked
			<-k.loading
		default: // another query reads it
		}
	}
}

// read returns chunks that may have rows in r, as of a moment after the call.
func (l *keyCache) read(ctx context.Context, q *Query, t target, r telemetry.Range) (out knownChunks, err error) {
	mine := l.join(r)
	if mine == nil {
		return out, errLongerRead
	}
	select {
	case <-mine.done:
	case <-ctx.Done():
		l.leave(mine)
		return out, ctx.Err()
	case l.loading <- struct{}{}:
		defer func() { <-l.loading }()
	}
	select {
	case <-mine.done: // another query has read
		l.cache.metrics.shared.Inc()
		return mine.known, mine.err
	default:
	}
	l.mu.Lock()
	asked := mine.r
	alone := length(asked) > longer*length(r) // a later query has joined with a long range: it reads that itself
	if alone {
		asked = r
	}
	l.next, l.running = nil, asked // from now on queries join the next read
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.running = telemetry.Range{}
		l.mu.Unlock()
		close(mine.done)
	}()
	err = l.load(ctx, q, t, l.withNeighbors(q, q.r.widen(asked)))
	out = knownChunks{l.within(asked), 0, l.changes, l.date, time.Time{}}
	switch {
	case err == nil && alone:
		mine.err = errReaderGone
	case err == nil:
		mine.known = out
	case errors.Is(err, ErrUnavailable) && ctx.Err() == nil:
		mine.err = err
	default:
		mine.err = errReaderGone // for the others
	}
	out.load = l.loads
	return out, err
}

// withNeighbors returns a range with those beside it that one scan reads with it: all is known, and of them nothing
// became known to be stored. So they need not be asked for by themselves when that is due.
func (l *keyCache) withNeighbors(q *Query, r telemetry.Range) telemetry.Range {
	out := r
	for _, s := range l.spans {
		if s.From <= out.To && s.To >= out.From && q.sameCounts(&s.asked) {
			out.From, out.To = min(out.From, s.From), max(out.To, s.To)
		}
	}
	if isKnown(l.fetches(out, q.r.cfg.Now())) {
		return out
	}
	return r
}

// join returns the next read, which will answer for r; nil if it would take too long.
func (l *keyCache) join(r telemetry.Range) *sharedRead {
	l.mu.Lock()
	defer l.mu.Unlock()
	if length(l.running) > longer*length(r) || l.next != nil && length(l.next.r) > longer*length(r) {
		return nil
	}
	if l.next == nil {
		l.next = &sharedRead{r: r, done: make(chan struct{})}
	}
	l.next.r.From, l.next.r.To = min(l.next.r.From, r.From), max(l.next.r.To, r.To)
	l.next.waiting++
	return l.next
}

// leave takes back a join. A read that no query waits for is dropped: its range may be too long for others.
func (l *keyCache) leave(r *sharedRead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.waiting--; r.waiting == 0 && l.next == r {
		l.next = nil
	}
}

func length(r telemetry.Range) int64 { return r.To - r.From }

// widen returns the range to read for a range.
func (r *Reader) widen(of telemetry.Range) telemetry.Range {
	step := spanStep.Milliseconds()
	of.From -= of.From % step
	if of.To > r.cfg.Now().Add(-recentRange).UnixMilli() {
		of.To = telemetry.DayOf(of.To - 1).Month().Range().To
	}
	return of
}

// within returns the chunks that may have rows in r and have not expired.
func (l *keyCache) within(r telemetry.Range) []*cachedChunk {
	var out []*cachedChunk
	for _, s := range l.stored {
		if h := &s.chunk.Header; h.From < r.To && h.To >= r.From && s.expires > l.date {
			out = append(out, s)
		}
	}
	return out
}

// fetches returns the scans after which all of r is known: what was stored since asOf, everything where that is 0. A
// few large scans are better than many: each has a price of its own.
func (l *keyCache) fetches(r telemetry.Range, now time.Time) (out []span) {
	at, whole, oldest := r.From, false, span{Range: r, asOf: math.MaxInt64, read: now}
	gap := func(to int64) {
		if at < to {
			whole = true
			out = append(out, span{Range: telemetry.Range{From: at, To: to}, read: now})
		}
	}
	for _, s := range l.spans {
		from, to := max(s.From, r.From), min(s.To, r.To)
		if from >= to || now.Sub(s.read) >= l.cache.age {
			continue
		}
		gap(from)
		out = append(out, *s.of(telemetry.Range{From: from, To: to}))
		oldest.asOf, at = min(oldest.asOf, s.asOf), to
		if s.read.Before(oldest.read) {
			oldest.read = s.read
		}
	}
	gap(r.To)
	switch {
	case len(out) == 1:
		return out
	case !whole:
		return []span{oldest}
	case len(out) > 3:
		return []span{{Range: r, read: now}}
	}
	return out
}

// load reads until all of r is known. The caller holds loading. An error changes nothing.
func (l *keyCache) load(ctx context.Context, q *Query, t target, r telemetry.Range) error {
	now := q.r.cfg.Now()
	fresh, date := &span{Range: r, read: now}, int64(math.MaxInt64)
	found := make(map[chunkRef]*cachedChunk)
	var held int64
	defer func() { q.Memory.Give(held) }()
	fetches, before := l.fetches(r, now), l.askedFor(r)
	if !isKnown(fetches) {
		before = append(before, &asked{})
	}
	asked := q.askedNow(before...)
	fresh.asked.unsettled = asked.unsettled
	if len(before) == 1 { // nothing is known any less
		fresh.asked = *before[0]
	}
	for _, e := range fetches {
		if at, ok := q.foundNothing(l, e, &asked); ok {
			date, fresh.read = min(date, at), earlier(fresh.read, e.read)
			continue
		}
		before := len(found)
		usage, gone, err := q.scanSince(ctx, t, store.Window{Range: e.Range, Since: e.asOf}, func(p *Piece) error {
			held += p.bytes
			s := &cachedChunk{chunk: p.Chunk, expires: expiry(p), bytes: p.bytes, keyCache: l, load: l.loads + 1}
			found[chunkRef{p.Device, p.Chunk.Header.ID.String()}] = s
			return nil
		})
		if err != nil {
			return err
		}
		if gone {
			l.cache.drop(l)
			clear(l.stored)
			l.spans = nil
			l.changes = l.changes.with(l.cache.nextVersion(), math.MinInt64)
			return nil
		}
		at := max(usage.Date.UnixMilli(), 0)
		date, fresh.read = min(date, at), earlier(fresh.read, e.read)
		if len(found) == before {
			q.noteNothing(l, e, at)
		}
	}
	if l.date = date; date > 0 { // else the time is unknown, and the next load reads everything
		fresh.asOf = max(date/1000-int64(margin.Seconds()), 1)
	}
	l.loads++
	l.cache.metrics.documents.WithLabelValues("miss").Add(float64(len(found)))
	changed := int64(math.MaxInt64)
	if l.changes == nil {
		changed = math.MinInt64
	}
	bytes := l.replace(fetches, found, &changed)
	bytes -= l.addSpan(fresh, &changed)
	q.loaded.add(loadedKey{l, fresh, asked})
	l.changes = l.changes.with(l.cache.nextVersion(), changed)
	l.expires = math.MaxInt64
	for _, s := range l.stored {
		l.expires = min(l.expires, s.expires)
	}
	l.cache.resize(l, bytes)
	return nil
}

// replace puts in what the fetches found, and returns by how many bytes the cache grows. A chunk that a fetch of
// everything did not find is gone from the store. One with the ETag of the known chunk is that (rule R7), and keeps its
// decoded rows. It lowers changed to the first instant of a chunk that has come or gone.
func (l *keyCache) replace(fetches []span, found map[chunkRef]*cachedChunk, changed *int64) (bytes int64) {
	for _, e := range fetches {
		if e.asOf > 0 {
			continue
		}
		for id, s := range l.stored {
			if h := &s.chunk.Header; h.From < e.To && h.To >= e.From && found[id] == nil {
				bytes -= l.remove(id, changed)
			}
		}
	}
	for id, s := range found {
		old := l.stored[id]
		if old != nil && old.chunk.ETag() != "" && old.chunk.ETag() == s.chunk.ETag() {
			continue
		}
		if old != nil {
			bytes -= l.remove(id, changed)
		}
		*changed = min(*changed, s.chunk.Header.From)
		l.stored[id] = s
		bytes += s.bytes
	}
	return bytes
}

// remove drops a chunk, lowers changed to its first instant, and returns how many bytes it took.
func (l *keyCache) remove(id chunkRef, changed *int64) int64 {
	s := l.stored[id]
	*changed = min(*changed, s.chunk.Header.From)
	delete(l.stored, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = true
	if s.frame == nil {
		return s.bytes
	}
	return s.bytes + frameBytes(*s.frame)
}

// addSpan adds a span, drops the oldest ones where there are too many, and returns how many bytes that frees. It lowers
// changed to the first instant of a chunk that goes.
func (l *keyCache) addSpan(fresh *span, changed *int64) (bytes int64) {
	var spans []*span
	for _, s := range l.spans {
		if before := (telemetry.Range{From: s.From, To: min(s.To, fresh.From)}); !before.Empty() {
			spans = append(spans, s.of(before))
		}
		if after := (telemetry.Range{From: max(s.From, fresh.To), To: s.To}); !after.Empty() {
			spans = append(spans, s.of(after))
		}
	}
	tooMany := len(spans) >= maxSpans
	if tooMany {
		slices.SortFunc(spans, func(a, b *span) int { return cmp.Compare(b.asOf, a.asOf) })
		spans = spans[:maxSpans-1]
	}
	l.spans = append(spans, fresh)
	slices.SortFunc(l.spans, func(a, b *span) int { return cmp.Compare(a.From, b.From) })
	if !tooMany {
		return 0
	}
	for id, s := range l.stored {
		h := &s.chunk.Header
		if !slices.ContainsFunc(l.spans, func(s *span) bool { return h.From < s.To && h.To >= s.From }) {
			bytes += l.remove(id, changed)
		}
	}
	return bytes
}

// expiry returns the earliest time at which the service may remove a chunk.
func expiry(p *Piece) int64 {
	h := &p.Chunk.Header
	if h.TTL == 0 {
		return math.MaxInt64
	}
	return h.Cut + 1000*int64(h.TTL)
}
