package prom_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// Over all of the time that devices have reported, what the catalog has of series, names and values is what their
// readings do.
func TestCatalogListsEqualReadings(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := rand.New(rand.NewPCG(seed, 0))
	some := func(of ...string) string { return of[c.IntN(len(of))] }
	told, asked, ofLabels := 0, 0, 0
	for range 60 {
		s := newServer(t, nil)
		readings := prom.Over(s.query, "acme")
		odd := c.IntN(3) == 0 // names that several things have, and text
		offset := int64(0)
		for d := range 1 + c.IntN(4) {
			device := fmt.Sprintf("m%d", d)
			tags := map[string]string{"site": some("a", "b", ""), "model": some("x", "y")}
			if odd {
				tags[some("axis", "device", "exported_axis", "spare")] = some("x", "tag")
			}
			s.world.Catalog.AddPage("acme", storetest.Entry(device, tags))
			of := []string{"temp", "n"}[:1+c.IntN(2)]
			labelled := c.IntN(2) == 0
			var records []querytest.Record
			for i := range 1 + c.IntN(4) {
				var fields []telemetry.Field
				for _, m := range of {
					if c.IntN(4) > 0 {
						fields = append(fields, float(m, 1))
					}
				}
				if odd && c.IntN(2) == 0 {
					fields = append(fields, telemetry.Field{Metric: "note", Value: telemetry.TextValue("hot")})
				}
				if odd && c.IntN(6) == 0 {
					fields = []telemetry.Field{{Metric: "temp", Value: telemetry.TextValue("hot")}}
				}
				var set telemetry.Labels
				if labelled {
					set = telemetry.Labels{{Name: "axis", Value: some("x", "y", "")}, {Name: "unit", Value: some("km", "mi")}}
				}
				if odd && c.IntN(4) == 0 {
					set = telemetry.Labels{{Name: some("device", "model", "exported_axis"), Value: "label"}}
				}
				if len(fields) > 0 {
					offset++
					records = append(records, record(offset, device, noon.Add(time.Duration(i-9)*time.Minute), set, fields...))
				}
			}
			if len(records) > 0 {
				s.world.Chunk(records...)
			}
		}
		for range 40 {
			var matchers []*labels.Matcher
			for range c.IntN(3) {
				matchers = append(matchers, labels.MustNewMatcher(labels.MatchType(c.IntN(4)),
					some("__name__", "__name__", "device", "axis", "unit", "site", "model", "none"),
					some("temp", "n", "m1", "x", "y", "km", "a", "", ".*", "m0|m2", "te.*")))
			}
			what := some("", "series", "__name__", "device", "axis", "unit", "site", "none")
			known, read, ok, err := readings.Known(t.Context(), what, matchers)
			require.NoError(t, err)
			if asked++; !ok {
				continue
			}
			if told++; len(read) > 0 && (what == "axis" || what == "unit") {
				ofLabels++
			}
			require.ElementsMatch(t, read, known, "seed %d: %q of %v", seed, what, matchers)
		}
	}
	require.Greater(t, told, asked/3, "seed %d", seed)
	require.Greater(t, ofLabels, 20, "seed %d", seed)
}

// What a device had before counts as long as it reports, in lists that the catalog makes. Where the catalog can't know
// all labels, or which came with a metric, readings are looked at.
func TestCatalogListsIncludeFormerLabels(t *testing.T) {
	s := newServer(t, nil)
	long := noon.Add(-30 * 24 * time.Hour)
	axis := func(v string) telemetry.Labels { return telemetry.Labels{{Name: "axis", Value: v}} }
	s.world.Chunk(record(1, "m1", long, axis("x"), float("temp", 1)))
	s.world.Chunk(record(2, "m1", noon.Add(-time.Minute), axis("y"), float("temp", 2)))
	s.world.Chunk(record(3, "gone", long, axis("z"), float("old", 2)))
	ask := func(path string, parameters ...string) (data, source string) {
		r := s.ask(t, "/api/v1/"+path, parameters...)
		require.Equal(t, 200, r.status, r.Error)
		return string(r.Data), r.header.Get("X-Binnacle-Source")
	}
	const none = "rollups=0, chunks=0, heads=0"
	for path, want := range map[string]string{
		"label/axis/values": `["x","y"]`, "labels": `["__name__","axis","device"]`, "label/__name__/values": `["temp"]`,
	} {
		data, source := ask(path)
		require.JSONEq(t, want, data)
		require.Equal(t, none, source)
		data, _ = ask(path, "match[]", "temp")
		require.JSONEq(t, want, data)
	}
	const noStart = "start is missing, so what has no samples in the 24 hours before end is left out"
	for path, warned := range map[string]bool{
		"labels": true, "label/device/values": true, "series?match[]=temp": true, "series?match[]=old": true,
		"labels?start=1795000000": false, "label/device/values?start=0": false, "series?match[]=temp&start=1795000000": false,
		"labels?match[]={device='m1'}": false, // from the catalog, which has all that it ever had
	} {
		name, values, _ := strings.Cut(path, "?")
		form, err := url.ParseQuery(values)
		require.NoError(t, err)
		var parameters []string
		for k := range form {
			parameters = append(parameters, k, form.Get(k))
		}
		if warned {
			require.Contains(t, s.ask(t, "/api/v1/"+name, parameters...).Warnings, noStart, path)
		} else {
			require.NotContains(t, s.ask(t, "/api/v1/"+name, parameters...).Warnings, noStart, path)
		}
	}
	data, source := ask("label/axis/values", "match[]", `{device=~".+",axis!="x"}`)
	require.JSONEq(t, `["y"]`, data)
	require.Equal(t, none, source)
	data, source = ask("label/axis/values", "match[]", `temp{unit="",axis!="x"}`)
	require.JSONEq(t, `["y"]`, data)
	require.Equal(t, none, source)
	data, source = ask("series", "match[]", "temp") // readings have labels
	require.JSONEq(t, `[{"__name__":"temp","axis":"y","device":"m1"}]`, data)
	require.NotEqual(t, none, source)

	s.world.Chunk(record(4, "m1", noon.Add(-time.Minute), nil, float("n", 2)))
	s.world.Now = s.world.Now.Add(time.Minute)
	data, source = ask("label/axis/values", "match[]", "n") // it never came with a label
	require.JSONEq(t, `[]`, data)
	require.NotEqual(t, none, source)
	e := storetest.Entry("m1", nil)
	for i := range catalog.MaxLabelValues {
		e.Labels = append(e.Labels, telemetry.Label{Name: "axis", Value: fmt.Sprintf("a%03d", i)})
	}
	s.world.Catalog.AddPage("acme", e) // of so many not all are listed
	s.world.Now = s.world.Now.Add(time.Minute)
	data, source = ask("label/axis/values")
	require.JSONEq(t, `["y"]`, data)
	require.NotEqual(t, none, source)
}

// Where the catalog does not list all metrics of a device, readings are looked at, for lists and for values.
func TestTextMetricsAreNotListed(t *testing.T) {
	const none = "rollups=0, chunks=0, heads=0"
	for _, lacks := range []bool{false, true} {
		s := newServer(t, nil)
		s.world.Chunk(record(1, "m1", noon.Add(-time.Minute), nil, float("extra", 7)))
		for _, p := range s.world.Catalog.All("acme") {
			require.NoError(t, s.world.Catalog.Delete(t.Context(), "acme", p.ID))
		}
		e := storetest.Entry("m1", map[string]string{"site": "hall"}, "temp")
		e.First, e.Last = noon.Add(-time.Minute).UnixMilli(), noon.Add(-time.Minute).UnixMilli()
		if lacks {
			e.Labels = []telemetry.Label{catalog.Partial}
		}
		s.world.Catalog.AddPage("acme", e)
		for _, match := range []string{`extra`, `{__name__="extra",site="hall"}`} {
			for name, want := range map[string]string{"__name__": `["extra"]`, "site": `["hall"]`} {
				r := s.ask(t, "/api/v1/label/"+name+"/values", "match[]", match)
				require.Equal(t, lacks, r.header.Get("X-Binnacle-Source") != none)
				if lacks {
					require.JSONEq(t, want, string(r.Data))
				}
			}
		}
		r := s.ask(t, "/api/v1/query", "query", `extra{site="hall"}`, "time", noon.Format(time.RFC3339))
		require.Equal(t, lacks, strings.Contains(string(r.Data), `"7"`), string(r.Data))
	}
}

// Lists of series from the catalog cost no readings, and what they take counts as any other result.
func TestSeriesFromTheCatalog(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *prom.Config) { c.MemoryBytes = 4000 })
	s.world.Chunk(record(1, "m1", noon.Add(-time.Hour), nil, float("temp", 1), float("n", 1),
		telemetry.Field{Metric: "note", Value: telemetry.TextValue("hot")}))
	s.world.Catalog.AddPage("acme", storetest.Entry("m1", map[string]string{"site": "hall"}))
	r := s.ask(t, "/api/v1/series", "match[]", `{site="hall"}`)
	require.JSONEq(t, `[{"__name__":"n","device":"m1","site":"hall"},{"__name__":"temp","device":"m1","site":"hall"}]`,
		string(r.Data))
	require.Equal(t, "rollups=0, chunks=0, heads=0", r.header.Get("X-Binnacle-Source"))
	for d := range 50 {
		s.world.Chunk(record(int64(2+d), fmt.Sprintf("n%d", d), noon.Add(-time.Hour), nil, float("temp", 1)))
	}
	s.world.Now = s.world.Now.Add(time.Minute)
	r = s.ask(t, "/api/v1/series", "match[]", `{__name__=~".+"}`)
	require.Equal(t, 422, r.status, string(r.Data))
	require.Contains(t, r.Error, "memory")
}

// Of a list of series with a limit only what may be answered is kept, and what is answered is the same.
func TestLimitedSeriesAreTheFirst(t *testing.T) {
	s := newServer(t, func(_ *query.Config, p *prom.Config) { p.MemoryBytes = 1200 << 10 })
	for d := range 6000 {
		device, tags := fmt.Sprintf("d%05d", d*7919%6000), map[string]string{"site": fmt.Sprint("s", d%3)}
		e := storetest.Entry(device, tags, "a", "b", "c")
		e.First, e.Last = noon.Add(-time.Hour).UnixMilli(), noon.UnixMilli()
		s.world.Catalog.AddPage("acme", e)
	}
	list := func(parameters ...string) (out []map[string]string, answer response) {
		answer = s.ask(t, "/api/v1/series", append(parameters, "end", fmt.Sprint(noon.Unix()))...)
		if answer.status == http.StatusOK {
			require.NoError(t, json.Unmarshal(answer.Data, &out))
		}
		return out, answer
	}
	_, refused := list("match[]", `{__name__!=""}`)
	require.Equal(t, http.StatusUnprocessableEntity, refused.status)
	require.Contains(t, refused.Error, "match[]")
	want, _ := list("match[]", "a")
	require.Len(t, want, 6000)
	for _, limit := range []int{1, 100, 1000} {
		got, answer := list("match[]", `{__name__!=""}`, "match[]", `{site="s1"}`, "limit", fmt.Sprint(limit))
		require.Equal(t, want[:limit], got)
		require.Contains(t, answer.Warnings, "results truncated due to limit")
	}
	all, answer := list("match[]", "a", "limit", "6000")
	require.Equal(t, want, all)
	require.NotContains(t, answer.Warnings, "results truncated due to limit")
}

// A list of many selectors, each of which looks through all devices, ends with its request.
func TestListEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	listed := 0
	err := prom.ListsUntil(ctx, []string{"a", "b", "c"}, func() { listed++; cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, listed)
}
