package chunks

import (
	"context"
	"errors"
	"math"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/sharding"
)

// A range begins at a multiple of rangeStep, so that one that moves with the time leaves few of them. One that ends
// less than recentRange ago is read to the end of the month: nothing is stored there yet, and the next one will end
// later.
const (
	rangeStep   = 10 * time.Minute
	recentRange = time.Hour
)

// Read reads the chunks of a target that may have rows in r, as a scan does, but asks the store only for chunks stored
// since the last read. It is safe for any number of callers.
func (q *Query) Read(ctx context.Context, t plan.Target, r telemetry.Range, take func(*piece.Piece) error) error {
	if q.r.cfg.Room == nil || t.Devices != nil {
		q.Notes.noteInexact()
		return q.scan(ctx, t, r, take)
	}
	q.Account.Visit(t.Key)
	k, found, err := q.find(ctx, t, r)
	switch {
	case errors.Is(err, errLongerRead):
		q.Notes.noteInexact()
		return q.scan(ctx, t, r, take)
	case err != nil:
		return err
	}
	q.Notes.add(k, &found)
	reused := 0
	defer func() {
		q.Account.Add(piece.Stats{Cached: reused})
		q.r.documents.WithLabelValues("hit").Add(float64(reused))
	}()
	for _, s := range found.all {
		q.Notes.Expire(s.expires)
		h := &s.chunk.Header
		if q.View.Hides(h.Device, h.ID.Day) {
			continue
		}
		if s.load != found.load {
			reused++
		}
		p, err := q.Account.OfChunk(s.chunk, s)
		if err == nil {
			err = take(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// find returns the chunks of a target that may have rows in r, as of a moment after the call.
func (q *Query) find(ctx context.Context, t plan.Target, r telemetry.Range) (*known, foundChunks, error) {
	all := q.r.rangesOf(t, q.Request.Metrics)
	asked := q.r.loads.Add(1)
	wide := q.r.widen(r)
	k := all.find(wide, asked)
	if found, ok := q.standing(k, r); ok {
		return k, found, nil
	}
	if err := k.acquire(ctx, r); err != nil {
		return nil, foundChunks{}, err
	}
	defer k.release(r)
	load := uint64(0)
	if k.load < asked || !contains(k.r, r) || !k.isKnown(q.r.cfg.Now(), q.r.cfg.RoomAge) {
		// No other query has read it since.
		if err := q.load(ctx, k, t, wide); err != nil {
			if k.asOf == 0 { // others may ask for less of it
				k.extend(telemetry.Range{})
			}
			return nil, foundChunks{}, err
		}
		load = k.paid
	}
	return k, foundChunks{all: k.within(r), load: load, changes: k.changes, date: k.date}, nil
}

// rangesOf returns the ranges of a key.
func (r *Reader) rangesOf(t plan.Target, metrics []string) *ranges {
	key := rangesKey{t.Key, kept.Names(metrics)}
	return r.cfg.Room.GetOrMake(key, int64(len(key.metrics)), func(i *kept.Item) any {
		return &ranges{key: key.Key, room: r.cfg.Room, item: i}
	}).(*ranges)
}

// widen returns the range to read for a range.
func (r *Reader) widen(of telemetry.Range) telemetry.Range {
	of.From -= of.From % rangeStep.Milliseconds()
	if of.To > r.cfg.Now().Add(-recentRange).UnixMilli() {
		of.To = telemetry.DayOf(of.To - 1).Month().Range().To
	}
	return of
}

// windowsFor returns the scans that a read of r would make. A range that is being read counts as known.
func (r *Reader) windowsFor(t plan.Target, metrics []string, of telemetry.Range) []store.Window {
	if r.cfg.Room == nil || t.Devices != nil {
		return []store.Window{{Range: of}}
	}
	k := r.rangesOf(t, metrics).find(of, 0)
	switch {
	case k == nil:
		return []store.Window{{Range: of}}
	case !k.tryAcquire():
		return []store.Window{{Range: of, Since: 1}}
	}
	defer func() { <-k.reading }()
	out, _ := k.windows(of, k.isKnown(r.cfg.Now(), r.cfg.RoomAge))
	return out
}

// Stands reports whether all that a range of a target has is known, and the store need not be asked (rule R8).
func (q *Query) Stands(t plan.Target, r telemetry.Range) bool {
	if q.r.cfg.Room == nil || t.Devices != nil {
		return false
	}
	k := q.r.rangesOf(t, q.Request.Metrics).find(r, 0)
	if k == nil {
		return false
	}
	_, ok := q.standing(k, r)
	return ok
}

// standing returns what a known range has of r, if the store need not be asked (rule R8).
func (q *Query) standing(k *known, r telemetry.Range) (out foundChunks, ok bool) {
	if !k.tryAcquire() { // another query reads it
		return out, false
	}
	defer func() { <-k.reading }()
	if !contains(k.r, r) || !k.isKnown(q.r.cfg.Now(), q.r.cfg.RoomAge) || !heads.ExpiresLate(k.expires, k.date) {
		return out, false
	}
	if !q.Heads.Stored.Stands(&k.note, func(l *heads.Later) bool { return l.IsExplained(r, k.date) || q.hasAll(k, l) }) {
		return out, false
	}
	return foundChunks{all: k.within(r), load: math.MaxUint64, changes: k.changes, date: k.date, due: k.note.Due()}, true
}

// hasAll reports whether a known range has all chunks of a later tail that its key can have.
func (q *Query) hasAll(k *known, l *heads.Later) bool {
	ours := sharding.Key{Container: k.of.key.Container, TenantShard: k.of.key.TenantShard}
	first, last := l.Numbers()
	for n := first; n <= last; n++ {
		at := q.View.Tenant.Placement.Key(l.Device, l.Day, n)
		at.Device = ""
		id := chunk.ID{Day: l.Day, Stream: l.Stream, Partition: l.Partition, Number: n}
		if at == ours && k.stored[chunkRef{l.Device, id.String()}] == nil {
			return false
		}
	}
	return true
}

// load reads until all of r is known. The caller has acquired the range. An error changes nothing.
func (q *Query) load(ctx context.Context, k *known, t plan.Target, r telemetry.Range) error {
	number, now := q.r.loads.Add(1), q.r.cfg.Now()
	isKnown := k.isKnown(now, q.r.cfg.RoomAge)
	windows, next := k.windows(r, isKnown)
	isPart := isKnown && q.Request.Order != piece.Unordered && next == k.r
	if isPart { // an answer that is streamed reads many short ranges, and leaves no basis
		windows = []store.Window{{Range: r, Since: k.asOf}}
	}
	isMore := !isKnown || next != k.r
	note, date := q.Heads.Stored.Note(&k.note, isMore), int64(math.MaxInt64)
	found := make(map[chunkRef]*knownChunk)
	var held []*piece.Piece
	defer func() {
		for _, p := range held {
			p.Release()
		}
	}()
	for _, w := range windows {
		if at, ok := q.foundNothing(nothingKey{Key: t.Key}, []store.Window{w}, &note); ok {
			date = min(date, at)
			continue
		}
		before := len(held)
		usage, gone, err := q.scanSince(ctx, t, w, func(p *piece.Piece) error {
			held = append(held, p)
			found[chunkRef{p.Device, p.Chunk.Header.ID.String()}] = &knownChunk{chunk: p.Chunk,
				expires: Expiry(&p.Chunk.Header), of: k, load: number}
			return nil
		})
		if err != nil {
			return err
		}
		if gone {
			k.put(nil, true)
			k.asOf, k.changes = 0, k.changes.With(kept.Always)
			return nil
		}
		if date = min(date, max(usage.Date.UnixMilli(), 0)); len(held) == before {
			q.noteNothing(nothingKey{Key: t.Key}, []store.Window{w}, usage.Date)
		}
	}
	q.r.documents.WithLabelValues("miss").Add(float64(len(found)))
	k.changes = k.changes.With(k.put(found, !isKnown))
	k.paid, k.date = number, date
	if isPart { // the rest is known as of an earlier load
		return nil
	}
	k.load, k.asOf = number, 0
	if date > 0 { // else the time is unknown, and the next load reads everything
		k.asOf = max(date/1000-int64(heads.Margin.Seconds()), 1)
	}
	if !isKnown {
		k.read = now
	}
	if isMore { // else nothing is known any less
		k.note = note.WithoutCounts()
	}
	k.extend(next)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loaded = append(q.loaded, loaded{k, number, note})
	return nil
}

// Confirm notes of the ranges that were loaded that they lack nothing (rule R4). It is called when all was read.
func (q *Query) Confirm() {
	if !q.Heads.Stored.Counts() {
		return
	}
	for _, l := range q.loaded {
		if l.tryAcquire() { // else another query reads it
			if l.known.load == l.load {
				l.known.note = l.note
			}
			<-l.reading
		}
	}
}

// sameMoment is how long queries for different metrics share an empty answer for what is new: about the time in which
// the panels of a dashboard ask.
const sameMoment = 15 * time.Second

// nothingKey names that a key had nothing new: in a known range, or in windows by the second of the first one.
type nothingKey struct {
	sharding.Key
	since int64
}

// nothing says that a scan of windows found no chunk, of any metric.
type nothing struct {
	windows []store.Window
	date    int64 // the service's date of the scan
	note    heads.Note
}

// noteNothing notes for queries for other metrics that a scan for what is new has found nothing.
func (q *Query) noteNothing(key nothingKey, windows []store.Window, date time.Time) {
	if at := date.UnixMilli(); q.Heads.Stored.Counts() && windows[0].Since > 0 && at > 0 {
		q.r.cfg.Room.Put(key, &nothing{windows, at, q.Heads.Stored.Note(&heads.Note{}, true)}, 0)
	}
}

// foundNothing reports whether a scan for what is new need not be made, because one for other metrics has found nothing
// a moment ago, and nothing became known to be stored since (rule R8). It returns the date of that scan. By the note
// the store may have to be asked each time.
func (q *Query) foundNothing(key nothingKey, windows []store.Window, note *heads.Note) (date int64, ok bool) {
	v, ok := q.r.cfg.Room.Get(key, sameMoment)
	if !ok || windows[0].Since == 0 || q.Account.IsExplained() || q.Heads.Stored.IsUnsettled(note) {
		return 0, false
	}
	n := v.(*nothing)
	if len(windows) != len(n.windows) || !q.Heads.Stored.IsSame(&n.note) {
		return 0, false
	}
	for i, w := range windows {
		if w.Since < n.windows[i].Since || !contains(n.windows[i].Range, w.Range) {
			return 0, false
		}
	}
	return n.date, true
}

// ScanWindows scans several ranges, each for chunks stored since its second.
func (q *Query) ScanWindows(ctx context.Context, t plan.Target, w []store.Window,
	take func(*piece.Piece) error) error {
	_, _, err := q.scanTarget(ctx, t, store.Scan{Windows: w}, take)
	return err
}

// ScanNew scans as ScanWindows does, but asks nothing if another query has found nothing there a moment ago.
func (q *Query) ScanNew(ctx context.Context, t plan.Target, w []store.Window, take func(*piece.Piece) error) error {
	key := nothingKey{t.Key, w[0].Since}
	if _, ok := q.foundNothing(key, w, &q.Kept); ok {
		return nil
	}
	usage, _, err := q.scanTarget(ctx, t, store.Scan{Windows: w}, take)
	if err == nil && usage.Documents == 0 {
		q.noteNothing(key, w, usage.Date)
	}
	return err
}
