package charges

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
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
	// Nobody marks the rows without a tenant, the last document of a month.
	Nobody bool
	Body   []byte

	// dirty belongs to the page or queries that the document was made of.
	dirty *bool
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

// Take returns the documents that have changed since they were taken last; the rows without a tenant are in the last
// one of a month. own estimates what storing that one will cost, by the bytes of its body, in RU: this counts
// beforehand, as it is counted in this month when the process ends with it. Months that are over and stored are
// forgotten. What is counted of such a month later has documents of its own.
func (c *Counter) Take(now time.Time, own func(bytes int) float64) (out []Document, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range slices.SortedFunc(maps.Keys(c.months), Month.compare) {
		before, writer := len(out), c.writer
		if n := c.forgotten[at]; n > 0 {
			writer += fmt.Sprintf("-%d", n)
		}
		if out, err = c.months[at].take(takeArgs{writer, at, now, own}, out); err != nil {
			return nil, err
		}
		if len(out) == before && at != MonthOf(now) {
			delete(c.months, at)
			c.forgotten[at]++
		}
	}
	return out, nil
}

// takeArgs is what the documents of a month have in common.
type takeArgs struct {
	writer string
	month  Month
	now    time.Time
	own    func(bytes int) float64
}

func (m *month) take(a takeArgs, out []Document) ([]Document, error) {
	add := func(d Document, body any) (err error) {
		if d.Body, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode charges: %w", err)
		}
		*d.dirty = false
		d.ID, d.Month = a.writer+"."+d.ID, a.month
		out = append(out, d)
		return nil
	}
	from, at := a.month.Begin().UnixMilli(), min(a.now.UnixMilli(), a.month.End().UnixMilli())
	for _, tenant := range slices.Sorted(maps.Keys(m.queries)) {
		if q := m.queries[tenant]; q.dirty {
			body := queriesBody{version, "queries", from, at, a.writer, tenant, nil, SourceRow{}}
			body.Sources, body.Others = q.rows()
			if err := add(Document{ID: "queries." + tenant, Queries: true, dirty: &q.dirty}, body); err != nil {
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
			if err := body.countItself(a.own); err != nil {
				return nil, err
			}
		}
		if err := add(Document{ID: "rows." + strconv.Itoa(i), Nobody: i == 0, dirty: &p.dirty}, body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// countItself adds a row with what storing the document will cost.
func (b *rowsBody) countItself(own func(bytes int) float64) error {
	b.Rows = append(b.Rows, Row{Container: heatContainer, Kind: Control, RUs: 1, Requests: 1})
	raw, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode charges: %w", err)
	}
	b.Rows[len(b.Rows)-1].RUs = hundredths(own(len(raw)))
	return nil
}

// heatContainer is where documents are stored.
const heatContainer = "heat"

// PutBack makes Take return documents again that could not be stored.
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
	Rows map[Key]Amount
	// Sources are by tenant; a source without any text is the sum of others.
	Sources map[string][]SourceRow
	Writers int       // processes that have counted
	Through time.Time // up to when the newest document of a process that is no command counts

	commands []counted
}

// counted is the sum of a document of a command.
type counted struct {
	at  time.Time
	rus float64
}

// CommandRole is the role of processes that are commands. Such a process counts until it ends, so that its documents
// say nothing of up to when others have counted.
const CommandRole = "command"

// RUs returns the RU counted up to Through.
func (s *Sum) RUs() (sum float64) {
	for _, a := range s.Rows {
		sum += a.RUs
	}
	for _, c := range s.commands {
		if c.at.After(s.Through) {
			sum -= c.rus
		}
	}
	return sum
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
	at, command := time.UnixMilli(body.At).UTC(), strings.HasPrefix(body.Writer, CommandRole+"-")
	if !command && at.After(s.Through) {
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
	all := 0.0
	for _, r := range body.Rows {
		all += r.RUs
		key := Key{r.Tenant, r.Container, r.Kind}
		sum := s.Rows[key]
		sum.add(Amount{r.RUs, r.Requests, r.Bytes})
		s.Rows[key] = sum
	}
	if command {
		s.commands = append(s.commands, counted{at, all})
	}
	return nil
}
