// Package recording keeps what an emulator was asked and what that was charged, one line of JSON for each exchange,
// and compares two such files: what the same work costs before and after a change of a client. It knows neither HTTP
// nor how anything is stored. The format is documented in docs/reference/emulator.md.
package recording

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Cost is what requests were charged in two recordings.
type Cost struct {
	Name   string `json:"name"` // all, a kind of operation, or a request
	Before Sum    `json:"before"`
	After  Sum    `json:"after"`
	// Change is the change of the request units: for a request, of its mean charge; else of the sum.
	Change float64 `json:"changePercent"`
}

// Sum is a number of requests and what they were charged together.
type Sum struct {
	Requests int     `json:"requests"`
	RU       float64 `json:"ru"`
}

func (s Sum) each() float64 { return s.RU / float64(max(1, s.Requests)) }

// Difference is what changed between two recordings.
type Difference struct {
	All   Cost   `json:"all"`
	Kinds []Cost `json:"kinds"`
	// Requests lists the requests with another charge or another count, and requests of one recording only.
	Requests []Cost `json:"requests"`
	// Regressions are what costs more than before by more than the tolerance: all requests together, and each request
	// that both recordings have, by its mean charge.
	Regressions []Cost `json:"regressions"`
}

// least is the smallest change of a mean charge, in RU, that is one: charges are rounded to hundredths.
const least = 0.01

// Diff compares two recordings. tolerance is in per cent.
func Diff(before, after []Exchange, tolerance float64) Difference {
	d := Difference{
		All: Cost{Name: "all"}, Kinds: []Cost{}, Requests: []Cost{}, Regressions: []Cost{},
	}
	kinds, requests := map[string]*Cost{}, map[string]*Cost{}
	for i, list := range [][]Exchange{before, after} {
		for _, e := range list {
			for _, c := range []*Cost{&d.All, named(kinds, e.Kind), named(requests, e.request())} {
				sum := &c.Before
				if i == 1 {
					sum = &c.After
				}
				sum.Requests++
				sum.RU += e.RU
			}
		}
	}
	for _, costs := range []map[string]*Cost{kinds, requests, {"": &d.All}} {
		for c := range maps.Values(costs) {
			c.Before.RU, c.After.RU = hundredths(c.Before.RU), hundredths(c.After.RU)
		}
	}
	d.All.Change = percent(d.All.Before.RU, d.All.After.RU)
	if d.All.Change > tolerance {
		d.Regressions = append(d.Regressions, d.All)
	}
	for _, c := range sorted(kinds) {
		c.Change = percent(c.Before.RU, c.After.RU)
		d.Kinds = append(d.Kinds, c)
	}
	for _, c := range sorted(requests) {
		c.Change = percent(c.Before.each(), c.After.each())
		more := c.After.each() - c.Before.each()
		both := c.Before.Requests > 0 && c.After.Requests > 0
		if both && more >= least && c.Change > tolerance {
			d.Regressions = append(d.Regressions, c)
		}
		if c.Before.Requests != c.After.Requests || more >= least || more <= -least {
			d.Requests = append(d.Requests, c)
		}
	}
	return d
}

func named(costs map[string]*Cost, name string) *Cost {
	if costs[name] == nil {
		costs[name] = &Cost{Name: name}
	}
	return costs[name]
}

// sorted returns costs, what has grown most first.
func sorted(costs map[string]*Cost) []Cost {
	var out []Cost
	for _, c := range costs {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Cost) int {
		return cmp.Or(cmp.Compare(b.After.RU-b.Before.RU, a.After.RU-a.Before.RU), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// percent returns how much more b is than a; 100 for something instead of nothing.
func percent(a, b float64) float64 {
	switch {
	case a == b:
		return 0
	case a == 0:
		return 100
	}
	return hundredths((b - a) / a * 100)
}

func hundredths(f float64) float64 { return math.Round(f*100) / 100 }

// Exchange is one request and its answer. What differs between two runs of the same program is left out or made alike:
// ids of items, and numbers and hexadecimal digits in names.
type Exchange struct {
	Kind      string  `json:"kind"` // create, query, metadata, ...
	Method    string  `json:"method"`
	Path      string  `json:"path"`
	Query     string  `json:"query,omitempty"` // text of a query
	Status    int     `json:"status"`
	Substatus int     `json:"substatus,omitempty"`
	RU        float64 `json:"ru"` // modelled; 0 for what has no charge
}

// request returns what two exchanges of the same request have in common.
func (e Exchange) request() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %d %s", e.Kind, e.Method, e.Path, e.Status, e.Query))
}

// varying are the parts of names and texts that differ from run to run: hexadecimal digits that are many, and numbers.
var varying = regexp.MustCompile(`[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4,12})*|[0-9]+`)

// Alike returns a name with # in place of what differs from run to run.
func Alike(name string) string { return varying.ReplaceAllString(name, "#") }

// AlikeText returns the text of a query with one blank in place of white space, and # in place of what differs from run
// to run.
func AlikeText(text string) string { return Alike(strings.Join(strings.Fields(text), " ")) }

// Writer writes exchanges. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	to  *json.Encoder
	err error
}

// NewWriter returns a Writer of lines to w.
func NewWriter(w io.Writer) *Writer {
	to := json.NewEncoder(w)
	to.SetEscapeHTML(false)
	return &Writer{to: to}
}

// Add writes one exchange.
func (w *Writer) Add(e Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.to.Encode(e)
	}
}

// Err returns the first error of writing. Nothing is written after it.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// maxLine is the longest line of a recording in bytes: a query may have 512 KB.
const maxLine = 4 << 20

// Read reads a recording. An error names the line.
func Read(from io.Reader) ([]Exchange, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	var out []Exchange
	for n := 1; lines.Scan(); n++ {
		var e Exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d is not an exchange: %w", n, err)
		}
		if e.Kind == "" || e.Status == 0 {
			return nil, fmt.Errorf("line %d is not an exchange: it has no kind or no status", n)
		}
		out = append(out, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read a recording: %w", err)
	}
	return out, nil
}
