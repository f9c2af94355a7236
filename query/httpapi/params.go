package httpapi

import (
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"binnacle/query"
)

// parameterError describes a fault of a parameter and the allowed values.
type parameterError struct{ name, problem string }

func (e *parameterError) Error() string { return fmt.Sprintf("parameter %s: %s", e.name, e.problem) }

// params is the parameters of a request. It keeps the first error, and returns zero values after it.
type params struct {
	request *http.Request
	values  url.Values
	err     error
	after   bool // the answer must include records
}

// The most values of a repeatable parameter: in a URL, and with a form in the body.
const (
	maxNames     = 100
	maxFormNames = 10_000
	maxFormBytes = 4 << 20
)

// parse returns the parameters of a request. Only some are allowed, and of these only some more than once. A POST may
// have them as a form in its body, too.
func parse(r *http.Request, allowed []string, repeatable ...string) *params {
	values, err := url.ParseQuery(r.URL.RawQuery)
	p := &params{request: r, values: values, after: r.Header.Get(AfterHeader) != ""}
	if err != nil {
		p.fail("query", "the URL's query string can't be parsed: %v", err)
		return p
	}
	most := maxNames
	if r.Method == http.MethodPost {
		most = maxFormNames
		p.form(r)
	}
	for _, name := range repeatable {
		if n := len(values[name]); n > most && most == maxNames {
			p.fail(name, "is given %d times; at most %d are allowed in a URL, %d in the form of a POST", n, maxNames,
				maxFormNames)
		} else if n > most {
			p.fail(name, "is given %d times; at most %d are allowed", n, most)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(allowed, name) {
			p.fail(name, "unknown; allowed are %s", strings.Join(allowed, ", "))
		}
		if len(values[name]) > 1 && !slices.Contains(repeatable, name) {
			p.fail(name, "is given %d times; once is allowed", len(values[name]))
		}
	}
	if timeout := p.duration("timeout", 0, maxTimeout); timeout > 0 {
		*r = *r.WithContext(query.WithTimeout(r.Context(), timeout))
	}
	return p
}

func (p *params) form(r *http.Request) {
	const form = "application/x-www-form-urlencoded"
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != form {
		p.fail("Content-Type", "%.100q; the body of a POST is %s", r.Header.Get("Content-Type"), form)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxFormBytes+1))
	if err != nil {
		p.fail("body", "can't be read: %v", err)
		return
	}
	if len(body) > maxFormBytes {
		p.fail("body", "has more than %d MiB", maxFormBytes>>20)
		return
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		p.fail("body", "is not a form: %v", err)
		return
	}
	for name, all := range values {
		p.values[name] = append(p.values[name], all...)
	}
}

func (p *params) fail(name, format string, args ...any) {
	if p.err == nil {
		p.err = &parameterError{fmt.Sprintf("%.100q", name), fmt.Sprintf(format, args...)}
		if err := p.err.(*parameterError); isPlain(name) {
			err.name = name
		}
	}
}

// isPlain reports whether a name may stand in a sentence without quotes.
func isPlain(name string) bool {
	return name != "" && len(name) <= 100 && strings.Trim(strings.ToLower(name),
		"abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// names returns the values of a repeatable parameter, nil if it is absent.
func (p *params) names(name string) []string {
	for _, v := range p.values[name] {
		if v == "" {
			p.fail(name, "is empty; omit it for all")
		}
	}
	return p.values[name]
}

// word returns one of the allowed words, the first if the parameter is absent.
func (p *params) word(name string, allowed ...string) string {
	if !p.values.Has(name) {
		return allowed[0]
	}
	v := p.values.Get(name)
	if !slices.Contains(allowed, v) {
		p.fail(name, "%.100q; allowed are %s", v, strings.Join(allowed, ", "))
	}
	return v
}

// count returns an integer of at least 1.
func (p *params) count(name string, otherwise int) int {
	if !p.values.Has(name) {
		return otherwise
	}
	n, err := strconv.Atoi(p.values.Get(name))
	if err != nil || n < 1 {
		p.fail(name, "%.100q; allowed is an integer of at least 1", p.values.Get(name))
	}
	return n
}

// duration returns a length of time in (0, most].
func (p *params) duration(name string, otherwise, most time.Duration) time.Duration {
	if !p.values.Has(name) {
		return otherwise
	}
	d, err := duration.Parse(p.values.Get(name))
	if err != nil || d <= 0 || d > most {
		p.fail(name, "%.100q; allowed is a duration like 500ms or 10s, at most %s", p.values.Get(name), duration.String(most))
	}
	return d
}

// instant returns a time in ms since 1970 UTC, rounded up: a bound of a half-open range stays on its side of every
// event time.
func (p *params) instant(name string, now time.Time, otherwise int64) int64 {
	if !p.values.Has(name) {
		return otherwise
	}
	t, err := duration.ParseInstant(p.values.Get(name), now)
	if err != nil {
		p.fail(name, "%.100q; allowed are RFC 3339 (2026-11-20T10:00:00Z), a date (2026-11-20), seconds or milliseconds "+
			"since 1970, now, and a time before now (-15m, -2h, -7d)", p.values.Get(name))
	}
	return t
}

// lastDay returns the range between from and to, by default the day before an instant.
func (p *params) lastDay(now time.Time, end int64) (r telemetry.Range) {
	r.To = p.instant("to", now, end)
	r.From = p.instant("from", now, max(0, r.To-telemetry.DayMillis))
	p.checkOrder(r.From, r.To)
	return r
}

// checkOrder fails where a range ends before it begins.
func (p *params) checkOrder(from, to int64) {
	if p.err == nil && from > to {
		p.fail("from", "%s is after to, %s", formatTime(p, "from", from), formatTime(p, "to", to))
	}
}

// optionalInstant returns a time from 1970 to now, otherwise if it is absent.
func (p *params) optionalInstant(name string, now time.Time, otherwise int64) int64 {
	t := p.instant(name, now, otherwise)
	if p.values.Has(name) && p.err == nil && (t > clamp(now) || t <= 0) {
		p.fail(name, "%s; allowed is a time between 1970 and now", formatTime(p, name, t))
	}
	return t
}

// AfterHeader names records that an answer must include, as topic/partition/offset.
const AfterHeader = "X-Binnacle-After"

// maxAfter is how many records a request may name.
const maxAfter = 1000

// After returns the request with a context in which queries include the records that its header names.
func After(r *http.Request) (*http.Request, error) {
	values := r.Header.Values(AfterHeader)
	if len(values) == 0 {
		return r, nil
	}
	ends, err := query.ParsePositions(values, maxAfter)
	if err != nil {
		return r, &parameterError{AfterHeader, err.Error()}
	}
	return r.WithContext(query.WithAfter(r.Context(), ends)), nil
}
