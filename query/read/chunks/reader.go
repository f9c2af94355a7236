// Package chunks reads stored chunks: it scans keys, holds what they answer against what must be there (rule R4), and
// keeps what was read, so that a later read of a known range asks only for newer chunks (rule R7), or for nothing
// (rule R8).
//
// It must not know rollups.
package chunks

import (
	"sync"
	"sync/atomic"
	"time"

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
	r := &Reader{cfg: cfg, history: newScanHistory()}
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
	Notes         Notes
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
	loaded []loaded
}

// Query begins to read chunks for a query, once its heads were read.
func (r *Reader) Query(s Sources) *Query {
	q := &Query{Sources: s, r: r, asked: r.loads.Add(1), days: daysOfMonth}
	if q.Notes.made.Expires = s.Heads.Expires; s.Request.Early {
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

// Deliver hands a piece on, unless it is erased.
func (q *Query) Deliver(p *piece.Piece) error {
	erased, hasNew := q.View.IsErased(&p.Chunk.Header)
	if hasNew { // earlier pieces may have been erased
		q.Notes.noteInexact()
	}
	if erased {
		p.Release()
		return nil
	}
	return q.Sink.Add(p)
}
