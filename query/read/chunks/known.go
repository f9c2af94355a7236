package chunks

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/sharding"

	"golang.org/x/sync/semaphore"
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
	found, err := q.find(ctx, t, r)
	if err != nil {
		return err
	}
	if found.known == nil {
		q.note(func(m *Made) { m.Inexact = true })
		return q.scan(ctx, t, r, take)
	}
	q.Account.Visit(t.Key)
	q.note(func(m *Made) { m.add(found) })
	reused := 0
	defer func() {
		q.Account.Add(piece.Stats{Cached: reused})
		q.r.documents.WithLabelValues("hit").Add(float64(reused))
	}()
	for _, s := range found.stored {
		h := &s.chunk.Header
		if h.From >= r.To || h.To < r.From || s.expires <= found.date {
			continue
		}
		q.Expire(s.expires)
		if q.View.Hides(h.Device, h.ID.Day) {
			continue
		}
		if s.load != found.paid {
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

func (q *Query) keeps(t plan.Target) bool { return q.r.cfg.Room != nil && t.Devices == nil }

// find returns a range with all that r has, as of a moment after the heads were read; none if it is faster to scan.
func (q *Query) find(ctx context.Context, t plan.Target, r telemetry.Range) (out foundRange, err error) {
	if !q.keeps(t) {
		return out, nil
	}
	all, wide := q.r.rangesOf(t, q.Request.Metrics), q.r.widen(r)
	if k := all.find(wide); q.stands(k, t, r) {
		return foundRange{known: k, due: k.note.Load().Due}, nil
	}
	q.isAsking.Store(true)
	if ok, err := all.wait(ctx, r); !ok {
		return out, err
	}
	defer all.leave(r)
	k := cmp.Or(all.find(wide), &known{in: all})
	if k.isKnown(q.r.cfg.Now(), q.r.cfg.RoomAge) && k.load > q.asked && contains(k.r, r) { // it was read meanwhile
		return foundRange{known: k}, nil
	}
	next, err := q.load(ctx, k, t, wide)
	if err != nil {
		return out, err
	}
	q.r.cfg.Room.Put(all.key, all, all.replace(k, next.known))
	return next, nil
}

func (r *Reader) rangesOf(t plan.Target, metrics []string) *ranges {
	key := rangesKey{t.Key, kept.Names(metrics)}
	empty := func() any { return &ranges{key: key, turn: semaphore.NewWeighted(1)} }
	return r.cfg.Room.GetOrPut(key, int64(len(key.metrics)), empty).(*ranges)
}

func (r *Reader) widen(of telemetry.Range) telemetry.Range {
	of.From -= of.From % rangeStep.Milliseconds()
	if of.To > r.cfg.Now().Add(-recentRange).UnixMilli() {
		of.To = telemetry.DayOf(of.To - 1).Month().Range().To
	}
	return of
}

// Stands reports whether all that a range of a target has is known, and the store need not be asked (rule R8).
func (q *Query) Stands(t plan.Target, r telemetry.Range) bool {
	return q.keeps(t) && q.stands(q.r.rangesOf(t, q.Request.Metrics).find(r), t, r)
}

// stands reports whether a known range of a target has all of r, and the store need not be asked (rule R8).
func (q *Query) stands(k *known, t plan.Target, r telemetry.Range) bool {
	return k.isKnown(q.r.cfg.Now(), q.r.cfg.RoomAge) && contains(k.r, r) && heads.ExpiresLate(k.expires, k.date) &&
		q.Heads.Stored.Stands(k.note.Load(), r, func(l *heads.Later) bool { return q.isOf(t, l) })
}

// isOf reports whether a target has the chain of a later tail.
func (q *Query) isOf(t plan.Target, l *heads.Later) bool {
	return (t.Device == "" || t.Device == l.Device) && q.View.Tenant.Placement.Holds(t.Key, l.Device, l.Day)
}

// load reads all of r and of a known range, which may be empty. The caller has the turn.
func (q *Query) load(ctx context.Context, before *known, t plan.Target, r telemetry.Range) (out foundRange, err error) {
	number, now := q.r.loads.Add(1), q.r.cfg.Now()
	next := &known{in: before.in, r: r, read: now, number: cmp.Or(before.number, number), load: number}
	next.date = math.MaxInt64
	next.note.Store(cmp.Or(before.note.Load(), &heads.Note{}))
	windows, isKnown := []store.Window{{Range: r}}, before.isKnown(now, q.r.cfg.RoomAge)
	if isKnown {
		isNew := before.load > q.asked
		windows, next.read = before.windows(r, isNew), before.read
		next.r = telemetry.Range{From: min(before.r.From, r.From), To: max(before.r.To, r.To)}
		if isNew {
			next.load, next.date = before.load, before.date
		}
	}
	isMore := !isKnown || next.r != before.r
	isPart := !isMore && q.Request.Order != piece.Unordered
	if isPart { // an answer that is streamed reads many short ranges, and leaves no basis
		windows = []store.Window{{Range: r, Since: before.asOf}}
	}
	note := q.Heads.Stored.Note(next.note.Load(), isMore)
	found := make(map[chunkRef]*knownChunk)
	var held []*piece.Piece
	defer func() { piece.ReleaseAll(held) }()
	for _, w := range windows {
		scan := store.Scan{Range: w.Range, Since: w.Since}
		date, gone, err := q.scanNew(ctx, nothingKey{Key: t.Key}, t, scan, &note, func(p *piece.Piece) error {
			held = append(held, p)
			found[chunkRef{p.Device, p.Chunk.Header.ID}] = &knownChunk{chunk: p.Chunk,
				expires: Expiry(p.Chunk), load: number, room: q.r.cfg.Room, in: before.in}
			return nil
		})
		if err != nil {
			return out, err
		}
		if gone {
			next.put(before, make(map[chunkRef]*knownChunk), true)
			next.changes, next.date = next.changes.With(kept.Always), 0
			return foundRange{known: next, paid: number}, nil
		}
		next.date = min(next.date, max(date, 0))
	}
	q.r.documents.WithLabelValues("miss").Add(float64(len(found)))
	next.put(before, found, !isKnown)
	note = q.Heads.Stored.BeforeUnread(note, func(l *heads.Later) bool {
		return next.stored[chunkRef{l.Device, l.ID()}] == nil && q.isOf(t, l)
	})
	if isPart { // the rest is known as of an earlier load
		next.asOf, next.load = before.asOf, before.load
		return foundRange{known: next, paid: number}, nil
	}
	if next.date > 0 { // else the time is unknown, and the next load reads everything
		next.asOf = max(next.date/1000-int64(heads.Margin.Seconds()), 1)
	}
	if isMore { // else nothing is known any less
		less := note.WithoutCounts()
		next.note.Store(&less)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	next.complete = note
	q.loaded = append(q.loaded, next)
	return foundRange{known: next, paid: number}, nil
}

// Confirm notes of the ranges that were loaded that they lack nothing (rule R4), unless a chunk had to be read again
// that one of them lacks. It is called when all was read.
func (q *Query) Confirm() {
	if !q.Heads.Stored.Counts() || q.lacked {
		return
	}
	held, last := q.Request.Range, telemetry.DayOf(q.Request.Range.To-1)
	held.From = telemetry.DayOf(held.From).Start()
	unread := func(t store.Tail) bool { return t.From >= held.To }
	if !slices.ContainsFunc(slices.Collect(maps.Values(q.Tails()[last])), unread) {
		held.To = last.End()
	}
	for _, k := range q.loaded {
		k.complete.Held = held
		k.note.Store(&k.complete)
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

// scanNew makes a scan, unless it asks for what is new and one for other metrics has found nothing there a moment ago,
// and nothing became known to be stored since (rule R8). By the note the store may have to be asked each time. It
// returns the service's date of the scan in ms since 1970 UTC, below 1 if that is not known, and whether the container
// is gone.
func (q *Query) scanNew(ctx context.Context, key nothingKey, t plan.Target, scan store.Scan, note *heads.Note,
	take func(*piece.Piece) error) (date int64, gone bool, err error) {
	windows, room := scan.AllWindows(), q.r.cfg.Room
	if v, ok := room.Get(key, sameMoment); ok && windows[0].Since > 0 && !q.Account.IsExplained() {
		n := v.(*nothing)
		covers := slices.EqualFunc(windows, n.windows, func(w, known store.Window) bool {
			return w.Since >= known.Since && contains(known.Range, w.Range)
		})
		if covers && q.Heads.Stored.IsSame(&n.note) && !q.Heads.Stored.IsUnsettled(note) {
			return n.date, false, nil
		}
	}
	usage, gone, err := q.scanTarget(ctx, t, scan, take)
	date = usage.Date.UnixMilli()
	// Heads that are behind explain no lack: a former owner may just have stored what a replica lacks (rule R1).
	isExplained := q.Heads.Positions == 0 && q.Heads.Stored.Counts()
	if err == nil && usage.Documents == 0 && windows[0].Since > 0 && date > 0 && isExplained {
		room.Put(key, &nothing{windows, date, q.Heads.Stored.Note(&heads.Note{}, true)}, 0)
	}
	return date, gone, err
}

// ScanNew scans several ranges, each for chunks stored since its second. It asks nothing if another query has found
// nothing there a moment ago.
func (q *Query) ScanNew(ctx context.Context, t plan.Target, w []store.Window, take func(*piece.Piece) error) error {
	_, _, err := q.scanNew(ctx, nothingKey{t.Key, w[0].Since}, t, store.Scan{Windows: w}, &q.Kept, take)
	return err
}
