package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/pattern"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// instant returns a time in seconds since 1970, in RFC 3339, or of a date's midnight in UTC.
func (c *call) instant(name string, otherwise time.Time) (time.Time, error) {
	s := c.Form.Get(name)
	if s == "" && !otherwise.IsZero() {
		return otherwise, nil
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(seconds) {
		// Beyond what a reading can have all times are alike.
		const most = telemetry.MaxMillis / 1000
		seconds = max(-most, min(most, seconds))
		return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), nil
	}
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return day, nil
	}
	t, ok := telemetry.ParseRFC3339(s)
	if !ok {
		return t, badRequest("invalid parameter %q: cannot parse %q to a valid timestamp", name, s)
	}
	return t, nil
}

// asOf returns the parameter as_of in ms since 1970 UTC, the latest time of storage to consider; 0 is now.
func (a *api) asOf(r *http.Request) (int64, error) {
	const name = "as_of"
	switch given := r.Form[name]; {
	case len(given) == 0:
		return 0, nil
	case len(given) > 1:
		return 0, badRequest("parameter %q is given %d times", name, len(given))
	case r.URL.Path != Prefix+"/api/v1/query" && r.URL.Path != Prefix+"/api/v1/query_range":
		return 0, badRequest("parameter %q: only query and query_range accept it", name)
	case r.Header.Get(httpapi.AfterHeader) != "":
		return 0, badRequest("parameter %q may not be combined with %s, which is about now", name, httpapi.AfterHeader)
	}
	at, err := (&call{Request: r}).instant(name, time.Time{})
	if err != nil {
		return 0, err
	}
	if now := a.cfg.Now(); at.UnixMilli() <= 0 || at.After(now) {
		return 0, badRequest("invalid parameter %q: %s; allowed is a time between 1970 and now, which is %s", name,
			at.Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano))
	}
	return at.UnixMilli(), nil
}

// duration returns a number of seconds or a duration in PromQL's notation; 0 if it is absent.
func (c *call) duration(name string) (time.Duration, error) {
	s := c.Form.Get(name)
	if s == "" {
		return 0, nil
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		if nanos := seconds * 1e9; math.Abs(nanos) < math.MaxInt64 {
			return time.Duration(nanos), nil
		}
		return 0, badRequest("invalid parameter %q: cannot parse %q to a valid duration. It overflows int64", name, s)
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, badRequest("invalid parameter %q: cannot parse %q to a valid duration", name, s)
	}
	return time.Duration(d), nil
}

// limit returns how many series, names or values are asked for; 0 for all.
func (c *call) limit() (int, error) {
	s := c.Form.Get("limit")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, badRequest("invalid parameter %q: %q is not a limit", "limit", s)
	}
	return n, nil
}

// defaultListRange is how far back lists without a start look.
const defaultListRange = 24 * time.Hour

// span returns the selector of a list's range.
func (c *call) span(now time.Time) (*selector, error) {
	end, err := c.instant("end", now)
	if err != nil {
		return nil, err
	}
	start, err := c.instant("start", end.Add(-defaultListRange))
	if err != nil {
		return nil, err
	}
	return &selector{tenantStorage: c.tenantStorage, mint: start.UnixMilli(), maxt: end.UnixMilli(),
		noStart: c.Form.Get("start") == ""}, nil
}

// maxSelectors bounds the selectors of a list: each looks through all devices.
const maxSelectors = 1000

func (a *api) matchers(c *call) ([][]*labels.Matcher, error) {
	if n := len(c.Form["match[]"]); n > maxSelectors {
		return nil, badRequest("%d selectors (match[]); at most %d are allowed", n, maxSelectors)
	}
	sets, err := a.parser.ParseMetricSelectors(c.Form["match[]"])
	if err != nil {
		return nil, badRequest("invalid parameter %q: %v", "match[]", err)
	}
	for _, set := range sets {
		if !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, badRequest("match[] must contain at least one non-empty matcher")
		}
	}
	return sets, nil
}

// badData is the type of errors that are in the request itself.
const badData = "bad_data"

// statusCanceled is what Prometheus answers when the client has gone.
const statusCanceled = 499

// apiError is an error as clients of Prometheus know it.
type apiError struct {
	kind   string // errorType
	status int
	detail string
}

func (e *apiError) Error() string { return e.detail }

func badRequest(format string, args ...any) *apiError {
	return &apiError{badData, http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// errorOf returns the error that a client gets. Errors of the store are not shown: they may name what is not the
// client's.
func errorOf(err error) *apiError {
	if stored, ok := errors.AsType[promql.ErrStorage](err); ok {
		err = stored.Err
	}
	var (
		shown    *apiError
		canceled promql.ErrQueryCanceled
		timeout  promql.ErrQueryTimeout
		many     promql.ErrTooManySamples
		unknown  *query.UnknownPartitionError
	)
	switch {
	case errors.As(err, &unknown):
		return badRequest("header %s: %v", httpapi.AfterHeader, unknown)
	case errors.As(err, &shown):
		return shown
	case errors.As(err, &many):
		return &apiError{"execution", http.StatusUnprocessableEntity, many.Error()}
	case errors.As(err, &canceled):
		return &apiError{"canceled", statusCanceled, canceled.Error()}
	case errors.As(err, &timeout):
		return &apiError{"timeout", http.StatusServiceUnavailable, timeout.Error()}
	case errors.Is(err, context.Canceled):
		return &apiError{"canceled", statusCanceled, "the query was canceled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{"timeout", http.StatusServiceUnavailable, "the query timed out while it read" + query.FailureOf(err)}
	}
	status, detail := httpapi.StatusOf(err)
	return &apiError{cmp.Or(errorTypes[status], "internal"), status, detail}
}

// errorTypes has the types of errors that Prometheus has for what the API answers with a status. Prometheus has no 429;
// too_many_requests is what Mimir, which has it, calls it.
var errorTypes = map[int]string{
	http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden", http.StatusBadRequest: badData,
	http.StatusUnprocessableEntity: "execution", http.StatusTooManyRequests: "too_many_requests",
	http.StatusServiceUnavailable: "unavailable", http.StatusGatewayTimeout: "timeout",
}

// engineError returns the error of an evaluation. Any other error than the store's or a limit's is a mistake in the
// query that shows only with the data, as in Prometheus.
func engineError(err error) error {
	var stored promql.ErrStorage
	if shown := errorOf(err); shown.kind != "internal" || errors.As(err, &stored) {
		return err
	}
	return &apiError{"execution", http.StatusUnprocessableEntity, err.Error()}
}

// Bounds of what a request asks. The parser and the engine call themselves once for each bracket, sign and operator: a
// stack that overflows ends the process, and some of their work grows with the square of the depth, where no timeout
// is checked. So texts are measured before they are parsed.
const (
	maxTextBytes   = 256 << 10 // for a query, or for all selectors of a request together
	maxNesting     = 200       // open brackets and signs in a row
	maxOperators   = 500       // each is one level deeper: a + b + c is (a + b) + c
	maxFormatBytes = 10 << 10  // for format_query: formatting takes the square of the depth for each byte
)

// checkTexts returns an error if the query or the selectors of a request pass a bound.
func checkTexts(form map[string][]string) error {
	for _, name := range []string{"query", "match[]"} {
		size := 0
		for _, text := range form[name] {
			size += len(text)
		}
		if size > maxTextBytes {
			return badRequest("invalid parameter %q: it has %d bytes; at most %d are allowed", name, size, maxTextBytes)
		}
		patterns := 0
		for _, text := range form[name] {
			if err := checkDepth(name, text, &patterns); err != nil {
				return err
			}
		}
		if patterns > pattern.MaxInstructions {
			return badRequest("invalid parameter %q: its texts and regular expressions may take %d instructions; at most %d "+
				"are allowed", name, patterns, pattern.MaxInstructions)
		}
	}
	return nil
}

// checkDepth returns an error if the tree of an expression would be too deep. Brackets and signs in strings and
// comments do not count, nor operators in braces. It adds what regular expressions may take.
func checkDepth(name, text string, patterns *int) error {
	var brackets, signs, operators int
	braces := false
	lexer := parser.Lex(text)
	for {
		var item parser.Item
		lexer.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR: // the parser reads no further either
			return nil
		case parser.COMMENT:
			continue
		case parser.STRING:
			if text, err := strutil.Unquote(item.Val); err == nil { // else the parser refuses it
				*patterns += pattern.Instructions(text)
			}
		case parser.LEFT_PAREN, parser.LEFT_BRACE, parser.LEFT_BRACKET:
			brackets++
		case parser.RIGHT_PAREN, parser.RIGHT_BRACE, parser.RIGHT_BRACKET:
			brackets--
		}
		switch item.Typ {
		case parser.LEFT_BRACE:
			braces = true
		case parser.RIGHT_BRACE:
			braces = false
		case parser.ADD, parser.SUB:
			signs++
		default:
			signs = 0
		}
		// A subquery is a level around what its bracket follows.
		if item.Typ == parser.LEFT_BRACKET || item.Typ.IsOperator() && !braces {
			operators++
		}
		switch {
		case brackets+signs > maxNesting:
			return badRequest("invalid parameter %q: brackets and signs nest deeper than %d levels at byte %d", name, maxNesting,
				item.Pos)
		case operators > maxOperators:
			return badRequest("invalid parameter %q: it has more than %d operators", name, maxOperators)
		}
	}
}
