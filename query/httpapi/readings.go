package httpapi

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant/access"
	"binnacle/query"
)

// Limits and defaults of a query for readings.
const (
	defaultJSONLimit = 10_000 // rows
	defaultRange     = time.Hour
	maxTimeout       = 5 * time.Minute
)

var readingsParameters = []string{"device", "metric", "from", "to", "order", "limit", "format", "layout", "strict",
	"timeout", "as_of", "cursor"}

// readingsQuery is a parsed request for readings.
type readingsQuery struct {
	query.Request
	format, layout string
	columns        []string        // metrics in the order of the request, each once; nil for all
	whole          telemetry.Range // range of all pages
}

func (a *api) readings(w *response, r *http.Request, tenant string) error {
	q, err := a.readingsQuery(r, tenant)
	if err != nil {
		return err
	}
	if q.format != "json" && !r.ProtoAtLeast(1, 1) {
		return errOldProtocol
	}
	var f rowWriter
	switch {
	case q.format == "json":
		rows := newJSONRows(w)
		rows.next = func(last query.Row) string { return cursorAfter(q, last) }
		f = rows
	case q.format == "ndjson":
		f = newNDJSONRows(w, q)
	case q.format == parquetFormat:
		free, err := a.reserveFor(q.format)
		if err != nil {
			return err
		}
		defer free()
		f = parquetRows{&records{w: w, format: q.format, fields: valueFields}}
	case q.layout == "long":
		f = &longRows{w: w}
	default:
		held := a.cfg.Querier.Memory(a.cfg.SpoolBytes)
		defer held.Close()
		f = &wideRows{w: w, metrics: q.columns, spool: newRowBuffer(a.packer, a.cfg.SpoolBytes, held)}
	}
	f.begin()
	if r.Method == http.MethodHead {
		return nil
	}
	result, err := a.cfg.Querier.Readings(r.Context(), q.Request, f.row)
	if err != nil {
		return err
	}
	if rows, ok := f.(*jsonRows); ok && rows.rows == 0 && !rows.lines {
		if result.Hints, err = a.cfg.Querier.Hints(r.Context(), q.Request); err != nil {
			return err
		}
	}
	return f.end(result)
}

// rowWriter writes an answer in one format.
type rowWriter interface {
	begin()
	row(query.Row) error
	end(query.Result) error
}

func (a *api) readingsQuery(r *http.Request, tenant string) (readingsQuery, error) {
	p := parse(r, readingsParameters, "device", "metric")
	q := readingsQuery{Request: a.request(p, tenant)}
	q.columns = inOrder(q.Metrics)
	q.format, q.Limit = p.format(parquetFormat)
	q.layout = p.word("layout", "wide", "long", "message")
	q.Descending = p.word("order", "asc", "desc") == "desc"
	if needs := map[string]string{"wide": "csv", "long": "csv", "message": "ndjson"}[q.layout]; p.err == nil &&
		p.values.Has("layout") && q.format != needs {
		p.fail("layout", "%s is allowed only with format=%s", q.layout, needs)
	}
	if p.values.Has("cursor") && q.format != "json" {
		p.fail("cursor", "is allowed only with format=json: the other formats have no pages")
	}
	q.whole = q.Range
	p.resumeAt(&q)
	return q, p.err
}

// request returns what the requests for readings, aggregates and latest values have in common.
func (a *api) request(p *params, tenant string) query.Request {
	now := a.cfg.Now()
	q := query.Request{Tenant: tenant, Devices: p.names("device"), Metrics: p.names("metric")}
	q.Range.To = p.instant("to", now, clamp(now))
	// Without from the range is the hour before its end.
	q.Range.From = p.instant("from", now, max(0, min(q.Range.To, clamp(now))-defaultRange.Milliseconds()))
	q.Strict = p.word("strict", "false", "true") == "true"
	q.AsOf = p.optionalInstant("as_of", now, 0)
	if q.AsOf > 0 && (q.Strict || p.after) {
		p.fail("as_of", "may not be combined with strict=true or %s, which are about now", AfterHeader)
	}
	p.checkOrder(q.Range.From, q.Range.To)
	return q
}

// format returns the format of an answer, and the most elements that it may have, 0 for no bound.
func (p *params) format(more ...string) (format string, limit int) {
	format = p.word("format", append([]string{"json", "ndjson", "csv"}, more...)...)
	if format == "json" {
		limit = defaultJSONLimit
	}
	return format, p.count("limit", limit)
}

// inOrder returns the names, each where it comes first.
func inOrder(names []string) (out []string) {
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// formatTime returns an instant in RFC 3339, and the parameter that it was given by.
func formatTime(p *params, name string, ms int64) string {
	t := string(appendTime(nil, ms))
	if given := p.values.Get(name); given != "" && given != t {
		return fmt.Sprintf("%s (%.60s)", t, given)
	}
	return t
}

// appendTime appends an instant as RFC 3339 UTC with milliseconds.
func appendTime(b []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// rounded returns what an answer has cost without the noise of sums of hundredths.
func rounded(s query.Stats) query.Stats {
	s.RequestUnits = round(s.RequestUnits)
	return s
}

// StatsHeader has the stats of an answer that has no room for them in its body.
const StatsHeader = "Binnacle-Stats"

// StatsJSON returns the cost of an answer as JSON.
func StatsJSON(s query.Stats) ([]byte, error) { return json.Marshal(rounded(s)) }

// The trailers of formats that have no room for them in the body.
const (
	statsTrailer     = StatsHeader
	truncatedTrailer = "Binnacle-Truncated"
	completeTrailer  = "Binnacle-Complete"
)

var trailers = []string{statsTrailer, query.SourceHeader, truncatedTrailer, completeTrailer}

// endWithTrailers writes the trailers that describe the answer.
func endWithTrailers(w *response, r query.Result) error {
	s, err := StatsJSON(r.Stats)
	if err != nil {
		return fmt.Errorf("encode stats: %w", err)
	}
	w.trailer(statsTrailer, string(s))
	w.trailer(query.SourceHeader, query.Source(r.Stats))
	w.trailer(truncatedTrailer, strconv.FormatBool(r.Truncated))
	w.trailer(completeTrailer, strconv.FormatBool(r.Complete))
	return nil
}

// cursor is where the next page of readings begins, and of what they are pages: times that were given as before now
// would otherwise move on from page to page.
type cursor struct {
	From   int64             `json:"f"`
	To     int64             `json:"t"`
	Desc   bool              `json:"o,omitempty"`
	Time   int64             `json:"r"`
	Device string            `json:"d"`
	Labels map[string]string `json:"l,omitempty"`
	AsOf   int64             `json:"a,omitempty"`
}

// cursorAfter returns the cursor behind the last row of a page.
func cursorAfter(q readingsQuery, last query.Row) string {
	c := cursor{q.whole.From, q.whole.To, q.Descending, last.Time, last.Device, last.Labels.Map(), q.AsOf}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // integers and strings
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// resumeAt makes a request begin where its cursor says.
func (p *params) resumeAt(q *readingsQuery) {
	if !p.values.Has("cursor") {
		return
	}
	for _, name := range []string{"from", "to", "order", "as_of"} {
		if p.values.Has(name) {
			p.fail(name, "may not stand beside cursor, which has it")
		}
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(p.values.Get("cursor"))
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.From > c.To || c.Time < c.From || c.Time >= c.To || c.AsOf < 0 {
		p.fail("cursor", "is not one that an answer has returned")
		return
	}
	if c.AsOf > 0 && (q.Strict || p.after) {
		p.fail("cursor", "is of what was stored by an earlier time (as_of): it may not be combined with strict=true or %s, "+
			"which are about now", AfterHeader)
		return
	}
	labels := make([]telemetry.Label, 0, len(c.Labels))
	for name, value := range c.Labels {
		labels = append(labels, telemetry.Label{Name: name, Value: value})
	}
	q.whole = telemetry.Range{From: c.From, To: c.To}
	q.Range, q.Descending, q.AsOf = q.whole, c.Desc, c.AsOf
	q.After = &query.Row{Device: c.Device, Time: c.Time, Labels: telemetry.NewLabels(labels)}
	// What lies before the row's instant has been answered.
	if c.Desc {
		q.Range.To = c.Time + 1
	} else {
		q.Range.From = c.Time
	}
}

// holdBack is how much of an answer waits before it is sent, so that an error up to then is still a clear one.
const holdBack = 64 << 10

// response is an answer that is being written. Nothing is sent before the first holdBack bytes, or finish.
type response struct {
	client  http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	buf     *bufio.Writer // over sender
	spent   *store.Meter  // counts the cost of the answer; nil: it costs nothing
	sent    bool
	unsent  bool  // only an error of it is sent, for which it is never too late
	broken  error // why the client can't be written to
}

func newResponse(w http.ResponseWriter, timeout time.Duration) *response {
	r := &response{client: w, control: http.NewResponseController(w), timeout: timeout}
	r.buf = buffers.Get().(*bufio.Writer)
	r.buf.Reset(sender{r})
	r.allow()
	return r
}

// buffers are buffers of responses that have ended, for later ones.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, holdBack) }}

func (w *response) release() {
	w.buf.Reset(nil)
	buffers.Put(w.buf)
}

// allow gives the client time to take what is written next. A client that takes nothing would keep its query, with its
// turn and its memory, for ever.
func (w *response) allow() {
	// What can't have a deadline is no connection.
	_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
}

// sender notes that something was sent.
type sender struct{ *response }

func (s sender) Write(b []byte) (int, error) {
	s.sent = !s.unsent
	s.allow()
	n, err := s.client.Write(b)
	if err != nil {
		s.broken = err
	}
	return n, err
}

// Write buffers b.
func (w *response) Write(b []byte) (int, error) { return w.buf.Write(b) }

// begin sets the type of the answer, and the names of the trailers that will follow it.
func (w *response) begin(contentType string, trailers ...string) {
	h := w.client.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	for _, t := range trailers {
		h.Add("Trailer", t)
	}
}

// beginJSON begins an answer in JSON. It is done where a parameter is wrong, and where only the header is asked for.
func (w *response) beginJSON(p *params) (done bool, err error) {
	if p.err != nil {
		return true, p.err
	}
	w.begin("application/json")
	return p.request.Method == http.MethodHead, nil
}

// trailer sets the value of a trailer. It goes out behind the body, whether the body was sent already or not.
func (w *response) trailer(name, value string) { w.client.Header().Set(http.TrailerPrefix+name, value) }

// finish sends the rest of the answer with its cost, in a header or, once the body has begun, in a trailer.
func (w *response) finish() error {
	if w.sent {
		w.trailer(query.SpentHeader, query.Spent(w.spent))
	}
	w.showSpent()
	w.allow() // also for what net/http still holds, and the trailers
	return w.buf.Flush()
}

// showSpent sets the header with the cost of the answer so far, unless it is too late for headers.
func (w *response) showSpent() {
	if w.spent != nil && !w.sent {
		w.client.Header().Set(query.SpentHeader, query.Spent(w.spent))
	}
}

// fail answers with a problem. If a part of the answer is out already it breaks the connection off instead, so that
// the client sees a transfer that failed and does not take the part for the whole.
func (w *response) fail(p problem) {
	if w.sent {
		panic(http.ErrAbortHandler)
	}
	w.client.Header().Del("Trailer")
	w.showSpent()
	w.allow()
	writeProblem(w.client, p)
}

// Charged returns the context of a request with what it is charged as: a query of a tenant, with what the caller says
// of where it comes from. Grafana sends the uid of a dashboard and the id of a panel. text is what is asked for.
func Charged(r *http.Request, caller access.Caller, text string) context.Context {
	query := r.URL.Path
	if text != "" {
		query += " " + text
	}
	return purpose.With(r.Context(), &purpose.Purpose{Tenant: caller.Tenant, Kind: charges.Queries,
		Source: &charges.Source{
			Dashboard: r.Header.Get("X-Dashboard-Uid"), Panel: r.Header.Get("X-Panel-Id"), Agent: r.UserAgent(),
			Caller: caller.Name, Query: query,
		}})
}
