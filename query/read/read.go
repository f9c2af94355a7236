// Package read reads everything that an answer is made of: first the rows that ingesters still hold in memory, then the
// stored chunks that may hold rows, found by the tenant's placement, or rollups in their place. It hands them on as
// pieces, still encoded, with what they cost and whether any are missing.
//
// It keeps rules R1 to R9 of docs/internals/protocol.md, and coordinates packages with a question each: heads (rows
// in memory, and chunks known to be stored), plan (keys that can hold rows), chunks, and rollups. It must not know
// what becomes of the pieces: package merge makes answers of them.
package read

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sort"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/query/read/chunks"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/query/read/rollups"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what a Reader needs, with all limits above 0: query.Config has checked them.
type Config struct {
	Chunks    store.Reader
	Heads     store.Heads
	Log       store.Log // which partitions there are and how far they reach; nil: not known
	Directory plan.Directory
	Rollups   store.RollupReader // nil: there are none
	Topics    topics.Set         // with their tenants; none: no topic is bound to a tenant

	Fanout     int     // scans of one query at the same time
	Bytes      int64   // the most memory of one query
	TotalBytes int64   // the most memory of all queries together
	MaxRUs     float64 // the most request units of one query

	Room       *kept.Room    // keeps reads for later queries; nil for none
	RoomAge    time.Duration // after which it is read again, whatever is known of it
	Registerer prometheus.Registerer

	Now    func() time.Time
	Logger *slog.Logger
}

// Reader makes queries. It is safe for any number of callers and starts nothing that outlives a call. Between calls it
// remembers how far it has answered (rule R3), and keeps reads in a room (rules R7, R8).
type Reader struct {
	cfg     Config
	memory  *piece.Memory // of all queries
	plan    plan.Config
	heads   *heads.Reader
	chunks  *chunks.Reader
	rollups *rollups.Reader
}

// New makes a Reader.
func New(c Config) *Reader {
	return &Reader{
		cfg: c, memory: piece.NewMemory(c.TotalBytes),
		plan: plan.Config{Directory: c.Directory, Fanout: c.Fanout, Now: c.Now},
		heads: heads.New(heads.Config{Heads: c.Heads, Log: c.Log, Topics: c.Topics, Room: c.Room, RoomAge: c.RoomAge,
			Registerer: c.Registerer, Now: c.Now, Logger: c.Logger}),
		chunks: chunks.New(chunks.Config{Chunks: c.Chunks, Fanout: c.Fanout, Room: c.Room, RoomAge: c.RoomAge,
			Registerer: c.Registerer, Now: c.Now}),
		rollups: rollups.New(rollups.Config{Rollups: c.Rollups, Fanout: c.Fanout, Room: c.Room, Now: c.Now,
			Logger: c.Logger}),
	}
}

// Memory returns a counter of memory that a caller holds outside queries. It must be closed.
func (r *Reader) Memory(limit int64) *piece.Memory { return r.memory.Memory(limit) }

// Await waits until heads have read the records that the context asks for, if any (WithAfter).
func (r *Reader) Await(ctx context.Context, tenant string) error { return r.heads.Await(ctx, tenant) }

// Request asks for pieces, and for what is kept of answers.
type Request struct {
	piece.Request

	// Narrow is called once, with the basis of the answer, nil if that is not known. It returns the first instant that is
	// needed: earlier readings may be left out. A nil Narrow needs the whole range.
	Narrow func(*Basis) int64
	// Kept is what an earlier answer to the same question was made of. Where the store has nothing new since, Narrow is
	// called before the store is read.
	Kept *Basis
}

// Query is one request under way. The goroutine that runs it owns it.
type Query struct {
	r       *Reader
	req     Request
	account *piece.Account
	view    *plan.View
	heads   *heads.Answer
	chunks  *chunks.Query
	rollups *rollups.Query
	begin   *int64 // the first instant that is needed, once that is known
	expired []string
}

// Query begins a query, which must be closed.
func (r *Reader) Query(req Request) *Query {
	req.Range = telemetry.Range{From: max(req.Range.From, 0), To: min(req.Range.To, telemetry.MaxMillis)}
	q := &Query{r: r, req: req, view: &plan.View{}, heads: r.heads.NoAnswer()}
	q.account = piece.NewAccount(r.Memory(r.cfg.Bytes), r.cfg.MaxRUs, &req.Request)
	q.readChunks(nil)
	return q
}

// readChunks prepares the read of the store into a sink.
func (q *Query) readChunks(sink piece.Sink) {
	s := chunks.Sources{Request: &q.req.Request, Account: q.account, View: q.view, Heads: q.heads, Sink: sink}
	if q.req.Kept != nil {
		s.Kept = q.req.Kept.note
	}
	q.chunks = q.r.chunks.Query(s)
	q.rollups = q.r.rollups.Query(q.chunks)
}

// Range returns the request's range within the times that readings can have.
func (q *Query) Range() telemetry.Range { return q.req.Range }

// Memory returns the counter of the bytes that the query holds. It is safe for any number of callers.
func (q *Query) Memory() *piece.Memory { return q.account.Memory }

// Close gives back the memory of the query. Its pieces must not be used any more.
func (q *Query) Close() { q.account.Memory.Close() }

// Stats returns what the query has read, also after an error.
func (q *Query) Stats() piece.Stats { return q.account.Stats() }

// Explain turns an error of Memory or Run into the one that callers see.
func (q *Query) Explain(err error) error { return q.account.LimitError(err, &q.req.Request) }

// Incomplete returns why the answer is not complete (rules R3, R4), a sentence each; nil if it is.
func (q *Query) Incomplete() (out []string) {
	return append(append(append(out, q.heads.Missing...), q.expired...), q.chunks.Missing...)
}

// Unread returns the part of Incomplete that is in the log and no head has read yet, or answers (rule R3).
func (q *Query) Unread() []string { return q.heads.Unread }

// Deferrals returns the readings that make the answer incomplete because they wait for a limit.
func (q *Query) Deferrals() []heads.Deferral { return q.heads.Deferrals }

// MissingChunks returns the chunks that make the answer incomplete because the store lacks them (rule R4).
func (q *Query) MissingChunks() []chunks.MissingChunks { return q.chunks.MissingChunks }

// Run reads into the sink: heads first, then the snapshot of tenants, then the store (rule R1). An error of the sink
// ends it and is returned as it is, but for a *Stop. Errors of its own: a *LimitError, a *NotYetError, a *TimeoutError,
// ErrUnavailable, ErrBusy, chunk.ErrCorrupt, the context's. Pieces may have been added before an error.
func (q *Query) Run(ctx context.Context, sink piece.Sink) error {
	if q.req.Range.Empty() {
		return nil
	}
	q.account.BeginExplanation(ctx)
	err := q.run(ctx, sink)
	if err == nil {
		err = heads.MustInclude(ctx, q.Incomplete()[q.heads.Positions:])
	}
	q.account.Explain(func(e *piece.Explained) { e.Stats = q.account.Stats() })
	return q.Explain(err)
}

func (q *Query) run(ctx context.Context, sink piece.Sink) error {
	if err := q.readHeads(ctx); err != nil {
		return err
	}
	if err := q.view.Follow(ctx, q.heads.Seen); err != nil {
		return err
	}
	if q.view.Snapshot.HasCopies() { // no head knows their chunks
		q.heads.Stored.Ignore()
	}
	if q.req.AsOf > 0 {
		sink = cutBySink{sink, q.req.AsOf}
	}
	q.readChunks(sink)
	q.narrow()
	if err := q.deliverHeads(sink); err != nil {
		return err
	}
	q.noteExpired(cmp.Or(q.req.Since, q.req.AsOf))
	if q.account.IsExplained() {
		q.account.ExplainRead(&piece.Explained{Tenant: q.req.Tenant, Devices: q.req.Devices, Metrics: q.req.Metrics,
			Range: q.req.Range, Ordered: q.req.Order != piece.Unordered, Estimate: q.estimate()})
	}
	switch {
	case q.account.OnlyPlans():
		return nil
	case q.req.Order != piece.Unordered:
		return q.chunks.InOrder(ctx)
	}
	read := q.chunks.Gather
	if q.rollups.Pays() && !q.standsAlone() {
		read = q.rollups.Read
	}
	if err := read(ctx); err != nil {
		return err
	}
	q.confirm()
	return nil
}

// readHeads reads the heads, and begins the view of the tenant.
func (q *Query) readHeads(ctx context.Context) (err error) {
	q.view, err = plan.Begin(ctx, q.r.plan, &q.req.Request)
	if err != nil || q.req.AsOf > 0 { // heads do not know the state of an earlier moment
		return err
	}
	answer, err := q.r.heads.Read(ctx, heads.Query{Request: &q.req.Request, Account: q.account, View: q.view})
	if err != nil {
		return fmt.Errorf("read heads: %w", err)
	}
	q.heads = answer
	return nil
}

// deliverHeads hands on the rows of heads that are needed.
func (q *Query) deliverHeads(sink piece.Sink) error {
	for _, p := range q.heads.Pieces {
		if p.From >= q.req.Range.To || p.To < q.req.Range.From {
			p.Release()
			continue
		}
		q.account.Add(piece.Stats{HeadRows: heads.RowsWithin(p.Frame, q.req.Range)})
		if err := sink.Add(p); err != nil {
			return err
		}
	}
	return nil
}

// estimate goes through the plan without reading anything.
func (q *Query) estimate() piece.Estimate {
	if q.rollups.Pays() {
		return q.rollups.Estimate()
	}
	return q.chunks.Estimate()
}

// confirm notes that the read ranges lack nothing, if the answer is complete. It is called once all was read and held
// against rule R4: a read that failed says nothing of the keys that it did read.
func (q *Query) confirm() {
	if q.Incomplete() == nil && q.view.Tenant.Placement != nil {
		q.chunks.Confirm()
	}
}

// cutBySink hands on only chunks that were cut by a moment.
type cutBySink struct {
	piece.Sink
	asOf int64
}

// Add implements Sink.
func (k cutBySink) Add(p *piece.Piece) error {
	if !p.CutBy(k.asOf) {
		p.Release()
		return nil
	}
	return k.Sink.Add(p)
}

// noteExpired notes that readings may have expired since a moment; 0 is no moment.
func (q *Query) noteExpired(since int64) {
	if since == 0 {
		return
	}
	tenant, now := q.view.Tenant, q.r.cfg.Now().UnixMilli()
	first, last := q.req.Days()
	shown := first + telemetry.Day(sort.Search(int(last+1-first), func(i int) bool {
		return !tenant.Expired(first+telemetry.Day(i), now)
	}))
	if q.view.HidesSome() || shown > first && !tenant.Expired(shown-1, since) {
		q.expired = append(q.expired, fmt.Sprintf(
			"readings of days up to %s that were known at %s may have expired since",
			max(shown, first+1)-1, time.UnixMilli(since).UTC().Format(time.RFC3339)))
	}
}

// Basis is what a read was made of. Two reads of the same question with the same basis have the same answer; otherwise
// ChangedSince returns from which instant on they may differ (decision record 17). It is small, and has no readings.
type Basis struct {
	r       telemetry.Range
	orders  int          // the number of orders of erasure
	rows    kept.Changes // versions of heads' rows
	targets map[sharding.Key]bool
	chunks  chunks.Made
	days    map[rollups.DayKey]rollups.DaySum
	note    heads.Note // the last question to the store
}

// Bytes returns about how much memory a kept basis takes.
func (b *Basis) Bytes() int64 {
	n := 512 + 160*int64(len(b.chunks.Ranges)+len(b.targets)+len(b.days)) + b.rows.Bytes()
	for _, c := range b.chunks.Ranges {
		n += c.Bytes()
	}
	return n
}

// continues reports whether an earlier answer can be continued: its range does not begin later, and it is of the same
// keys and orders of erasure.
func (b *Basis) continues(earlier *Basis) bool {
	return earlier.r.From <= b.r.From && earlier.orders == b.orders && maps.Equal(earlier.targets, b.targets)
}

// ChangedSince returns the first instant of a reading that may be in one of two answers and not in the other, for the
// range of this one: kept.Never for none.
func (b *Basis) ChangedSince(earlier *Basis) int64 {
	if !b.continues(earlier) {
		return kept.Always
	}
	from := min(b.rows.Since(earlier.rows), b.chunks.ChangedSince(&earlier.chunks))
	differ := func(days, others map[rollups.DayKey]rollups.DaySum) {
		for of, sum := range days {
			if others[of] != sum {
				from = min(from, of.Day.Start())
			}
		}
	}
	differ(b.days, earlier.days)
	differ(earlier.days, b.days)
	return from
}

// Basis returns what the read was made of, nil if that is not known or the answer is not complete. It is called
// when Run has returned.
func (q *Query) Basis() *Basis {
	made := q.chunks.Made()
	if made.Inexact || q.account.Stats().Reread > 0 || !q.hasBasis() {
		return nil
	}
	b := q.newBasis()
	b.chunks, b.days = made, q.rollups.Days
	b.note = q.heads.Stored.Note(&q.chunks.Kept, false)
	b.note.Due = heads.Earlier(b.note.Due, made.Due)
	return b
}

func (q *Query) newBasis() *Basis {
	b := &Basis{r: q.req.Range, rows: q.heads.Changes,
		orders:  q.view.Acknowledged(),
		targets: make(map[sharding.Key]bool)}
	for p := range q.view.Parts {
		for _, t := range plan.FirstLevel(p.Targets) {
			b.targets[t.Key] = true
		}
	}
	return b
}

// hasBasis reports whether the reads so far leave a basis.
func (q *Query) hasBasis() bool {
	return !q.account.IsExplained() && q.req.AsOf == 0 && q.req.Order == piece.Unordered && q.req.Devices == nil &&
		q.Incomplete() == nil && q.heads.Changes != nil && q.view.Tenant.Placement != nil && !q.view.HidesSome()
}

// keptBasis returns the basis of the answer if the store has nothing that it had not when an earlier answer was made
// (rule R8), nil if that is not known.
func (q *Query) keptBasis(earlier *Basis) *Basis {
	if !q.hasBasis() {
		return nil
	}
	b := q.newBasis()
	b.chunks, b.days, b.note = earlier.chunks, earlier.days, earlier.note
	b.chunks.Expires = min(b.chunks.Expires, q.heads.Expires)
	if !b.continues(earlier) || !heads.ExpiresLate(b.chunks.Expires, b.chunks.Date) ||
		!q.heads.Stored.Stands(&b.note, b.r, nil) {
		return nil
	}
	return b
}

// narrow leaves out of the range what an earlier answer has, if the store has nothing new for it.
func (q *Query) narrow() {
	if q.req.Narrow == nil || q.req.Kept == nil {
		return
	}
	b := q.keptBasis(q.req.Kept)
	if b == nil {
		return
	}
	from := q.req.Narrow(b)
	q.begin = &from
	q.req.Range.From = min(max(q.req.Range.From, from), q.req.Range.To)
	q.view.Plan()
}

// Begin returns the first instant of the range that is needed, as Narrow says. It is called when Run has returned.
func (q *Query) Begin() int64 {
	if q.begin == nil {
		from := q.req.Narrow(q.Basis())
		q.begin = &from
	}
	return *q.begin
}

// standsAlone reports whether what an earlier answer lacks can be read from known chunks, without asking the store:
// manifests of rollups would have to be read from time to time.
func (q *Query) standsAlone() bool {
	if q.begin == nil {
		return false
	}
	for p := range q.view.Parts {
		for _, t := range p.Targets {
			if r := piece.Within(t.Range, p.Range); !r.Empty() && !q.chunks.Stands(t, r) {
				return false
			}
		}
	}
	return true
}
