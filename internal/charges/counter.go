package charges

import (
	"strings"
	"sync"
	"time"
)

// Bounds of what a process keeps in memory.
const (
	// rowsPerPage bounds a document: about 14 KB.
	rowsPerPage = 100
	// maxRows bounds the rows by tenant; further tenants are counted as one.
	maxRows = 100_000
	// maxSources bounds the sources of a tenant; the least of them is counted among the others.
	maxSources = 1000
	maxText    = 200 // bytes of a source's text
)

// Rest is the name of all tenants without a row. No tenant can have it.
const Rest = "(other tenants)"

// Key names a row.
type Key struct {
	Tenant, Container string
	Kind              Kind
}

// Amount counts the requests of a row in a month.
type Amount struct {
	RUs      float64
	Requests int64
	// Bytes counts the bytes of stored documents.
	Bytes int64
}

func (a *Amount) add(o Amount) {
	a.RUs += o.RUs
	a.Requests += o.Requests
	a.Bytes += o.Bytes
}

// Counter counts charges by month. Count is safe for any number of callers and never waits for anything but other
// callers; the other methods are for one caller at a time.
type Counter struct {
	writer string // begins the ids of documents

	mu        sync.Mutex // guards below
	months    map[Month]*month
	forgotten map[Month]int // how often: a clock may be set back into a month that is over and stored
	rus       float64       // all that was counted
}

// month holds the counts of a month.
type month struct {
	rows map[Key]*row
	// pages begin with the rows without a tenant.
	pages   []*page
	fill    int // rows of the last page
	queries map[string]*queries
}

type row struct {
	key    Key
	amount Amount
	page   *page
}

// page is the rows of one document.
type page struct {
	rows  []*row
	dirty bool
}

// NewCounter returns a Counter of a process. No other process, before or after it, has its name.
func NewCounter(writer string) *Counter {
	return &Counter{writer: writer, months: map[Month]*month{}, forgotten: map[Month]int{}}
}

// Writer returns the name that begins the ids of documents.
func (c *Counter) Writer() string { return c.writer }

// Count counts a charge at a time.
func (c *Counter) Count(now time.Time, x Charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rus += x.RUs
	m := c.months[MonthOf(now)]
	if m == nil {
		m = &month{rows: map[Key]*row{}, pages: []*page{{}}, fill: rowsPerPage, queries: map[string]*queries{}}
		c.months[MonthOf(now)] = m
	}
	r := m.row(Key{x.Tenant, x.Container, x.Kind})
	r.amount.add(Amount{RUs: x.RUs, Requests: 1, Bytes: int64(x.Bytes)})
	r.page.dirty = true
	if x.Source == nil || x.Tenant == "" {
		return
	}
	q := m.queries[x.Tenant]
	if q == nil {
		if len(m.queries) >= maxSources {
			return // its row counts
		}
		q = &queries{sources: map[Source]*spent{}}
		m.queries[x.Tenant] = q
	}
	q.count(*x.Source, x.RUs)
}

// RUs returns the RU counted since the Counter was made.
func (c *Counter) RUs() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rus
}

func (m *month) row(key Key) *row {
	r := m.rows[key]
	if r == nil && len(m.rows) >= maxRows && key.Tenant != "" {
		key.Tenant = Rest
		r = m.rows[key]
	}
	if r != nil {
		return r
	}
	r = &row{key: key, page: m.pages[0]}
	if key.Tenant != "" {
		if m.fill == rowsPerPage {
			m.pages, m.fill = append(m.pages, &page{}), 0
		}
		m.fill++
		r.page = m.pages[len(m.pages)-1]
	}
	r.page.rows = append(r.page.rows, r)
	m.rows[key] = r
	return r
}

// spent is what queries of one source took.
type spent struct {
	rus      float64
	requests int64
}

// queries are a tenant's queries, by source.
type queries struct {
	sources map[Source]*spent
	others  spent
	dirty   bool
}

func (q *queries) count(s Source, rus float64) {
	q.dirty = true
	for _, text := range []*string{&s.Dashboard, &s.Panel, &s.Agent, &s.Caller, &s.Query} {
		*text = shorten(*text)
	}
	x := q.sources[s]
	if x == nil {
		if len(q.sources) >= maxSources {
			q.evict()
		}
		x = &spent{}
		s.Query = strings.Clone(s.Query) // a path is a part of its request line, which may be long
		q.sources[s] = x
	}
	x.rus += rus
	x.requests++
}

// evict counts the least source among the others.
func (q *queries) evict() {
	var least Source
	var found *spent
	for s, x := range q.sources {
		if found == nil || x.rus < found.rus {
			least, found = s, x
		}
	}
	q.others.rus += found.rus
	q.others.requests += found.requests
	delete(q.sources, least)
}

// shorten cuts a text to maxText bytes, between characters.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText - len("…")
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
