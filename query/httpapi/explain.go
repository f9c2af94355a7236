package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"binnacle/query"
)

// ExplainParameter asks for an explanation in the place of an answer: with the value true of what the request did, with
// the value plan of what it would do.
const ExplainParameter = "explain"

// Explained serves what next serves, and explanations of it. With explain=true in the URL the request is answered as
// ever, and what is sent is which keys were asked, what that was expected to cost and what it has cost. With
// explain=plan no document is read: what is sent is which keys would be asked, and the expected cost. Errors are sent
// as they are.
func Explained(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil || !values.Has(ExplainParameter) {
			next.ServeHTTP(w, r)
			return
		}
		switch wanted := values.Get(ExplainParameter); {
		case wanted != "true" && wanted != "plan" && wanted != "false" || len(values[ExplainParameter]) > 1:
			e := parameterError{ExplainParameter, "is allowed once, as true, plan or false"}
			writeProblem(w, problem{Status: http.StatusBadRequest, Detail: e.Error(), Parameter: e.name})
			return
		case wanted == "false":
			next.ServeHTTP(w, without(r, values))
			return
		}
		explain := query.WithExplanation
		if values.Get(ExplainParameter) == "plan" {
			explain = query.WithPlan
		}
		ctx, explanation := explain(r.Context())
		answer := &unsent{header: make(http.Header), status: http.StatusOK}
		LimitBodyTime(w, r) // an unsent answer is no connection
		began := time.Now()
		next.ServeHTTP(answer, without(r, values).WithContext(context.WithValue(ctx, unsentKey{}, true)))
		if answer.status >= http.StatusBadRequest {
			for name, v := range answer.header {
				w.Header()[name] = v
			}
			w.WriteHeader(answer.status)
			_, _ = w.Write(answer.body.Bytes()) // an error means that the client has gone
			return
		}
		writeExplanation(w, explanation.Reads(), time.Since(began))
	})
}

// without returns the request without its parameter explain.
func without(r *http.Request, values url.Values) *http.Request {
	values.Del(ExplainParameter)
	r = r.Clone(r.Context())
	r.URL.RawQuery = values.Encode()
	r.Header.Del("Accept-Encoding") // the answer is dropped
	return r
}

// unsentKey is the context key of a request for an explanation: its answer is an unsent.
type unsentKey struct{}

func isUnsent(ctx context.Context) bool { return ctx.Value(unsentKey{}) != nil }

// unsent is an answer that is dropped unless it is an error.
type unsent struct {
	header http.Header
	status int
	began  bool
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (u *unsent) Header() http.Header { return u.header }

// WriteHeader implements http.ResponseWriter.
func (u *unsent) WriteHeader(status int) {
	if !u.began || status >= http.StatusBadRequest { // nothing was sent: it is not too late for an error
		u.status, u.began = status, true
	}
}

// Write implements http.ResponseWriter.
func (u *unsent) Write(b []byte) (int, error) {
	u.began = true
	if u.status >= http.StatusBadRequest {
		u.body.Write(b)
	}
	return len(b), nil
}

// Explanation is the answer with explain=true.
type Explanation struct {
	Reads   []explainedRead `json:"reads"`
	Seconds float64         `json:"seconds"`
}

// explainedRead is query.Explained on the wire.
type explainedRead struct {
	Devices   []string       `json:"devices,omitempty"`
	Metrics   []string       `json:"metrics,omitempty"`
	From      string         `json:"from"`
	To        string         `json:"to"`
	How       string         `json:"how"`
	Estimated query.Estimate `json:"estimated"`
	Charged   query.Stats    `json:"charged"`
	Scans     []explainScan  `json:"scans"`
	Rollups   []explainScan  `json:"rollups,omitempty"`
	Shown     []explainDay   `json:"shown,omitempty"`
}

// explainScan is a scan of chunks, or of rollup documents.
type explainScan struct {
	Operation    string  `json:"operation"` // named as in metrics and in docs/reference/access-patterns.md
	Container    string  `json:"container"`
	TenantShard  string  `json:"tenant_shard"`
	Rollup       string  `json:"rollup,omitempty"`
	Device       string  `json:"device,omitempty"`
	Devices      int     `json:"devices,omitempty"`
	From         string  `json:"from"`
	To           string  `json:"to"`
	StoredSince  string  `json:"stored_since,omitempty"`
	Documents    int     `json:"documents"`
	RequestUnits float64 `json:"request_units"`
}

// explainDay is what rollups covered of a first-level key on a day.
type explainDay struct {
	TenantShard string `json:"tenant_shard"`
	Day         string `json:"day"`
	From        string `json:"from"`
	To          string `json:"to"`
	AsOf        string `json:"as_of"`
	Raw         int    `json:"raw"`
}

func writeExplanation(w http.ResponseWriter, reads []query.Explained, took time.Duration) {
	out := Explanation{make([]explainedRead, len(reads)), math.Round(took.Seconds()*1e4) / 1e4}
	for i := range reads {
		out.Reads[i] = explainedReadOf(&reads[i])
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(out) // an error means that the client has gone
}

func explainedReadOf(r *query.Explained) explainedRead {
	out := explainedRead{
		Devices: r.Devices, Metrics: r.Metrics, How: rollupSummary(r), Charged: rounded(r.Stats), Estimated: r.Estimate,
		Scans: make([]explainScan, len(r.Scans)),
	}
	out.Estimated.RequestUnits, out.Estimated.Documents = round(r.Estimate.RequestUnits), round(r.Estimate.Documents)
	out.From, out.To = instant(r.Range.From), instant(r.Range.To)
	for i, s := range r.Scans {
		out.Scans[i] = explainScanOf("scan", &s)
	}
	for _, s := range r.RollupScans {
		out.Rollups = append(out.Rollups, explainScanOf("rollup_scan", &s))
	}
	for _, d := range r.Covered {
		out.Shown = append(out.Shown, explainDay{d.TenantShard, d.Day.String(), instant(d.Range.From), instant(d.Range.To),
			instant(d.AsOf * 1000), d.Raw})
	}
	return out
}

func explainScanOf(operation string, s *query.ScanExplained) explainScan {
	out := explainScan{Operation: operation, Container: s.Container, TenantShard: s.TenantShard, Rollup: s.Rollup,
		Device: s.Device, Devices: s.Named, From: instant(s.Range.From), To: instant(s.Range.To), Documents: s.Documents,
		RequestUnits: round(s.RequestUnits)}
	if s.Since > 0 {
		out.StoredSince = instant(s.Since * 1000)
	}
	return out
}

func instant(ms int64) string { return string(appendTime(nil, ms)) }

// round removes the noise of sums of hundredths.
func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// rollupSummary describes how the chunks of a read were queried.
func rollupSummary(r *query.Explained) string {
	switch {
	case len(r.Covered) > 0:
		return fmt.Sprintf("rollups of %d days of keys, and %d queries for what they do not cover", len(r.Covered),
			len(r.Scans))
	case len(r.Scans) == 0 && r.Estimate.Scans > 0:
		return fmt.Sprintf("%d queries, which were not sent", r.Estimate.Scans)
	case len(r.Scans) == 0:
		return "heads alone: no container has chunks of the range"
	case r.Scans[0].Device != "" && r.Ordered:
		return "a query for each key, in the store's order"
	case r.Scans[0].Device != "":
		return "a query for each key"
	}
	return fmt.Sprintf("%d prefix queries", len(r.Scans))
}
