package prom

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query/httpapi"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
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
