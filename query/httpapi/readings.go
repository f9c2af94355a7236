package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"binnacle/query"
)

// Limits and defaults of a query for readings.
const (
	defaultJSONLimit = 10_000 // rows
	defaultRange     = time.Hour
	maxTimeout       = 5 * time.Minute
)

var readingsParameters = []string{"device", "metric", "from", "to", "order", "limit", "format", "layout", "strict",
	"timeout"}

// question is a parsed request for readings.
type question struct {
	query.Request
	format, layout string
	columns        []string // metrics in the order of the request, each once; nil for all
}

func (a *api) readings(w *response, r *http.Request, tenant string) error {
	q, err := a.question(r, tenant)
	if err != nil {
		return err
	}
	if q.format != "json" && !r.ProtoAtLeast(1, 1) {
		return errOldProtocol
	}
	var f rowWriter
	switch {
	case q.format == "json":
		f = newJSONRows(w)
	case q.format == "ndjson":
		f = newNDJSONRows(w)
	case q.layout == "long":
		f = newLongRows(w)
	default:
		held := a.cfg.Querier.Memory(a.cfg.SpoolBytes)
		defer held.Close()
		f = newWideRows(w, q.columns, newSpool(a.packer, a.cfg.SpoolBytes, held))
	}
	f.begin()
	if r.Method == http.MethodHead {
		return nil
	}
	result, err := a.cfg.Querier.Readings(r.Context(), q.Request, f.row)
	if err != nil {
		return err
	}
	return f.end(result)
}

// rowWriter writes an answer in one format.
type rowWriter interface {
	begin()
	row(query.Row) error
	end(query.Result) error
}

func (a *api) question(r *http.Request, tenant string) (question, error) {
	p := parse(r, readingsParameters, "device", "metric")
	now := a.cfg.Now()
	q := question{Request: query.Request{Tenant: tenant, Devices: p.names("device"), Metrics: p.names("metric")}}
	q.columns = inOrder(q.Metrics)
	q.Range.To = p.instant("to", now, clamp(now))
	// Without from the range is the hour before its end.
	q.Range.From = p.instant("from", now, max(0, min(q.Range.To, clamp(now))-defaultRange.Milliseconds()))
	q.format = p.word("format", "json", "ndjson", "csv")
	q.layout = p.word("layout", "wide", "long")
	q.Descending = p.word("order", "asc", "desc") == "desc"
	q.Strict = p.word("strict", "false", "true") == "true"
	q.Timeout = p.duration("timeout", query.DefaultTimeout, maxTimeout)
	otherwise := 0
	if q.format == "json" {
		otherwise = defaultJSONLimit
	}
	q.Limit = p.count("limit", otherwise)
	if p.values.Has("layout") && q.format != "csv" {
		p.fail("layout", "is for format=csv only")
	}
	if p.err == nil && q.Range.From > q.Range.To {
		p.fail("from", "%s is after to, %s", shown(p, "from", q.Range.From), shown(p, "to", q.Range.To))
	}
	return q, p.err
}

// inOrder is the names, each where it stands first.
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

// shown is an instant in RFC 3339, with the parameter that it was given by.
func shown(p *params, name string, ms int64) string {
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

// stats is query.Stats on the wire.
type stats struct {
	RequestUnits float64 `json:"request_units"`
	Documents    int     `json:"documents"`
	Keys         int     `json:"keys"`
	Containers   int     `json:"containers"`
	HeadRows     int     `json:"head_rows"`
}

func statsOf(r query.Result) stats {
	s := r.Stats
	// Charges are sums of hundredths; what a float adds to that is noise.
	rus, _ := strconv.ParseFloat(strconv.FormatFloat(s.RequestUnits, 'f', 4, 64), 64)
	return stats{rus, s.Documents, s.Keys, s.Containers, s.HeadRows}
}

// The trailers of formats that have no room for them in the body.
const (
	statsTrailer     = "Binnacle-Stats"
	truncatedTrailer = "Binnacle-Truncated"
	completeTrailer  = "Binnacle-Complete"
)

// endWithTrailers says behind the body what there is to say about the answer.
func endWithTrailers(w *response, r query.Result) error {
	s, err := json.Marshal(statsOf(r))
	if err != nil {
		return fmt.Errorf("encode stats: %w", err)
	}
	w.trailer(statsTrailer, string(s))
	w.trailer(truncatedTrailer, strconv.FormatBool(r.Truncated))
	w.trailer(completeTrailer, strconv.FormatBool(r.Complete))
	return nil
}
