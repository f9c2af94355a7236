// Package chunks reads stored chunks: it scans keys, holds what they answer against what must be there (rule R4), and
// keeps what was read, so that a later read of a known range asks only for newer chunks (rule R7), or for nothing
// (rule R8).
//
// It must not know rollups.
package chunks

import (
	"context"
	"errors"
	"fmt"
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
	"binnacle/query/read/plan"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Config is what a Reader needs.
type Config struct {
	Chunks     store.Reader
	Fanout     int           // scans of one query at the same time
	Room       *kept.Room    // for chunks that were read before; nil for none
	RoomAge    time.Duration // after which they are read again, whatever is known of them
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Reader reads chunks for any number of queries at the same time.
type Reader struct {
	cfg       Config
	history   *scanHistory
	seen      sync.Map               // names of containers in which documents were found
	loads     atomic.Uint64          // loads and queries that have begun
	documents *prometheus.CounterVec // nil without a room
}

// New makes a Reader.
func New(cfg Config) *Reader {
	r := &Reader{cfg: cfg, history: &scanHistory{seen: make(map[historyKey]scanYield)}}
	if cfg.Room != nil {
		r.documents = promauto.With(cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_query_cache_documents_total",
			Help: "Chunks of answers, by whether they were read before (hit) or for this answer (miss)."},
			[]string{"result"})
	}
	return r
}

// Query reads the chunks of one query. Its goroutine owns it, but for what is said to be safe for any number of
// callers.
type Query struct {
	Sources
	Missing       []string        // why the answer is not complete (rule R4), a sentence each
	MissingChunks []MissingChunks // chunks that the store lacks, a part of Missing

	r      *Reader
	asked  uint64      // number of the query among loads: later ones began after its heads were read
	tails  heads.Tails // nil until they are needed
	reread int         // devices and days that were read again
	lacked bool        // what was read first has lacked a chunk, or may have
	days   int         // days in the next window
	oneDay bool        // windows of more than a day have turned out too large

	isAsking atomic.Bool // a range was read that no note explains: rule R4 has to show that no chunk is missing

	mu     sync.Mutex // guards below
	made   Made
	loaded []*known
}

// Query begins to read chunks for a query, once its heads were read.
func (r *Reader) Query(s Sources) *Query {
	q := &Query{Sources: s, r: r, asked: r.loads.Add(1), days: daysOfMonth}
	q.made = Made{Ranges: make(map[uint64]kept.Changes), Expires: s.Heads.Expires}
	if s.Request.Early {
		q.days = 1
	}
	return q
}

// daysOfMonth is enough days for the rest of any month.
const daysOfMonth = 31

// Sources is what a query has besides chunks.
type Sources struct {
	Request *piece.Request
	Account *piece.Account
	View    *plan.View
	Heads   *heads.Answer
	Kept    heads.Note // the note of an earlier answer to the same question
	Sink    piece.Sink
}

// MissingChunks is a device and day with chunks that are stored and were not answered.
type MissingChunks struct {
	Device string
	Day    telemetry.Day
	Detail string
}

// Tails returns the tails of chains that heads remember.
func (q *Query) Tails() heads.Tails {
	if q.tails == nil {
		q.tails = q.Heads.Tails(q.Request, q.View)
	}
	return q.tails
}

func (q *Query) note(change func(*Made)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(&q.made)
}

// Expire notes when a chunk of the answer may be gone. It is safe for any number of callers.
func (q *Query) Expire(at int64) { q.note(func(m *Made) { m.Expires = min(m.Expires, at) }) }

// Made returns what the answer is made of, once all was read.
func (q *Query) Made() Made { return q.made }

// Deliver hands a piece on, unless it is erased.
func (q *Query) Deliver(p *piece.Piece) error {
	erased, hasNew := q.View.IsErased(&p.Chunk.Header)
	if hasNew { // earlier pieces may have been erased
		q.note(func(m *Made) { m.Inexact = true })
	}
	if erased {
		p.Release()
		return nil
	}
	q.Heads.Shows(&p.Chunk.Header, q.View.Snapshot)
	return q.Sink.Add(p)
}

// scan reads the chunks of a target that may have rows in r. It is safe for any number of callers. An error of take
// ends it and is returned as it is; take owns the piece in any case.
func (q *Query) scan(ctx context.Context, t plan.Target, r telemetry.Range, take func(*piece.Piece) error) error {
	_, _, err := q.scanTarget(ctx, t, store.Scan{Range: r}, take)
	return err
}

// scanTarget makes a scan of a target. It reports whether a container is gone that had chunks before.
func (q *Query) scanTarget(ctx context.Context, t plan.Target, s store.Scan,
	take func(*piece.Piece) error) (usage store.Usage, gone bool, err error) {
	covered := int64(0)
	var own error // take's or charge's error, which Scan returns unchanged
	q.Account.Visit(t.Key)
	s.Key, s.Devices, s.Descending = t.Key, t.Devices, q.Request.Order == piece.Descending
	s.Charge = func(rus float64) error {
		own = q.Account.Charge(rus)
		return own
	}
	usage, err = q.r.cfg.Chunks.Scan(ctx, s, func(doc []byte) error {
		p, err := q.parse(t, doc)
		switch {
		case err != nil:
		case q.View.Tenant.Placement.Holds(t.Key, p.Device, p.Chunk.Header.ID.Day) &&
			!q.View.Hides(p.Device, p.Chunk.Header.ID.Day):
			covered += p.To - p.From
			err = take(p)
		default: // another epoch has the day, or it is hidden: the chunk is no part of the tenant's data
			p.Release()
		}
		own = err
		return err
	})
	q.Account.Add(piece.Stats{RequestUnits: usage.RUs, Documents: usage.Documents})
	q.Account.Explain(func(e *piece.Explained) { e.Scans = append(e.Scans, explainedScan(s, usage)) })
	switch {
	case own != nil:
		return usage, false, own
	case errors.Is(err, store.ErrNoContainer):
		_, before := q.r.seen.Load(t.Container)
		before = before || usage.Documents > 0
		return usage, before, q.withoutContainer(ctx, t.Container, before)
	case err != nil:
		what := fmt.Sprintf("read chunks of %q, %q in %s", t.TenantShard, t.Device, t.Container)
		return usage, false, piece.Unavailable(ctx, what, err)
	}
	if usage.Documents > 0 {
		q.r.seen.Store(t.Container, true)
	}
	if over := daysOf(s.Range, q.r.cfg.Now().UnixMilli()); s.Since == 0 && over > 0 {
		q.r.history.add(q.Request.Tenant, t, yieldOf(t, usage, over, float64(covered)/telemetry.DayMillis))
	}
	return usage, false, nil
}

// parse parses a chunk, of the metrics that are asked for.
func (q *Query) parse(t plan.Target, doc []byte) (*piece.Piece, error) {
	c, err := chunk.ParseColumns(doc, q.Request.Metrics)
	if err == nil {
		err = answers(t, c.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("read chunks of %q, %q in %s: %w", t.TenantShard, t.Device, t.Container, err)
	}
	return q.Account.OfChunk(c, nil)
}

// answers fails if a chunk is not what the scan asked for: a store that answers more must not show one tenant, or
// device, the rows of another.
func answers(t plan.Target, h chunk.Header) error {
	ok := h.TenantShard == t.TenantShard
	if t.Device != "" {
		ok = ok && h.Device == t.Device
	} else if t.Devices != nil {
		_, named := slices.BinarySearch(t.Devices, h.Device)
		ok = ok && named
	}
	if !ok {
		return fmt.Errorf("%w: chunk %s is of %q, %q", chunk.ErrCorrupt, h.ID, h.TenantShard, h.Device)
	}
	return nil
}

// withoutContainer decides what a missing container means. One without chunks so far may not be made yet. One with
// chunks has expired, or this is an error.
func (q *Query) withoutContainer(ctx context.Context, container string, before bool) error {
	if !before {
		return nil
	}
	has, err := q.View.HasContainer(ctx, container)
	if err == nil && has {
		err = piece.Unavailable(ctx, "read "+container, store.ErrNoContainer)
	}
	return err
}

// explainedScan describes a scan. Several windows count as the range that they lie in.
func explainedScan(s store.Scan, u store.Usage) piece.ScanExplained {
	out := piece.ScanExplained{Key: s.Key, Named: len(s.Devices), Documents: u.Documents, RequestUnits: u.RUs}
	for i, w := range s.AllWindows() {
		if i == 0 {
			out.Range, out.Since = w.Range, w.Since
		}
		out.Range.From, out.Range.To = min(out.Range.From, w.From), max(out.Range.To, w.To)
		out.Since = min(out.Since, w.Since)
	}
	return out
}
