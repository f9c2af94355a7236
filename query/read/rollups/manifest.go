package rollups

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/chunks"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/sharding"
)

// dayRead is a day of a first-level key that is being read.
type dayRead struct {
	day      telemetry.Day
	asked    telemetry.Range // the request's range within the day
	manifest *manifest       // nil for none
	since    []string        // the chunks that were stored after it
	from     int             // hours that rollups cover, up to and without to; none unless to is greater
	to       int
	raw      map[string]bool // devices that are read from their chunks
}

func (d *dayRead) hasRollups() bool { return d.from < d.to }

func (d *dayRead) covered() telemetry.Range {
	if !d.hasRollups() {
		return telemetry.Range{From: d.asked.From, To: d.asked.From}
	}
	r := rollup.Range(d.day, d.from, d.to)
	return telemetry.Range{From: max(r.From, d.asked.From), To: min(r.To, d.asked.To)}
}

func (d *dayRead) hours() rollup.Hours { return rollup.Span(d.from, d.to) }

// cover chooses the hours that rollups answer for: the longest run of hours that the manifest has with all that the
// request needs, and with all chunks still stored.
func (d *dayRead) cover(l *manifest, ask *piece.RollupsRequest) {
	d.manifest = l
	needed := rollup.HoursOf(d.day, d.asked.From, d.asked.To-1)
	for h := range rollup.HoursOfDay {
		if l.expired(h) {
			needed &^= rollup.Span(h, h+1)
		}
	}
	owners := l.owners(ask.Grid)
	for from := 0; from < rollup.HoursOfDay; from++ {
		to := from
		for to < rollup.HoursOfDay && needed.Has(to) && owners[to] >= 0 && answers(&l.Batches[owners[to]], ask) {
			to++
		}
		if to-from > d.to-d.from {
			d.from, d.to = from, to
		}
		from = to
	}
	if !d.hasRollups() {
		return
	}
	shown := d.hours()
	for device, hours := range l.Raw {
		if hours&shown != 0 {
			d.raw[device] = true
		}
	}
	for i := range l.Batches {
		b := &l.Batches[i]
		if !b.Correction || l.later(i, owners)&shown == 0 || slices.Contains(b.Grids, ask.Grid) && answers(b, ask) {
			continue
		}
		for _, device := range b.Devices {
			d.raw[device] = true
		}
	}
}

// answers reports whether a batch can answer a request: it has what is needed, or no device has samples.
func answers(b *rollup.Batch, ask *piece.RollupsRequest) bool {
	for _, metric := range ask.Metrics {
		if b.Omits(metric) {
			return false
		}
		m := b.Metric(metric)
		if m != nil && slices.ContainsFunc(ask.Columns.Families(), func(f rollup.Family) bool { return !m.Families.Has(f) }) {
			return false
		}
	}
	return true
}

// manifest is a manifest that was read.
type manifest struct {
	*rollup.Manifest
	bytes int64
	sum   [sha256.Size]byte // the document's checksum
	date  int64             // s since 1970 UTC, by the service's clock: when it was read; 0 is not known
}

// expired reports whether chunks of an hour may be gone from the store while the manifest is in use. The querier's own
// clock does not count.
func (l *manifest) expired(hour int) bool {
	by := l.date + int64((manifestsAge + heads.Margin).Seconds())
	return l.Until[hour] != 0 && (l.date == 0 || l.Until[hour] <= by)
}

// owners returns, by hour, the last batch of all devices that has it on a grid, -1 for none.
func (l *manifest) owners(g rollup.Grid) (of [rollup.HoursOfDay]int) {
	for h := range of {
		of[h] = -1
	}
	for i := range l.Batches {
		if b := &l.Batches[i]; !b.Correction && slices.Contains(b.Grids, g) {
			for h := b.From; h < b.To; h++ {
				of[h] = i
			}
		}
	}
	return of
}

// later returns the hours of a batch with an owner that was made before it.
func (l *manifest) later(i int, owners [rollup.HoursOfDay]int) (hours rollup.Hours) {
	for h := l.Batches[i].From; h < l.Batches[i].To; h++ {
		if owners[h] < i {
			hours |= rollup.Span(h, h+1)
		}
	}
	return hours
}

// choice is the part of a batch that answers.
type choice struct {
	*rollup.Batch
	owned     rollup.Hours            // the hours of all devices
	left      map[string]rollup.Hours // the part of owned that no correction answers for, of devices that have one
	corrected map[string]rollup.Hours // hours by device, if the batch is a correction; nil for none
}

// chosen returns the choice of each batch for the covered hours.
func (d *dayRead) chosen(g rollup.Grid) []choice {
	if !d.hasRollups() {
		return nil
	}
	owners, hours := d.manifest.owners(g), d.hours()
	out, taken := make([]choice, len(d.manifest.Batches)), make(map[string]rollup.Hours)
	for h, i := range owners {
		if i >= 0 && hours.Has(h) {
			out[i].owned |= rollup.Span(h, h+1)
		}
	}
	for i := len(out) - 1; i >= 0; i-- {
		b := &d.manifest.Batches[i]
		out[i].Batch = b
		if !b.Correction || !slices.Contains(b.Grids, g) {
			continue
		}
		later := d.manifest.later(i, owners) & hours
		for _, device := range b.Devices {
			if mine := later &^ taken[device]; mine != 0 {
				if out[i].corrected == nil {
					out[i].corrected = make(map[string]rollup.Hours)
				}
				out[i].corrected[device] = mine
				taken[device] |= mine
			}
		}
	}
	for i := range out {
		out[i].left = make(map[string]rollup.Hours)
		for device, hours := range taken {
			out[i].left[device] = out[i].owned &^ hours
		}
	}
	return out
}

func (c *choice) documents(ask *piece.RollupsRequest, day telemetry.Day, metric string) (out []rollup.Ref) {
	for _, f := range ask.Columns.Families() {
		out = append(out, c.Documents(day, metric, f, ask.Grid, c.owned)...)
	}
	return out
}

// DayKey is a day of a first-level key that rollups cover.
type DayKey struct {
	sharding.Key
	Day telemetry.Day
}

// DaySum differs where another manifest is read, or other chunks that are newer.
type DaySum [sha256.Size]byte

// noteDays notes the days that rollups cover: by which manifest, and which chunks are newer. It does not note which
// hours they cover, as answers do not depend on it.
func (q *Query) noteDays(jobs []*job) {
	q.Days = make(map[DayKey]DaySum)
	for _, j := range jobs {
		for _, d := range j.days {
			if !d.hasRollups() {
				continue
			}
			var expired rollup.Hours
			for h := range rollup.HoursOfDay {
				if d.manifest.expired(h) {
					expired |= rollup.Span(h, h+1)
				} else if until := d.manifest.Until[h]; until > 0 {
					q.Expire(until * 1000)
				}
			}
			slices.Sort(d.since)
			text := fmt.Sprintf("%x %x %s", d.manifest.sum, expired, strings.Join(d.since, " "))
			q.Days[DayKey{j.target.Key, d.day}] = sha256.Sum256([]byte(text))
			q.Account.Explain(func(e *piece.Explained) {
				e.Covered = append(e.Covered, piece.CoveredExplained{TenantShard: j.target.TenantShard, Day: d.day,
					AsOf: d.manifest.AsOf, Range: d.covered(), Raw: len(d.raw)})
			})
		}
	}
}

// hide leaves out of rollups of a day what they have of devices that are hidden there.
func (q *Query) hide(l *Rollups) {
	if !q.View.Tenant.HidesSome() {
		return
	}
	for i := range l.Parts {
		for _, s := range l.Parts[i].Series {
			if !l.Raw[s.Device] && q.View.Hides(s.Device, l.Day) {
				l.Raw[s.Device] = true
			}
		}
	}
}

// leaveOutErased lets chunks of a covered day answer for the devices that an order erases there, if the manifest was
// read before rollups were cleared, or so soon afterwards that a replica may have lagged (rule E-R9).
func (q *Query) leaveOutErased(d *dayRead) {
	for _, o := range q.View.Orders() {
		switch {
		case !d.hasRollups() || !o.IsAcknowledged() || d.day < o.From || d.day >= o.To:
		case !o.ClearedAt.IsZero() && d.manifest.date > o.ClearedAt.Add(heads.Margin).Unix():
		case o.Device == "":
			d.from, d.to = 0, 0
		default:
			d.raw[o.Device] = true
		}
	}
}

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
