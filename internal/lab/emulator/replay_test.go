package emulator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// replayer sends requests as they were recorded, and keeps what later ones refer to.
type replayer struct {
	t            *testing.T
	server       *emulator.Server
	etags        map[string]string // by path
	continuation string
}

// answered is the answer to a recorded request.
type answered struct {
	status int
	header http.Header
	body   string
}

func (r *replayer) do(c call) answered {
	r.t.Helper()
	req, err := http.NewRequest(c.Method, strings.TrimSuffix(r.server.Endpoint(), "/")+c.Path,
		strings.NewReader(bodyOf(c)))
	require.NoError(r.t, err)
	for k, v := range c.Headers {
		switch v {
		case "<its etag>":
			v = r.etags[c.Path]
		case "<of the page before>":
			v = r.continuation
		}
		req.Header.Set(k, v)
	}
	kind, link := signed(c.Path)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("Authorization", sign(c.Method, kind, link))
	resp, err := r.server.Transport().Do(req)
	require.NoError(r.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	if r.etags == nil {
		r.etags = map[string]string{}
	}
	if etag := resp.Header.Get("etag"); etag != "" {
		r.etags[c.Path] = etag
	}
	if resp.StatusCode == http.StatusOK {
		r.continuation = resp.Header.Get("x-ms-continuation")
	}
	return answered{resp.StatusCode, resp.Header, string(body)}
}

// signed returns the resource type and the link that a request is signed with.
func signed(path string) (kind, link string) {
	path, _ = url.PathUnescape(strings.Trim(path, "/"))
	parts := strings.Split(path, "/")
	if path == "" {
		return "", ""
	}
	n := len(parts)
	return parts[(n-1)/2*2], strings.Join(parts[:n/2*2], "/")
}

// bodyOf returns the body of a request, whose restated form may say how to make it.
func bodyOf(c call) string {
	var literal struct {
		Literal  *string
		Generate json.RawMessage
	}
	if json.Unmarshal(c.Body, &literal) != nil {
		return string(c.Body)
	}
	switch {
	case literal.Literal != nil:
		return *literal.Literal
	case len(literal.Generate) > 0 && literal.Generate[0] == '"':
		return `{"id":"big","pk":"m","x":"` + strings.Repeat("x", 3<<20) + `"}`
	case len(literal.Generate) > 0:
		return generated(literal.Generate)
	case string(c.Body) == "null":
		return ""
	}
	return string(c.Body)
}

func generated(how json.RawMessage) string {
	var g struct {
		Count, First int
		Operation    json.RawMessage
	}
	if err := json.Unmarshal(how, &g); err != nil {
		panic(err)
	}
	var out []string
	for i := g.First; i < g.First+g.Count; i++ {
		out = append(out, strings.NewReplacer(`"<i as number>"`, strconv.Itoa(i), `"<i mod 7 as number>"`,
			strconv.Itoa(i%7), "<i>", strconv.Itoa(i)).Replace(string(g.Operation)))
	}
	return "[" + strings.Join(out, ",") + "]"
}

var (
	etagForm  = regexp.MustCompile(`^"[0-9a-f]{8}-0000-0100-0000-[0-9a-f]{8}0000"$`)
	tokenForm = regexp.MustCompile(`~[A-Za-z0-9+/=_-]+#`)
	codes     = regexp.MustCompile(`code ([A-Z]\w+)`)
	sqlError  = regexp.MustCompile(`errors\[0\]:.*?(\d+)\.\.(\d+)`)
	sqlCode   = regexp.MustCompile(`SC\d{4}`)
	isWrite   = regexp.MustCompile(`create|upsert|replace|patch|delete|batch|body|number too|NaN|surrogate|burst`)
)

// note scores all that is known of a recorded answer.
func (s *score) note(rec record, a answered) {
	want, h := rec.Response, a.header
	s.aspect(rec, "status", a.status == want.Status, a.status, want.Status)
	substatus := ""
	if want.Substatus != nil {
		substatus = strconv.Itoa(*want.Substatus)
	}
	s.aspect(rec, "substatus", h.Get("x-ms-substatus") == substatus, h.Get("x-ms-substatus"), substatus)
	s.charge(rec, a)
	if want.LSN != nil {
		lsn := strconv.FormatUint(*want.LSN, 10)
		s.aspect(rec, "LSN", h.Get("lsn") == lsn, h.Get("lsn"), lsn)
		token := "0:-1#" + h.Get("lsn")
		s.aspect(rec, "session", h.Get("x-ms-session-token") == token, h.Get("x-ms-session-token"), token)
	}
	if want.By == "gateway" {
		bare := h.Get("x-ms-session-token")+h.Get("lsn")+h.Get("x-ms-serviceversion") == ""
		s.aspect(rec, "gateway", bare, h, "no session token, LSN, service version")
	}
	if want.Items != nil {
		n := count(a.body)
		s.aspect(rec, "items", n == *want.Items, n, *want.Items)
	}
	for name, v := range want.Headers {
		s.aspect(rec, "headers", h.Get(name) == v, h.Get(name), v)
	}
	s.etag(rec, a)
	if want.Continuation != "" {
		form := tokenForm.ReplaceAllString(h.Get("x-ms-continuation"), "~<rid>#")
		s.aspect(rec, "continuation", form == want.Continuation, form, want.Continuation)
	}
	if want.RetryAfter != nil {
		ms, _ := strconv.Atoi(h.Get("x-ms-retry-after-ms"))
		s.aspect(rec, "retry-after", ms >= 286 && ms <= 500, ms, want.RetryAfter)
	}
	s.body(rec, a)
}

// charge scores the charge: of writes to the hundredth, of reads within 5 %.
func (s *score) charge(rec record, a answered) {
	want, text := rec.Response, a.header.Get("x-ms-request-charge")
	if want.Charge == nil {
		if want.By == "gateway" {
			s.aspect(rec, "charge", text == "", text, "no header")
		}
		return
	}
	kind, within := "read charge", 0.05**want.Charge
	if isWrite.MatchString(rec.What) && rec.Request.Method != "GET" {
		kind, within = "write charge", 0.0051
	}
	rus, err := strconv.ParseFloat(text, 64)
	s.aspect(rec, kind, err == nil && math.Abs(rus-*want.Charge) <= within+1e-9, text, *want.Charge)
}

func (s *score) etag(rec record, a answered) {
	switch want := rec.Response.ETag.(type) {
	case string:
		s.aspect(rec, "etag", a.header.Get("etag") == want, a.header.Get("etag"), want)
	case bool:
		var doc struct {
			ETag string `json:"_etag"`
			TS   int64  `json:"_ts"`
		}
		_ = json.Unmarshal([]byte(a.body), &doc) // an answer 304 has no body
		ok := etagForm.MatchString(a.header.Get("etag")) && (a.body == "" || doc.ETag == a.header.Get("etag") &&
			strings.Contains(doc.ETag, fmt.Sprintf("%08x0000", doc.TS)))
		s.aspect(rec, "etag", ok, a.header.Get("etag"), `"xxxxxxxx-0000-0100-0000-<_ts>0000"`)
	}
}

// body scores what is known of the body: error codes and places, plans, rows, numbers, the operations of a batch.
func (s *score) body(rec record, a answered) {
	want := rec.Response
	var fault struct{ Code, Message, AdditionalErrorInfo string }
	if m := codes.FindStringSubmatch(want.Summary); m != nil {
		_ = json.Unmarshal([]byte(a.body), &fault)
		s.aspect(rec, "code", fault.Code == m[1], fault.Code, m[1])
	}
	if m := sqlError.FindStringSubmatch(want.Summary); m != nil {
		text, _, _ := strings.Cut(strings.TrimPrefix(fault.Message, "Message: "), "\r\n")
		var e struct {
			Errors []struct {
				Code     string
				Location struct{ Start, End int }
			}
		}
		_ = json.Unmarshal([]byte(text), &e)
		got := fmt.Sprint(e.Errors)
		where := fmt.Sprintf("[{%s {%s %s}}]", sqlCode.FindString(want.Summary), m[1], m[2])
		s.aspect(rec, "SQL-error", got == where, got, where)
	}
	if want.Plan != nil {
		text := a.body
		if want.Status != 200 {
			text = fault.AdditionalErrorInfo
		}
		got := planOf(text)
		s.aspect(rec, "plan", reflect.DeepEqual(got, want.Plan), got, want.Plan)
	}
	s.rows(rec, a)
	if want.Charges != nil {
		var ops []struct {
			StatusCode    int
			RequestCharge float64
		}
		_ = json.Unmarshal([]byte(a.body), &ops)
		for i := range want.Charges {
			if i < len(ops) {
				ok := math.Abs(ops[i].RequestCharge-want.Charges[i]) < 1e-9 && ops[i].StatusCode == want.Statuses[i]
				s.aspect(rec, "operation", ok, ops[i], want.Charges[i])
			} else {
				s.aspect(rec, "operation", false, "none", want.Charges[i])
			}
		}
	}
	if want.Numbers != nil {
		for name, text := range want.Numbers {
			ok := strings.Contains(a.body, `"`+name+`":`+text+",")
			s.aspect(rec, "number", ok, name, text)
		}
	}
}

// planOf returns a plan in the form that the recordings are restated in.
func planOf(text string) map[string]any {
	var in map[string]any
	if json.Unmarshal([]byte(text), &in) != nil {
		return nil
	}
	out := map[string]any{"version": in["partitionedQueryExecutionInfoVersion"]}
	info, _ := in["queryInfo"].(map[string]any)
	for k, v := range info {
		out[k] = v
	}
	ranges := []any{}
	list, _ := in["queryRanges"].([]any)
	for _, r := range list {
		m, _ := r.(map[string]any)
		ranges = append(ranges, []any{m["min"], m["max"], m["isMinInclusive"], m["isMaxInclusive"]})
	}
	out["queryRanges"], out["hybridSearchQueryInfo"] = ranges, in["hybridSearchQueryInfo"]
	return out
}

// rows scores the rows of an answer where they are known word for word.
func (s *score) rows(rec record, a answered) {
	sum := rec.Response.Summary
	var list struct{ Documents json.RawMessage }
	_ = json.Unmarshal([]byte(a.body), &list)
	if strings.HasPrefix(sum, "[") && json.Valid([]byte(sum)) {
		s.aspect(rec, "rows", string(list.Documents) == sum, string(list.Documents), sum)
		return
	}
	for about, rows := range map[string]func(i int) string{
		"items in the order made": func(i int) string { return fmt.Sprintf(`"id":"it%d-%d"`, i/500, i%500) },
		"items 1000..1999":        func(i int) string { i += 1000; return fmt.Sprintf(`"id":"it%d-%d"`, i/500, i%500) },
		"items 2000..2499":        func(i int) string { i += 2000; return fmt.Sprintf(`"id":"it%d-%d"`, i/500, i%500) },
	} {
		if !strings.HasPrefix(sum, about) {
			continue
		}
		var docs []json.RawMessage
		_ = json.Unmarshal(list.Documents, &docs)
		ok := len(docs) > 0
		for i, d := range docs {
			ok = ok && strings.Contains(string(d), rows(i))
		}
		s.aspect(rec, "order", ok, "another", sum)
	}
	for about, inOrder := range map[string][]string{
		"item with _rid _self": {`"u":`, `"_rid":`, `"_self":`, `"_etag":`, `"_attachments":`, `"_ts":`},
		"k 10, new":            {`"k":10`, `"_rid":`, `"_attachments":`, `"new":"v"`, `"_ts":`},
		"same order of":        {`"k":10`, `"_rid":`, `"_attachments":`, `"new":"v"`, `"_ts":`},
		"Documents: the item":  {`"_ts":`, `"_lsn":42`},
		"order kept":           {`"id":`, `"west":`, `"north":`, `"mdl":`, `"e":`, `"southy":`, `"no":`, `"box":`},
		"9 items in the order": {`"id":"k1"`, `"id":"mix"`, `"id":"seq1"`, `"id":"figs"`, `"id":"z2"`, `"id":"z5"`, `"id":"g1"`},
		"k1, seq1 in the":      {`"id":"k1"`, `"id":"seq1"`},
		"stored and returned":  {"a\uFFFDb"}, "NUL as": {`a\u0000b`},
		"_rid of the container, Documents": {`{"_rid":"`, `"Documents":[{"id":"k1","pk":"m","k":1,"u":"x1"`, `"_count":1`},
	} {
		if !strings.HasPrefix(sum, about) {
			continue
		}
		at, ok := 0, true
		for _, part := range inOrder {
			i := strings.Index(a.body[at:], part)
			if ok = ok && i >= 0; ok {
				at += i
			}
		}
		s.aspect(rec, "order", ok, a.body, sum)
	}
}

// count returns the number of resources, or of operations, in an answer.
func count(body string) int {
	var ops []json.RawMessage
	if json.Unmarshal([]byte(body), &ops) == nil {
		return len(ops)
	}
	var list struct {
		Count *int `json:"_count"`
	}
	if json.Unmarshal([]byte(body), &list) != nil || list.Count == nil {
		return -1
	}
	return *list.Count
}
