package emulator

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"

	"github.com/valyala/fastjson"
)

// sentQuery is a query as it was sent.
type sentQuery struct {
	sent  []byte // its text, with parameters
	bound *sql.Bound
}

// parseQuery reads the body of a query. A container with computed properties has a separate cache.
func (x *exchange) parseQuery(co *engine.Container) (sentQuery, error) {
	body, err := x.readBody(nil)
	if err != nil {
		return sentQuery{}, err
	}
	var in struct {
		Query      string `json:"query"`
		Parameters []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"parameters"`
	}
	if strings.HasPrefix(x.request.Header.Get("Content-Type"), "application/sql") {
		in.Query = string(body)
	} else if err := json.Unmarshal(body, &in); err != nil {
		return sentQuery{}, refusal.BadRequest("the body is not a query: %v", err)
	}
	params := make(map[string]sql.Value, len(in.Parameters))
	for _, p := range in.Parameters {
		_, twice := params[p.Name]
		switch {
		case !parameterName.MatchString(p.Name):
			return sentQuery{}, refusal.BadRequest("the name %q of a parameter is not an @ and an identifier", p.Name)
		case twice:
			return sentQuery{}, refusal.BadRequest("two parameters are named %s", p.Name)
		case len(p.Value) == 0: // undefined
			params[p.Name] = sql.Value{}
			continue
		}
		v, err := fastjson.ParseBytes(p.Value)
		if err != nil {
			return sentQuery{}, refusal.BadRequest("the parameter %s is not JSON", p.Name)
		}
		params[p.Name] = sql.JSONValue(v)
	}
	cache := &x.queries
	if co != nil && co.Queries() != nil {
		cache = co.Queries()
	}
	q, err := cache.Parse(in.Query)
	if err != nil {
		return sentQuery{}, err
	}
	b, err := q.Bind(params)
	return sentQuery{body, b}, err
}

// plan returns the plan of a query, for what the client says that it can merge.
func (x *exchange) plan(q sentQuery) []byte {
	features := x.request.Header.Get("X-Ms-Cosmos-Supported-Query-Features")
	return q.bound.Plan(strings.Contains(features, "MultipleAggregates")).Text()
}

// parameterName is what parameters of queries may be called.
var parameterName = regexp.MustCompile(`^@[A-Za-z_][A-Za-z0-9_]*$`)

// isPlan reports whether the client asks for the plan of a query, not for its answer.
func isPlan(h http.Header) bool { return isTrue(h.Get("X-Ms-Cosmos-Is-Query-Plan-Request")) }

// hIndexUse carries which indexes a query has used, and which it could: base64 of JSON, SDKs decode both.
const hIndexUse = "X-Ms-Cosmos-Index-Utilization"

// hIndexUseV2 asks for it in the other form, JSON escaped as in a URL.
const hIndexUseV2 = "X-Ms-Cosmos-Populateindexmetrics-V2"

func (x *exchange) queryItems(co *engine.Container) (reply, error) {
	sent, err := x.parseQuery(co)
	if err != nil {
		return reply{}, err
	}
	if isPlan(x.request.Header) { // the gateway makes it
		return reply{status: http.StatusOK, body: x.plan(sent), items: -1, gateway: true}, nil
	}
	return x.pageOf(co, sent)
}

// readItems serves one page of all items, without a query: what some SDKs offer as reading all items.
func (x *exchange) readItems(co *engine.Container) (reply, error) {
	const all = "SELECT * FROM c"
	q, err := x.queries.Parse(all)
	if err != nil {
		return reply{}, err
	}
	b, err := q.Bind(nil)
	if err != nil {
		return reply{}, err
	}
	return x.pageOf(co, sentQuery{[]byte(all), b})
}

func (x *exchange) pageOf(co *engine.Container, sent sentQuery) (reply, error) {
	h := x.request.Header
	limit, err := x.pageRows()
	if err != nil {
		return reply{}, err
	}
	q := engine.Query{
		Bound: sent.bound, Limit: limit, Plan: func() []byte { return x.plan(sent) }, Sent: sent.sent, Scope: x.scope(),
		Continuation: h.Get(hContinuation),
		Cross:        x.request.Method != http.MethodPost || isTrue(h.Get("X-Ms-Documentdb-Query-Enablecrosspartition")),
		IndexUse:     isTrue(h.Get("X-Ms-Cosmos-Populateindexmetrics")) || isTrue(h.Get(hIndexUseV2)),
	}
	page, err := co.Query(x.request.Context(), x.call(), q)
	if err != nil {
		return reply{}, err
	}
	rep := x.pageReply(co, page)
	rep.header = http.Header{"X-Ms-Documentdb-Query-Metrics": {
		fmt.Sprintf("retrievedDocumentCount=%d;retrievedDocumentSize=%d;outputDocumentCount=%d;outputDocumentSize=%d;"+
			"indexUtilizationRatio=%.2f", page.Loaded, page.LoadedBytes, page.Count, len(page.Rows), usefulness(page)),
	}}
	if q.IndexUse {
		text := base64.StdEncoding.EncodeToString(page.IndexUse)
		if isTrue(h.Get(hIndexUseV2)) {
			text = url.PathEscape(string(page.IndexUse))
		}
		rep.header[hIndexUse] = []string{text}
	}
	return rep, nil
}

// usefulness returns how many of the items that a query has loaded it has given, as a part of 1.
func usefulness(p engine.Page) float64 {
	if p.Loaded == 0 {
		return 1
	}
	return min(1, float64(p.Count)/float64(p.Loaded))
}

// scope reads which part of a container the request is about.
func (x *exchange) scope() engine.Scope {
	h := x.request.Header
	return engine.Scope{
		Key: h.Get(hKey), Range: h.Get(hRange), Min: h.Get("X-Ms-Start-Epk"), Max: h.Get("X-Ms-End-Epk"),
	}
}

// pageReply returns the answer with a page of items, or of rows.
func (x *exchange) pageReply(co *engine.Container, p engine.Page) reply {
	return reply{
		status: http.StatusOK, body: list{co.RID(), "Documents", p.Rows, p.Count}.body(), charge: p.Charge, etag: p.ETag,
		rid: co.RID(), path: x.route.containerPath(), rangeID: p.Range, lsn: p.LSN,
		continuation: p.Continuation, items: p.Count,
	}
}

// list is several resources of one parent: JSON, separated by commas.
type list struct {
	rid, name string
	rows      []byte
	count     int
}

func (l list) body() []byte {
	body := append(make([]byte, 0, len(l.rows)+64), `{"_rid":"`...)
	body = append(append(body, l.rid...), `","`...)
	body = append(append(body, l.name...), `":[`...)
	body = append(append(body, l.rows...), `],"_count":`...)
	return append(strconv.AppendInt(body, int64(l.count), 10), '}')
}

// Page sizes in rows: for clients that name none, and for clients that leave the size to the server (-1).
const (
	defaultPageRows = 1000
	dynamicPageRows = math.MaxInt32 // no bound but the page's bytes
)

// pageRows returns how many rows the client wants in an answer.
func (x *exchange) pageRows() (int, error) {
	text := x.request.Header.Get("X-Ms-Max-Item-Count")
	if text == "" {
		return defaultPageRows, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < -1:
		return 0, refusal.Invalid("x-ms-max-item-count %q is neither -1 nor a positive number", text)
	case n == -1:
		return dynamicPageRows, nil
	case n == 0:
		return defaultPageRows, nil
	}
	return n, nil
}

// readChanges serves a page of the change feed in latest version mode.
func (x *exchange) readChanges(co *engine.Container) (reply, error) {
	h := x.request.Header
	if mode := h.Get("A-Im"); !strings.EqualFold(mode, "Incremental Feed") {
		return reply{}, refusal.Unsupported("the change feed mode %q", mode)
	}
	limit, err := x.pageRows()
	if err != nil {
		return reply{}, err
	}
	f := engine.Feed{Scope: x.scope(), Limit: limit}
	if err := since(h, &f); err != nil {
		return reply{}, err
	}
	page, err := co.Changes(x.request.Context(), x.call(), f)
	if err != nil {
		return reply{}, err
	}
	rep := x.pageReply(co, page)
	if page.Count == 0 {
		rep.status, rep.body = http.StatusNotModified, nil
	}
	return rep, nil
}

// since reads where the client wants to go on in the change feed.
func since(h http.Header, f *engine.Feed) (err error) {
	switch etag := h.Get("If-None-Match"); etag {
	case "":
		if text := h.Get("If-Modified-Since"); text != "" {
			f.Since, err = parseSince(text)
		}
	case "*":
		f.FromNow = true
	default:
		f.Above, err = strconv.ParseUint(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), 10, 64)
		if err != nil {
			return refusal.BadRequest("If-None-Match %s is not an ETag of a change feed", etag)
		}
	}
	return err
}

// parseSince reads If-Modified-Since. The Go SDK writes the zone as UTC.
func parseSince(text string) (int64, error) {
	t, err := http.ParseTime(strings.Replace(text, " UTC", " GMT", 1))
	if err != nil {
		return 0, refusal.BadRequest("If-Modified-Since %q is not a time", text)
	}
	return t.Unix(), nil
}
