package charges

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// topSources is how many sources of queries a document names.
const topSources = 100

// Document is what a process stores of a month: rows, or the sources of a tenant's queries. Each write of one replaces
// the one before it.
type Document struct {
	ID      string
	Month   Month
	Queries bool // sources of queries, which are kept for less long
	Body    []byte

	dirty *bool // of what it was made of
}

// rowsBody is the JSON of a document of rows.
type rowsBody struct {
	Version int    `json:"v"`
	Type    string `json:"type"` // charges
	From    int64  `json:"from"` // begin of the month, ms since 1970
	At      int64  `json:"at"`   // up to when it counts, ms since 1970
	Writer  string `json:"writer"`
	Rows    []Row  `json:"rows"`
}

// Row is a row of a document.
type Row struct {
	Tenant    string  `json:"tenant,omitempty"`
	Container string  `json:"container,omitempty"`
	Kind      Kind    `json:"kind"`
	RUs       float64 `json:"rus"`
	Requests  int64   `json:"requests"`
	Bytes     int64   `json:"bytes,omitempty"`
}

// queriesBody is the JSON of a document of sources.
type queriesBody struct {
	Version int         `json:"v"`
	Type    string      `json:"type"` // queries
	From    int64       `json:"from"`
	At      int64       `json:"at"`
	Writer  string      `json:"writer"`
	Tenant  string      `json:"tenant"`
	Sources []SourceRow `json:"sources"`
	Others  SourceRow   `json:"others"`
}

// SourceRow is what the queries of one source took.
type SourceRow struct {
	Dashboard string  `json:"dashboard,omitempty"`
	Panel     string  `json:"panel,omitempty"`
	Agent     string  `json:"agent,omitempty"`
	Caller    string  `json:"caller,omitempty"`
	Query     string  `json:"query,omitempty"`
	RUs       float64 `json:"rus"`
	Requests  int64   `json:"requests"`
}

const version = 1

// Take returns the documents that have changed since they were taken last; nobody's rows are in the last one of a
// month. own is what storing that one will cost, about: it counts beforehand, as nobody counts it in this month when
// the process ends with it. Months that are over and stored are forgotten.
func (c *Counter) Take(now time.Time, own float64) (out []Document, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.sortedMonths() {
		before := len(out)
		if out, err = c.months[at].take(takeArgs{c.writer, at, now, own}, out); err != nil {
			return nil, err
		}
		if len(out) == before && at != MonthOf(now) {
			delete(c.months, at)
		}
	}
	return out, nil
}

// takeArgs is what the documents of a month have in common.
type takeArgs struct {
	writer string
	month  Month
	now    time.Time
	own    float64
}

func (m *month) take(a takeArgs, out []Document) ([]Document, error) {
	add := func(id string, queries bool, dirty *bool, body any) error {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode charges: %w", err)
		}
		*dirty = false
		out = append(out, Document{ID: a.writer + "." + id, Month: a.month, Queries: queries, Body: raw, dirty: dirty})
		return nil
	}
	from, at := a.month.Begin().UnixMilli(), min(a.now.UnixMilli(), a.month.End().UnixMilli())
	for _, tenant := range slices.Sorted(maps.Keys(m.queries)) {
		if q := m.queries[tenant]; q.dirty {
			body := queriesBody{version, "queries", from, at, a.writer, tenant, nil, SourceRow{}}
			body.Sources, body.Others = q.rows()
			if err := add("queries."+tenant, true, &q.dirty, body); err != nil {
				return nil, err
			}
		}
	}
	for i, p := range slices.Backward(m.pages) {
		if !p.dirty {
			continue
		}
		body := rowsBody{Version: version, Type: "charges", From: from, At: at, Writer: a.writer, Rows: p.encode()}
		if i == 0 {
			body.Rows = append(body.Rows, Row{Container: heatContainer, Kind: Control, RUs: hundredths(a.own), Requests: 1})
		}
		if err := add("rows."+strconv.Itoa(i), false, &p.dirty, body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// heatContainer is where documents are stored.
const heatContainer = "heat"

// PutBack has documents taken again that could not be stored.
func (c *Counter) PutBack(docs []Document) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range docs {
		*d.dirty = true
	}
}

func (p *page) encode() []Row {
	out := make([]Row, len(p.rows), len(p.rows)+1)
	for i, r := range p.rows {
		out[i] = Row{r.key.Tenant, r.key.Container, r.key.Kind, hundredths(r.amount.RUs), r.amount.Requests,
			r.amount.Bytes}
	}
	return out
}

// rows returns the dearest sources, and the sum of the others.
func (q *queries) rows() ([]SourceRow, SourceRow) {
	all := make([]SourceRow, 0, len(q.sources))
	for s, x := range q.sources {
		all = append(all, SourceRow{s.Dashboard, s.Panel, s.Agent, s.Caller, s.Query, hundredths(x.rus), x.requests})
	}
	slices.SortFunc(all, bySpent)
	others := SourceRow{RUs: q.others.rus, Requests: q.others.requests}
	for _, r := range all[min(topSources, len(all)):] {
		others.RUs += r.RUs
		others.Requests += r.Requests
	}
	others.RUs = hundredths(others.RUs)
	return all[:min(topSources, len(all))], others
}

// bySpent orders the dearest first.
func bySpent(a, b SourceRow) int {
	return cmp.Or(cmp.Compare(b.RUs, a.RUs), cmp.Compare(a.Query, b.Query), cmp.Compare(a.Dashboard, b.Dashboard),
		cmp.Compare(a.Panel, b.Panel), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Caller, b.Caller))
}

// hundredths rounds RU as the service states them.
func hundredths(rus float64) float64 { return math.Round(rus*100) / 100 }

// Sum is what all processes have counted of a month.
type Sum struct {
	Rows    map[Key]Amount
	Sources map[string][]SourceRow // by tenant; one without any text is the sum of others
	Writers int                    // processes that have counted
	Through time.Time              // up to when the newest document counts
}

// NewSum returns a Sum of nothing.
func NewSum() *Sum {
	return &Sum{Rows: map[Key]Amount{}, Sources: map[string][]SourceRow{}}
}

// Add adds a stored document.
func (s *Sum) Add(doc []byte) error {
	var body struct {
		rowsBody
		Tenant  string      `json:"tenant"`
		Sources []SourceRow `json:"sources"`
		Others  SourceRow   `json:"others"`
	}
	if err := json.Unmarshal(doc, &body); err != nil {
		return fmt.Errorf("a document of charges: %w", err)
	}
	if body.Version != version {
		return fmt.Errorf("a document of charges has version %d; this binary reads %d", body.Version, version)
	}
	if at := time.UnixMilli(body.At).UTC(); at.After(s.Through) {
		s.Through = at
	}
	if body.Type == "queries" {
		s.Sources[body.Tenant] = append(s.Sources[body.Tenant], body.Sources...)
		if body.Others.Requests > 0 {
			s.Sources[body.Tenant] = append(s.Sources[body.Tenant], body.Others)
		}
		return nil
	}
	if len(body.Rows) > 0 && body.Rows[0].Tenant == "" {
		s.Writers++
	}
	for _, r := range body.Rows {
		key := Key{r.Tenant, r.Container, r.Kind}
		sum := s.Rows[key]
		sum.add(Amount{r.RUs, r.Requests, r.Bytes})
		s.Rows[key] = sum
	}
	return nil
}
