package rollups

import (
	"log/slog"
	"sync"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/chunks"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
)

// Config is what a Reader needs.
type Config struct {
	Rollups store.RollupReader // nil: there are none
	Fanout  int                // keys of one query that are read at the same time
	Room    *kept.Room         // for documents that were read before; nil for none
	Now     func() time.Time
	Logger  *slog.Logger
}

// Reader reads rollups for any number of queries at the same time.
type Reader struct {
	cfg Config

	mu  sync.Mutex         // guards below
	rus map[string]float64 // the cost of a document, by tenant
}

// New makes a Reader.
func New(cfg Config) *Reader { return &Reader{cfg: cfg, rus: make(map[string]float64)} }

// Query reads rollups, and what they do not cover, for one query. Its goroutine owns it.
type Query struct {
	*chunks.Query
	// Days has a checksum for each day of a key that rollups covered.
	Days map[DayKey]DaySum

	r *Reader
}

// Query begins to read rollups for a query.
func (r *Reader) Query(q *chunks.Query) *Query { return &Query{Query: q, r: r} }

// deviceDay is a device on a day.
type deviceDay struct {
	device string
	day    telemetry.Day
}

// Pays reports whether the request is answered from rollups as far as possible: there are some, its sink takes them,
// and its devices are so numerous that their chunks would cost more.
func (q *Query) Pays() bool {
	_, ok := q.Sink.(Sink)
	return ok && q.Request.Rollups != nil && q.r.cfg.Rollups != nil && q.Request.AsOf == 0 && q.Request.AsksManyDevices()
}

// Sink takes rollups as well as pieces. What they have of a device and day is the same in both: a piece of a day and
// device that rollups cover has an Except.
type Sink interface {
	piece.Sink
	// AddRollups takes what rollups have of a first-level key on a day, once for each of them.
	AddRollups(*Rollups) error
}

// Rollups is what rollups have of a first-level key and a day. It is shared: it must not be changed.
type Rollups struct {
	Day     telemetry.Day
	Grid    rollup.Grid
	Columns rollup.Columns // that are asked for
	Parts   []Part
	Raw     map[string]bool // devices without rollups that count: their pieces have the whole day
}

// Part is documents with one series index.
type Part struct {
	Series    []rollup.Series
	Documents []*Document
	Hours     rollup.Hours            // the hours that count, unless a device has others
	Of        map[string]rollup.Hours // the hours of devices that have others
}

// Counts returns the hours of a device that count.
func (p *Part) Counts(device string) rollup.Hours {
	if h, ok := p.Of[device]; ok {
		return h
	}
	return p.Hours
}

// Document is some hours of a metric and family.
type Document struct {
	Metric   string
	From, To int             // hours
	Rows     []int32         // rows of the table by place in the series index; -1 or beyond the end for none
	At0      []rollup.Sample // the samples at midnight by row; nil for none

	section *rollup.Section
	r       *Reader
	key     any // in the room
	id      string

	mu      sync.Mutex     // guards below
	table   *rollup.Table  // nil unless some columns stay decoded
	decoded rollup.Columns // of the table
}

// Row returns the row of the table for a place in the series index, -1 for none.
func (d *Document) Row(place int) int {
	if place >= len(d.Rows) {
		return -1
	}
	return int(d.Rows[place])
}

// rollupSeeks is the seeks of a scan of rollup documents: the values and ranges of its conditions.
const rollupSeeks = 5

// costs returns what a rollup document of a tenant costs on top of the seeks of its scan.
func (r *Reader) costs(tenant string) (rus float64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rus, ok = r.rus[tenant]
	return rus, ok
}

// maxTenants bounds the tenants with remembered costs.
const maxTenants = 4096

// learn takes the documents and the cost, without seeks, of a scan of rollups. The last scan counts as much as all
// before it.
func (r *Reader) learn(tenant string, documents int, rus float64) {
	if documents == 0 {
		return
	}
	rus = max(0, rus) / float64(documents)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rus) > maxTenants {
		clear(r.rus)
	}
	if old, ok := r.rus[tenant]; ok {
		rus = (old + rus) / 2
	}
	r.rus[tenant] = rus
}
