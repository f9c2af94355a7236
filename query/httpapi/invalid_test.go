package httpapi_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

var (
	badTimes = []string{"", "x", "yesterday", "2026-13-01T00:00:00Z", "2026-11-31", "--1h", "-1x", "1e3", "-", "12:00",
		"99999999999999999999", "2026-11-20T8:00:00Z", "2026-11-20T08:00:00,5Z", "2026-11-20T08:00:00%2B24:00",
		"2026-11-20T08:00:60Z"}
	badDurations = []string{"", "x", "0s", "-5m", "5", "1ns2", "h", "9999999d"}
	badCounts    = []string{"", "0", "-1", "1.5", "x", "99999999999999999999", "1e3", "0x10"}
)

// wrong is values that a parameter may not have, by its name, or by its endpoint and its name.
var wrong = map[string][]string{
	"device": {""}, "/api/v1/gaps device": {"", "a/b", strings.Repeat("x", 201)}, "metric": {""}, "reason": {""},
	"sequence": {"\n", strings.Repeat("x", 201)},
	"from":     badTimes, "to": badTimes, "as_of": append([]string{"2026-11-20T12:00:00.001Z", "0"}, badTimes...),
	"since":   append([]string{"2026-11-20T12:00:00.001Z"}, badTimes...),
	"until":   append([]string{"2026-11-20T12:00:00.001Z"}, badTimes...),
	"step":    append([]string{"1us", "1500us", "days", "DAY", "1ms"}, badDurations...),
	"expect":  append([]string{"100us"}, badDurations...),
	"timeout": append([]string{"6m"}, badDurations...), "limit": badCounts,
	"samples": append([]string{"101"}, badCounts...),
	"order":   {"", "up", "ASC"}, "format": {"", "xml", "JSON", "json,csv"}, "layout": {"", "tall"},
	"strict": {"", "1", "yes", "TRUE"}, "cursor": {"", "x", "e30", strings.Repeat("A", 5000)},
	"tz":        {"", "Local", "Mars/Base", "../../etc/passwd", "+01:00"},
	"align":     {"", "up", "step"},
	"closed":    {"", "both"},
	"aggregate": {"", "mean", "p", "p101", "p-1", "pNaN", "p1e1", "avg,", strings.Repeat("avg,", 20) + "avg"},
	"by":        {"", "fleet", "tag", "tag:", "label:", "device:m1", "device,"},
	"fill":      {"", "zero"},
	"change":    {"", "gone", "late,"},
	"tag":       {""}, "id": {""},
	"match": {"", "nord", "=nord", "site", "device=~(", "metric!=v", "site=~*"},
}

// free are parameters of which any value is right.
var free = map[string]bool{"prefix": true, "after": true, "/api/v1/rejected device": true}

// Whatever is wrong with whichever parameter of whichever endpoint, the answer is a problem that names it.
func TestEveryInvalidValueIsAProblem(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) { c.Rejected, c.Annotations = nothing{}, noAnnotations(t) })
	s.fill()
	beside := map[string]string{"layout": "format=csv&", "fill": "step=1m&", "tz": "step=day&"}
	needed := map[string]string{"/api/v1/gaps": "device=m1&", "/api/v1/diff": "since=-1h&"}
	routes := httpapi.Routes(httpapi.Config{Rejected: nothing{}, Annotations: noAnnotations(t)})
	asked := 0
	for _, path := range slices.Sorted(maps.Keys(routes)) {
		for _, name := range routes[path][1] {
			values, listed := wrong[path+" "+name]
			if !listed {
				values, listed = wrong[name]
			}
			if free[name] || free[path+" "+name] {
				values, listed = nil, true
			}
			require.True(t, listed, "nothing is known to be wrong for %s of %s", name, path)
			for _, value := range append([]string{"\x00"}, values...) {
				about := needed[path]
				if strings.HasPrefix(about, name+"=") {
					about = ""
				}
				about += beside[name] + name + "=" + url.QueryEscape(value)
				if value == "\x00" { // once is enough
					if slices.Contains([]string{"device", "metric", "reason", "aggregate", "by", "change", "match", "tag",
						"id"}, name) &&
						path != "/api/v1/gaps" && path+" "+name != "/api/v1/rejected device" {
						continue
					}
					about = needed[path] + name + "=1&" + name + "=1"
				}
				asked++
				a := s.get(t, path+"?"+about)
				require.Equal(t, 400, a.status, "%s?%s: %s", path, about, a.body)
				p := parseProblem(t, a)
				require.Equal(t, name, p.Parameter, "%s?%s: %s", path, about, p.Detail)
				require.NotEmpty(t, p.Detail)
			}
		}
		for _, about := range []string{"unknown=1", "%zz=1", "Device=m1", "device[]=m1"} {
			a := s.get(t, path+"?"+needed[path]+about)
			require.Equal(t, 400, a.status, "%s?%s", path, about)
			parseProblem(t, a)
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodPost} {
			if slices.Contains(routes[path][0], method) {
				continue
			}
			a, err := s.do(t, method, path, http.Header{httpapi.TenantHeader: {"acme"}})
			require.NoError(t, err)
			require.Equal(t, 405, a.status, "%s %s", method, path)
			require.NotEmpty(t, a.header.Get("Allow"))
			parseProblem(t, a)
		}
	}
	require.Greater(t, asked, 300)
}
