package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// said is an entry with kinds of metrics, and times.
func said(device string, first, last int64, metrics map[string][]telemetry.Kind, tags ...string) catalog.Entry {
	e := catalog.Entry{Device: device, First: first, Last: last}
	for name, kinds := range metrics {
		for _, k := range kinds {
			e.Metrics = append(e.Metrics, catalog.Metric{Name: name, Kind: k})
		}
	}
	for i := 0; i < len(tags); i += 2 {
		e.Tags = append(e.Tags, catalog.Tag{Name: tags[i], Value: tags[i+1]})
	}
	return e
}

const (
	m1 = `{"device":"m1","tags":{"site":"<nord>"},"metrics":["hot","n","ok","temp"],"first":5,"last":1795175400000}`
	m2 = `{"device":"m2","tags":{},"metrics":["hot","msg","none","temp"],"first":1795175699500,"last":1795175699500}`
	m3 = `{"device":"m3","tags":{"site":"süd"},"metrics":["temp"],"first":1,"last":2}`
)

// listing is a server with three devices of acme, one of which only a head knows, and one of globex.
func listing(t *testing.T) server {
	s := newServer(t, nil)
	s.fill()
	s.world.Catalog.AddPage("acme", said("m1", 5, noon.Add(-20*time.Minute).UnixMilli(), map[string][]telemetry.Kind{
		"temp": {telemetry.Float}, "n": {telemetry.Int}, "ok": {telemetry.Bool}}, "site", "<nord>"))
	s.world.Catalog.AddPage("acme", said("m3", 1, 2, map[string][]telemetry.Kind{
		"temp": {telemetry.Int, telemetry.Text}}, "site", "süd"))
	s.world.Catalog.AddPage("globex", said("m4", 1, 2, map[string][]telemetry.Kind{"other": {telemetry.Int}}, "site", "x"))
	return s
}

func (s server) answers(t *testing.T, base string, want map[string]string) {
	t.Helper()
	for path, body := range want {
		a := s.get(t, base+path)
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, body+"\n", a.body, path)
	}
}

func TestDevices(t *testing.T) {
	listing(t).answers(t, "/api/v1/devices", map[string]string{
		"":                               `{"devices":[` + m1 + "," + m2 + "," + m3 + `],"truncated":false}`,
		"?limit=2":                       `{"devices":[` + m1 + "," + m2 + `],"truncated":true,"next":"m2"}`,
		"?limit=2&after=m2":              `{"devices":[` + m3 + `],"truncated":false}`,
		"?limit=1&after=m1":              `{"devices":[` + m2 + `],"truncated":true,"next":"m2"}`,
		"?limit=3":                       `{"devices":[` + m1 + "," + m2 + "," + m3 + `],"truncated":false}`,
		"?prefix=m2":                     `{"devices":[` + m2 + `],"truncated":false}`,
		"?prefix=m&limit=2":              `{"devices":[` + m1 + "," + m2 + `],"truncated":true,"next":"m2"}`,
		"?prefix=none":                   `{"devices":[],"truncated":false}`,
		"?prefix=m3&limit=10":            `{"devices":[` + m3 + `],"truncated":false}`,
		"?match=site%3Ds%C3%BCd":         `{"devices":[` + m3 + `],"truncated":false}`,
		"?match=site!%3Ds%C3%BCd":        `{"devices":[` + m1 + "," + m2 + `],"truncated":false}`,
		"?match=site%3D~.%2B":            `{"devices":[` + m1 + "," + m3 + `],"truncated":false}`,
		"?match=site%3D":                 `{"devices":[` + m2 + `],"truncated":false}`,
		"?match=metric%3Dmsg":            `{"devices":[` + m2 + `],"truncated":false}`,
		"?match=device%3D~m[13]&limit=1": `{"devices":[` + m1 + `],"truncated":true,"next":"m1"}`,
		"?match=device!~m[13]&match=metric%3D~h.*": `{"devices":[` + m2 + `],"truncated":false}`,
	})
}

func TestInvalidMatchers(t *testing.T) {
	s := listing(t)
	for _, match := range []string{"site", "%3Dx", "site%3D~(", "metric!%3Dtemp", "metric!~t.*"} {
		a := s.get(t, "/api/v1/devices?match="+match)
		require.Equal(t, 400, a.status, match)
		require.Contains(t, a.body, "parameter match")
	}
}

func TestMetrics(t *testing.T) {
	listing(t).answers(t, "/api/v1/metrics", map[string]string{
		"": `{"metrics":[{"metric":"hot","types":["float"],"units":[],"devices":2},{"metric":"msg","types":["text"],"units":[],"devices":1},` +
			`{"metric":"n","types":["int"],"units":[],"devices":1},{"metric":"none","types":["text"],"units":[],"devices":1},` +
			`{"metric":"ok","types":["bool"],"units":[],"devices":1},` +
			`{"metric":"temp","types":["float","int","text"],"units":[],"devices":3}],"truncated":false}`,
		"?prefix=n":         `{"metrics":[{"metric":"n","types":["int"],"units":[],"devices":1},{"metric":"none","types":["text"],"units":[],"devices":1}],"truncated":false}`,
		"?prefix=n&limit=1": `{"metrics":[{"metric":"n","types":["int"],"units":[],"devices":1}],"truncated":true}`,
		"?prefix=x":         `{"metrics":[],"truncated":false}`,
	})
}

func TestFacets(t *testing.T) {
	s := listing(t)
	s.world.Catalog.AddPage("acme", said("m5", 1, 2, nil, "site", "süd", "line", "7"))
	s.answers(t, "/api/v1/devices/facets", map[string]string{
		"": `{"devices":4,"facets":[{"tag":"line","values":[{"value":"7","devices":1}],"others":0},` +
			`{"tag":"site","values":[{"value":"süd","devices":2},{"value":"<nord>","devices":1}],"others":0}]}`,
		"?tag=site&limit=1":      `{"devices":4,"facets":[{"tag":"site","values":[{"value":"süd","devices":2}],"others":1}]}`,
		"?tag=none":              `{"devices":4,"facets":[{"tag":"none","values":[],"others":0}]}`,
		"?match=line%3D7":        `{"devices":1,"facets":[{"tag":"line","values":[{"value":"7","devices":1}],"others":0},{"tag":"site","values":[{"value":"süd","devices":1}],"others":0}]}`,
		"?match=metric%3Dabsent": `{"devices":0,"facets":[]}`,
	})
}

func TestCardinality(t *testing.T) {
	s := listing(t)
	s.world.Catalog.AddPage("acme", said("m5", 1, 2, nil, "site", "x", "line", "7"))
	s.answers(t, "/api/v1/cardinality", map[string]string{
		"?limit=1&prefix=m5": `{"tenant":"acme","devices":1,"series":0,"metrics":[],` +
			`"tags":[{"name":"line","values":1,"devices":1}],"labels":[],"largest":[{"device":"m5","metrics":0,"labels":0}],"names":{"metrics":0,"tags":2,"labels":0}}`,
		"?limit=1": `{"tenant":"acme","devices":4,"series":9,"metrics":[{"metric":"temp","types":["float","int","text"],"units":[],"devices":3}],` +
			`"tags":[{"name":"site","values":3,"devices":3}],"labels":[{"name":"axis","values":1,"devices":1}],` +
			`"largest":[{"device":"m2","metrics":4,"labels":2}],"names":{"metrics":6,"tags":2,"labels":3}}`,
	})
}

// A page of devices is made as a whole, so it has an end, whatever is asked for.
func TestDevicePageIsBounded(t *testing.T) {
	s := newServer(t, nil)
	var all []catalog.Entry
	for i := range 50_001 {
		all = append(all, said(fmt.Sprintf("m%05d", i), 1, 2, nil))
	}
	for some := range slices.Chunk(all, 10_000) {
		s.world.Catalog.AddPage("acme", some...)
	}
	a := s.get(t, "/api/v1/devices?limit=1000000")
	require.Equal(t, 200, a.status)
	var page struct {
		Devices   []struct{ Device string }
		Truncated bool
		Next      string
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &page))
	require.Len(t, page.Devices, 50_000)
	require.True(t, page.Truncated)
	require.Contains(t, s.get(t, "/api/v1/devices?limit=1000000&after="+page.Next).body, `"truncated":false`)
}

// An empty answer says which names the catalog has never seen, and the nearest ones that it has.
func TestHints(t *testing.T) {
	s := listing(t)
	for path, want := range map[string][]string{
		"/api/v1/readings?metric=Tmp&from=-1h":                    {`no metric "Tmp"`},
		"/api/v1/readings?metric=Temps&from=-1h":                  {`no metric "Temps"; there is "temp"`},
		"/api/v1/latest?device=n77&metric=temp":                   {`no device "n77"`},
		"/api/v1/latest?metric=other":                             {`no metric "other"`}, // it is globex's
		"/api/v1/aggregates?metric=Hott&from=-1h&aggregate=p95":   {`no metric "Hott"; there is "hot"`},
		"/api/v1/aggregates?device=m1&from=-100d&to=-99d":         nil,
		"/api/v1/aggregates?metric=temp&metric=foo&from=-1h":      nil, // it is not empty
		"/api/v1/readings?from=-100d&to=-99d":                     nil,
		"/api/v1/readings?metric=Temps&from=-100d&to=-99d":        {`no metric "Temps"; there is "temp"`},
		"/api/v1/aggregates?metric=Temps&from=-100d&to=-99d":      {`no metric "Temps"; there is "temp"`},
		"/api/v1/aggregates?metric=msg&aggregate=avg&to=-99d":     nil,
		"/api/v1/latest?metric=temp&device=m9&device=m8&from=-1h": {`no device "m9"`, `no device "m8"`},
	} {
		a := s.get(t, path)
		var body struct{ Warnings []string }
		require.NoError(t, json.Unmarshal([]byte(a.body), &body), a.body)
		require.Equal(t, want, body.Warnings, path)
	}
}

// A date is its midnight in UTC, and aligned buckets begin at multiples of their step.
func TestDatesAndAlignedBuckets(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	starts := func(query string) (out []int64) {
		var body struct{ Aggregates []struct{ Start, End int64 } }
		a := s.get(t, "/api/v1/aggregates?device=m1&metric=temp&"+query)
		require.NoError(t, json.Unmarshal([]byte(a.body), &body), a.body)
		for _, x := range body.Aggregates {
			require.Zero(t, x.Start%600_000)
			out = append(out, x.Start)
		}
		return out
	}
	day := noon.Truncate(24 * time.Hour)
	whole := "step=10m&from=" + day.Format(time.DateOnly) + "&to=" + day.AddDate(0, 0, 1).Format(time.DateOnly)
	from := noon.Add(-40*time.Minute + time.Second).UnixMilli()
	to := noon.Add(-7 * time.Minute).UnixMilli()
	for _, form := range []string{"", "&aggregate=avg", "&aggregate=avg&closed=right"} {
		require.NotEmpty(t, starts(whole+form))
		require.Equal(t, starts(whole+form), starts(fmt.Sprintf("align=step&step=10m&from=%d&to=%d", from, to)+form))
	}
	for _, bad := range []string{"align=step", "align=step&step=day", "align=step&step=1d&tz=Europe/Berlin",
		"align=up&step=1m"} {
		require.Equal(t, 400, s.get(t, "/api/v1/aggregates?"+bad).status, bad)
	}
	require.Equal(t, 400, s.get(t, "/api/v1/readings?from=2026-13-01").status)
}

// A few letters of a regular expression may stand for gigabytes: what all of a request take has a bound.
func TestRegularExpressionsOfMatchersAreBounded(t *testing.T) {
	s := listing(t)
	long := url.QueryEscape("device=~" + strings.Repeat("x{1000}", 60))
	require.Equal(t, 200, s.get(t, "/api/v1/devices?match="+long).status)
	for _, path := range []string{"/api/v1/devices", "/api/v1/devices/facets", "/api/v1/cardinality"} {
		a := s.get(t, path+"?match="+long+strings.Repeat("&match="+long, 2))
		require.Equal(t, 400, a.status, a.body)
		require.Contains(t, a.body, "the regular expressions may take more than 1048576 instructions")
	}
}
