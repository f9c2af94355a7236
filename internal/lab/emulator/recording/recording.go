// Package recording keeps what an emulator was asked and what that was charged, one line of JSON for each exchange,
// and compares two such files: what the same work costs before and after a change of a client. It knows neither HTTP
// nor how anything is stored. The format is documented in docs/reference/emulator.md.
package recording

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

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
