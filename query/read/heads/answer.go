package heads

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
)

// Query is what one query asks heads for.
type Query struct {
	Request *piece.Request
	Account *piece.Account
	View    *plan.View
}

// Answer is what heads answered to a query.
type Answer struct {
	Seen      plan.Seen
	Missing   []string   // why the answer is not complete (rule R3), a sentence each
	Unread    []string   // the part of Missing that is in the log and no head has read yet, or answers
	Positions int        // how many of Missing were known before rows were read
	Deferrals []Deferral // which make the answer incomplete too
	Pieces    []*piece.Piece
	Stored    *Stored
	Changes   kept.Changes // versions of the rows; nil: the rows leave no note
	Expires   int64        // ms since 1970 UTC: the first expiry of a chunk with rows among Pieces

	all    []store.PartitionHead
	known  *known            // before; nil for nothing
	topics map[uint32]string // by the streams of shown chunks; "" for those that no answer waits for
	used   *progress
}

// NoAnswer returns the answer of heads that were not asked.
func (r *Reader) NoAnswer() *Answer {
	now := r.cfg.Now()
	return &Answer{Seen: plan.Seen{At: now}, Expires: math.MaxInt64, Stored: &Stored{began: now, now: r.cfg.Now}}
}

// asking is a query under way.
type asking struct {
	*Reader
	Query
	*Answer
	question question
	keeps    bool
	owners   map[uint64]*owned
	newFrom  int64 // the first instant of a row that was not known
	unnoted  bool  // rows were answered that are in no bin
}

// Read asks the heads, after waiting for the log's end if the query is strict, and notes what the answer lacks to be
// complete. Heads that do not answer are no error.
func (r *Reader) Read(ctx context.Context, q Query) (*Answer, error) {
	a := &asking{Reader: r, Query: q, Answer: r.NoAnswer(), owners: make(map[uint64]*owned), newFrom: kept.Never}
	s, ends, err := a.snapshotAfterEnds(ctx)
	if err != nil {
		return nil, err
	}
	a.judge(&s, ends)
	if s.countsStored() {
		a.Stored.owners = make(map[uint64]*counts)
	}
	for i := range s.best {
		if err := a.take(ctx, &s.best[i]); err != nil {
			return nil, err
		}
	}
	if a.keeps && !a.unnoted && (len(a.owners) > 0 || len(a.Missing) == a.Positions) {
		a.keep()
	}
	tails := int64(0)
	a.all, a.used, a.topics = s.all, r.progress, make(map[uint32]string)
	a.eachTail(func(chainDay, store.Tail) { tails++ })
	return a.Answer, a.Account.Memory.Take(tailBytes * tails)
}

// snapshotAfterEnds asks the heads once they have reached the ends of the log, if the query is strict. The tenant may
// begin meanwhile: then its registration is waited for too, in the time that there is for waiting.
func (a *asking) snapshotAfterEnds(ctx context.Context) (s snapshot, ends []store.LogEnd, err error) {
	bounded, cancel := waiting(ctx)
	defer cancel()
	ends = a.awaitEnds(ctx)
	ask := a.request()
	s, err = a.snapshotIncluding(ctx, ask)
	for pauses := polls.Begin(); a.Request.Strict && err == nil && s.isRegistering(); {
		if pauses.Wait(bounded) != nil {
			break
		}
		s, err = a.snapshotIncluding(ctx, ask)
	}
	return s, ends, err
}

// awaitEnds waits until the heads have reached the ends of the log if the query is strict, and returns them.
func (a *asking) awaitEnds(ctx context.Context) []store.LogEnd {
	if !a.Request.Strict {
		a.refreshPartitions(ctx)
		return nil
	}
	ends, err := a.awaitLogEnd(ctx, a.Request.Tenant)
	if err != nil { // which may name what is other tenants'
		a.warn("cannot read the ends of the logs", err)
		a.Unread = append(a.Unread, "the log's end is not known")
	}
	return ends
}

// request returns what heads are asked: bins of whole days where their rows are kept, with the names of the known ones.
func (a *asking) request() store.HeadRequest {
	r := a.Request
	ask := store.HeadRequest{Tenant: r.Tenant, Devices: r.Devices, Range: r.Range, Metrics: r.Metrics,
		Erased: a.View.ErasedInHeads()}
	a.question, a.keeps = questionOf(r, a.View.Acknowledged())
	if a.keeps = a.keeps && a.cfg.Room != nil; !a.keeps {
		return ask
	}
	ask.Bins, ask.Stored = true, r.Devices == nil
	if a.question.rows {
		ask.Range = telemetry.Range{From: a.question.first.Start(), To: a.question.last.End()}
	}
	if k, ok := a.cfg.Room.Get(a.question, a.cfg.RoomAge); ok {
		a.known = k.(*known)
		a.known.ask(&ask)
	}
	return ask
}

// judge notes what positions and deferrals say of the answer.
func (a *asking) judge(s *snapshot, ends []store.LogEnd) {
	a.Seen, a.Stored.began = plan.Seen{At: s.began, Containers: s.containers, Heads: s.all}, s.began
	a.Unread = append(a.Unread, a.missing(s, ends)...)
	a.Missing = append(a.Missing, a.Unread...)
	a.Deferrals = s.deferrals(a.Request.Asks)
	for _, w := range a.Deferrals {
		a.Missing = append(a.Missing, fmt.Sprintf("partition %s: %s", w.partition, w.HeadDeferral))
	}
	a.Positions = len(a.Missing)
}

// errOmittedRows says that a head has left out rows as known that are not known here.
var errOmittedRows = errors.New("a head left out rows that this querier does not have")

// take takes the rows of a head, and what it counts.
func (a *asking) take(ctx context.Context, h *store.PartitionHead) error {
	before, now := a.known.of(h.Owner), &owned{bins: make(binsOf), counts: &counts{}}
	for rows, err := range h.Rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && !a.Request.Asks(rows.Device) {
			continue
		}
		if err == nil && (h.Owner == 0 || !a.question.rows) {
			a.unnoted = a.unnoted || h.Owner == 0
			if err := a.add(rows.Device, &part{frame: rows.Frame, source: rows.Source}); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			err = a.takeBin(&rows, before, now)
		}
		switch {
		case errors.Is(err, piece.ErrMemory) || errors.Is(err, piece.ErrBusy):
			return err
		case err != nil:
			a.lose(h, err)
			return nil
		}
	}
	if h.Owner == 0 {
		return nil
	}
	a.owners[h.Owner] = now
	a.takeCounts(h, before, now)
	var err error
	now.eachStored(func(_ deviceDay, l *Later, b *bin) {
		if err == nil && a.Request.Asks(l.Device) {
			a.Expires = min(a.Expires, l.expires)
			err = a.addBin(l.Device, b)
		}
	})
	return err
}

// lose notes that rows of a head are missing.
func (a *asking) lose(h *store.PartitionHead, err error) {
	a.cfg.Logger.Warn("rows of a head not read", "partition", h.Partition, "error", err)
	why := fmt.Sprintf("some rows in memory of partition %s/%d are missing", h.Topic, h.Partition)
	if a.isOthers(h.Topic, a.Request.Tenant) {
		why = "some rows in ingesters' memory are missing"
	}
	a.Missing, a.Unread = append(a.Missing, why), append(a.Unread, why)
}

func (a *asking) takeBin(rows *store.HeadRows, before, now *owned) error {
	of := deviceDay{rows.Device, rows.Day}
	old := before.bins.find(of, rows.First)
	b := old.with(rows)
	if b == nil {
		return errOmittedRows
	}
	if from, _, ok := rows.Frame.Bounds(); ok {
		a.newFrom = min(a.newFrom, from)
	}
	if old != nil && rows.Above < 0 {
		a.newFrom = min(a.newFrom, old.from)
	}
	if a.rows != nil {
		a.rows.WithLabelValues("hit").Add(float64(b.rows - rows.Frame.Rows()))
		a.rows.WithLabelValues("miss").Add(float64(rows.Frame.Rows()))
	}
	now.bins[of] = append(now.bins[of], b)
	return a.addBin(rows.Device, b)
}

// takeCounts takes what a head counts, once its bins are known.
func (a *asking) takeCounts(h *store.PartitionHead, before, now *owned) {
	if !a.Stored.Counts() {
		return
	}
	old := before.counts
	switch s := h.Stored; {
	case s.Above == 0:
		now.counts = newCounts(h)
	case old.count == s.Above && s.Exact <= s.Above:
		at := a.cfg.Now()
		now.counts = old.since(h, &shown{before.bins, now.bins, at, func(of chainDay) int64 {
			ttl := a.View.Tenant.TTLOf(of.Device, of.Day, at.UnixMilli())
			if ttl == 0 {
				return math.MaxInt64
			}
			return at.UnixMilli() + 1000*int64(ttl)
		}})
	default: // something was forgotten while the head answered
		a.Stored.Ignore()
		return
	}
	a.Stored.owners[h.Owner] = now.counts
}

// keep keeps the rows for the next query, and notes from which instant on they differ from the known ones.
func (a *asking) keep() {
	next, from := &known{owners: a.owners}, a.newFrom
	if !a.question.rows {
		a.cfg.Room.Put(a.question, next, next.bytes())
		return
	}
	if earlier := a.known; earlier != nil {
		next.changes = earlier.changes
		from = min(from, earlier.goneFrom(next, a.cfg.Now()))
	}
	if !a.Stored.Counts() {
		for _, o := range next.owners {
			o.counts = &counts{}
		}
	}
	next.changes = next.changes.With(from)
	a.Changes = next.changes
	a.cfg.Room.Put(a.question, next, next.bytes())
}

func (a *asking) addBin(device string, b *bin) error {
	for i := range b.parts {
		if err := a.add(device, &b.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// add adds rows if some lie within the range.
func (a *asking) add(device string, p *part) error {
	from, to, ok := p.frame.Bounds()
	if !ok || from >= a.Request.Range.To || to < a.Request.Range.From || a.View.Hides(device, telemetry.DayOf(from)) {
		return nil
	}
	rows, err := a.Account.OfRows(piece.Piece{Device: device, Source: p.source, From: from, To: to, Frame: p.frame})
	if err == nil {
		a.Pieces = append(a.Pieces, rows)
	}
	return err
}

// eachTail calls yield with the tails of chains. They hold whichever head is the furthest.
func (a *Answer) eachTail(yield func(chainDay, store.Tail)) {
	for i := range a.all {
		h := &a.all[i]
		if h.Stored != nil && h.Stored.Above > 0 {
			for of, tail := range a.known.of(h.Owner).counts.tails { // which the head has left out as known
				yield(of, tail)
			}
		}
		for i := range h.Chains {
			yield(chainDayOf(h, &h.Chains[i]), h.Chains[i].Tail)
		}
	}
}

// Tails returns the last chunk of each chain of a request, except on hidden days.
func (a *Answer) Tails(r *piece.Request, view *plan.View) Tails {
	out := make(Tails)
	first, last := r.Days()
	a.eachTail(func(of chainDay, tail store.Tail) {
		if r.Asks(of.Device) && of.Day >= first && of.Day <= last && !view.Hides(of.Device, of.Day) {
			out.Add(of.Chain, of.Day, tail)
		}
	})
	return out
}

// EachKnownChunk calls yield with each chunk that need not be read because its rows are known.
func (a *Answer) EachKnownChunk(yield func(device string, id chunk.ID)) {
	for _, c := range a.Stored.owners {
		for _, l := range c.later {
			if l.bins != nil {
				yield(l.Device, l.ID())
			}
		}
	}
}

// Shows notes that the answer shows a chunk. From now on no answer is complete unless a head has read all the chunk's
// records (rule R3): a replica may lack it, and an ingester that has lost the partition need not know of it.
func (a *Answer) Shows(h *chunk.Header, v *control.Snapshot) {
	if len(a.all) == 0 { // the answer is of an earlier moment, or not complete
		return
	}
	a.used.mu.Lock()
	defer a.used.mu.Unlock()
	if _, found := a.topics[h.ID.Stream]; !found {
		a.topics[h.ID.Stream] = a.topicOf(h.ID.Stream, v)
	}
	if topic := a.topics[h.ID.Stream]; topic != "" {
		a.used.use(partition{topic, h.ID.Partition}, streamPosition{h.ID.Stream, h.Through + 1})
	}
}

// topicOf returns the topic of a stream if a head reads it, or another stream of the same log; "" if none does. The
// snapshot has all streams that heads read. An answer with a chunk of a younger one is not complete.
func (a *Answer) topicOf(number uint32, v *control.Snapshot) string {
	s, known := v.Streams[number]
	for i := range a.all {
		read := v.Streams[a.all[i].Stream]
		if a.all[i].Stream == number || known && read.Topic == s.Topic && read.Cluster == s.Cluster {
			return a.all[i].Topic
		}
	}
	if !known {
		a.Missing = append(a.Missing, fmt.Sprintf("a stored chunk is of stream %d, which is not known here yet", number))
	}
	return ""
}

// RowsWithin returns how many rows of a frame have an instant in a range.
func RowsWithin(f chunk.Frame, r telemetry.Range) (n int) {
	for i := range f.Groups {
		times := f.Groups[i].Times
		before := func(at int64) int { return sort.Search(len(times), func(i int) bool { return times[i] >= at }) }
		n += max(0, before(r.To)-before(r.From))
	}
	return n
}
