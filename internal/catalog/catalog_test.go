package catalog_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// random makes entries of few names, so that they have much in common.
func random(r *rand.Rand, devices int) catalog.Entry {
	e := catalog.Entry{Device: fmt.Sprintf("d%02d", r.IntN(devices)), First: 1}
	if r.IntN(4) > 0 {
		e.First = r.Int64N(1000) - 500
		e.Last = e.First + r.Int64N(100)
	}
	for range r.IntN(3) {
		e.Metrics = append(e.Metrics, catalog.Metric{Name: fmt.Sprintf("m%d", r.IntN(5)),
			Kind: telemetry.Kind(1 + r.IntN(4)), Unit: []string{"", "Cel"}[r.IntN(2)]})
	}
	for range r.IntN(3) {
		e.Labels = append(e.Labels, telemetry.Label{Name: fmt.Sprintf("l%d", r.IntN(3)), Value: fmt.Sprint(r.IntN(4))})
	}
	for k := range r.IntN(4) {
		e.Tags = append(e.Tags, catalog.Tag{Name: fmt.Sprintf("t%d", k), Value: fmt.Sprint(r.IntN(3)),
			Source: telemetry.Source{Stream: r.Uint32N(2), Partition: r.Int32N(3) - 1,
				Through: r.Int64N(4) << (32 * r.IntN(2))}, Updated: 1 + r.Int64N(9)})
	}
	e.Normalize()
	return e
}

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func all(x *catalog.Index) map[string]catalog.Entry {
	out := make(map[string]catalog.Entry)
	x.Select(nil, 0, x.Blocks()).Each(func(e catalog.Entry) bool {
		out[e.Device] = e
		return true
	})
	return out
}

// A page that is read says what was written, also with nothing in it.
func TestPagesRoundTrip(t *testing.T) {
	r := seeded(t)
	for n := range 60 {
		byID := make(map[string]catalog.Entry)
		for range n * n {
			e := random(r, 4000)
			byID[e.Device] = e
		}
		want := make([]catalog.Entry, 0, len(byID))
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			want = append(want, byID[id])
		}
		p := catalog.Page{Entries: want, Updated: 17, Replaces: []string{"a"}, Account: "WEST",
			Forget: []catalog.Forgotten{{Device: catalog.Digest("x"), Until: -5}, {Device: 7, Until: 8, Account: "EAST"}}}
		id, doc, err := catalog.Encode(p)
		require.NoError(t, err)
		got, err := catalog.Decode(id, doc)
		require.NoError(t, err)
		for i := range want {
			if want[i].First > want[i].Last {
				want[i].First, want[i].Last = got.Entries[i].First, got.Entries[i].Last
				require.Greater(t, got.Entries[i].First, got.Entries[i].Last)
			}
			require.Equal(t, want[i], got.Entries[i])
		}
		require.Len(t, got.Entries, len(want))
		require.Equal(t, p.Forget, got.Forget)
		require.Equal(t, p.Updated, got.Updated)
		require.Equal(t, p.Account, got.Account)
		again, _, err := catalog.Encode(p)
		require.NoError(t, err)
		require.Equal(t, id, again, "the same page has the same id")
	}
}

// Whatever the order of pages, and however often each is read, the index says the same: what a map would hold.
func TestPageOrderDoesNotMatter(t *testing.T) {
	r := seeded(t)
	for range 200 {
		var pages []catalog.Page
		want := make(map[string]catalog.Entry)
		for told := range int64(1 + r.IntN(8)) {
			p := catalog.Page{Updated: told}
			for range r.IntN(6) {
				e := random(r, 8)
				if slices.ContainsFunc(p.Entries, func(o catalog.Entry) bool { return o.Device == e.Device }) {
					continue
				}
				p.Entries = append(p.Entries, e)
				known, ok := want[e.Device]
				if !ok {
					known = catalog.Entry{Device: e.Device, First: 1}
				}
				known.Merge(e)
				want[e.Device] = known
			}
			pages = append(pages, p)
		}
		var got [2]map[string]catalog.Entry
		for k := range got {
			x := catalog.NewIndex()
			for range 2 {
				for _, i := range r.Perm(len(pages)) {
					require.True(t, x.Add(pages[i]))
				}
			}
			got[k] = all(x)
			for id, e := range got[k] {
				w := want[id]
				if w.First > w.Last {
					require.Greater(t, e.First, e.Last)
					e.First, e.Last = w.First, w.Last
				}
				require.Equal(t, w, e)
			}
			require.Len(t, got[k], len(want))
		}
	}
}

// Pages that are merged into others say what they said.
func TestMergedPagesAreEquivalent(t *testing.T) {
	r := seeded(t)
	x := catalog.NewIndex()
	for range 50 {
		x.Add(catalog.Page{Entries: []catalog.Entry{random(r, 30)}})
	}
	var entries []catalog.Entry
	x.Select(nil, 0, x.Blocks()).Each(func(e catalog.Entry) bool {
		entries = append(entries, e)
		return true
	})
	pages, err := catalog.Pages(entries, 5, "")
	require.NoError(t, err)
	again := catalog.NewIndex()
	for _, p := range pages {
		read, err := catalog.Decode(p.ID, p.Doc)
		require.NoError(t, err)
		again.Add(read)
	}
	want := all(x)
	for id, e := range all(again) {
		if e.First > e.Last {
			e.First, e.Last = want[id].First, want[id].Last
		}
		require.Equal(t, want[id], e)
	}
	require.Equal(t, x.Len(), again.Len())
}

// A device that is forgotten is gone, wherever the page that says so comes, and back with a later page.
func TestForgottenDevices(t *testing.T) {
	told := func(at int64, devices ...string) catalog.Page {
		p := catalog.Page{Updated: at}
		for _, d := range devices {
			p.Entries = append(p.Entries, catalog.Entry{Device: d, First: at, Last: at})
		}
		return p
	}
	forget := catalog.Page{Updated: 20, Forget: []catalog.Forgotten{{Device: catalog.Digest("b"), Until: 20}}}
	pages := []catalog.Page{told(10, "a", "b"), forget, told(20, "b"), told(30, "c")}
	for _, later := range []bool{false, true} {
		if later {
			pages = append(pages, told(21, "b"))
		}
		for range 20 {
			x := catalog.NewIndex()
			order := rand.Perm(len(pages))
			for i := 0; i < len(order); i++ {
				if !x.Add(pages[order[i]]) {
					x, i = x.Emptied(), -1
				}
			}
			devices := []string{"a", "c"}
			if later {
				devices = append(devices, "b")
			}
			require.ElementsMatch(t, devices, x.Devices())
			require.Equal(t, forget.Forget, x.Forgotten())
			if later {
				e, _ := x.Entry("b")
				require.EqualValues(t, 21, e.First)
			}
		}
	}
}

// What was copied from an account is forgotten alone; a release that does not know accounts forgets all of the device.
func TestForgettingOfAnAccount(t *testing.T) {
	page := func(account string, at int64) catalog.Page {
		return catalog.Page{Account: account, Updated: 5, Entries: []catalog.Entry{{Device: "a", First: at, Last: at}}}
	}
	forget := catalog.Page{Forget: []catalog.Forgotten{{Device: catalog.Digest("a"), Account: "EAST", Until: 9}}}
	for account, want := range map[string]int64{"EAST": 1, "": 0} {
		forget.Forget[0].Account = account
		x := catalog.NewIndex()
		require.True(t, x.Add(forget))
		for i, of := range []string{"", "EAST", "WEST"} {
			require.True(t, x.Add(page(of, int64(3+i%2*4))))
		}
		e, isKnown := x.Entry("a")
		require.Equal(t, want == 1, isKnown)
		if isKnown {
			require.Equal(t, []int64{3, 3}, []int64{e.First, e.Last})
		}
		require.Equal(t, forget.Forget, x.Forgotten())
		_, doc, err := catalog.Encode(forget)
		require.NoError(t, err)
		var before struct {
			Forget [][2]string `json:"forget"`
		}
		require.NoError(t, json.Unmarshal(doc, &before))
		require.Equal(t, [][2]string{{fmt.Sprintf("%016x", catalog.Digest("a")), "9"}}, before.Forget)
	}
}

// News is what an index lacks, and once it has that there are none.
func TestDiff(t *testing.T) {
	r := seeded(t)
	x := catalog.NewIndex()
	for i := range int64(500) {
		i++
		e := random(r, 20)
		for k := range e.Tags {
			e.Tags[k].Source = telemetry.Source{Through: i / 2}
		}
		before, known := x.Entry(e.Device)
		news, ok := x.Diff(e, i, true)
		if ok {
			x.Add(catalog.Page{Entries: []catalog.Entry{news}})
		}
		require.True(t, ok || known || e.First > e.Last && len(e.Metrics)+len(e.Labels)+len(e.Tags) == 0)
		after, _ := x.Entry(e.Device)
		for _, tag := range e.Tags {
			got, _ := after.TagLabels().Get(tag.Name)
			require.Equal(t, tag.Value, got, "the last value counts, though the clock stood still")
		}
		before.Merge(catalog.Entry{First: e.First, Last: e.Last, Metrics: e.Metrics, Labels: e.Labels})
		for _, m := range before.Metrics {
			require.True(t, slices.ContainsFunc(after.Metrics, func(o catalog.Metric) bool {
				return m == o || m.Unit == "" && m.Name == o.Name && m.Kind == o.Kind
			}), "%v of %v", m, after.Metrics)
		}
		require.Equal(t, before.Labels, after.Labels)
		_, ok = x.Diff(e, i, true)
		require.False(t, ok)
	}
	_, ok := x.Diff(catalog.Entry{Device: "d01", First: 0, Last: 1 << 40}, 900, false)
	require.False(t, ok, "a last time alone is no news")
	_, ok = x.Diff(catalog.Entry{Device: "erased", First: 1}, 900, true)
	require.False(t, ok, "a device is listed for what it has")
}

// A device that says ever more labels stops being news.
func TestDiffLeavesOutLabelValuesBeyondLimit(t *testing.T) {
	x := catalog.NewIndex()
	for i := range catalog.MaxLabelValues + 20 {
		e := catalog.Entry{Device: "a", First: 1, Labels: []telemetry.Label{{Name: "l", Value: fmt.Sprintf("%04d", i)}}}
		news, ok := x.Diff(e, 1, false)
		require.Equal(t, i < catalog.MaxLabelValues, ok)
		x.Add(catalog.Page{Entries: []catalog.Entry{news}})
	}
	e, _ := x.Entry("a")
	require.Len(t, e.Labels, catalog.MaxLabelValues)
}

// What matchers select is what each of them says of each device.
func TestSelectAgreesWithMatchers(t *testing.T) {
	r := seeded(t)
	x := catalog.NewIndex()
	p := catalog.Page{}
	for i := range 3000 {
		e := random(r, 1)
		e.Device = fmt.Sprintf("d%05d", i*7919%3000)
		if i > 1100 && i < 2200 {
			e.Tags, e.Labels = nil, nil // blocks of nothing
		}
		p.Entries = append(p.Entries, e)
	}
	x.Add(p)
	tagOf := func(e catalog.Entry, name string) string { v, _ := e.TagLabels().Get(name); return v }
	for range 300 {
		var ms []catalog.Matcher
		var conditions []func(catalog.Entry) bool
		for range 1 + r.IntN(3) {
			re := regexp.MustCompile([]string{"^$", "[02]", "^1$", ".+", "^d0.*7$", "m[1-3]"}[r.IntN(6)])
			m := catalog.Matcher{Of: catalog.Property(r.IntN(4)), Match: re.MatchString}
			switch m.Of {
			case catalog.OfDevice:
				if r.IntN(2) == 0 {
					m.Values = []string{"d00007", "d02999", "none"}
					m.Match = func(v string) bool { return slices.Contains(m.Values, v) }
				}
				conditions = append(conditions, func(e catalog.Entry) bool { return m.Match(e.Device) })
			case catalog.OfMetric:
				conditions = append(conditions, func(e catalog.Entry) bool {
					return slices.ContainsFunc(e.MetricNames(), m.Match)
				})
			case catalog.OfTag:
				m.Name = fmt.Sprintf("t%d", r.IntN(5))
				conditions = append(conditions, func(e catalog.Entry) bool { return m.Match(tagOf(e, m.Name)) })
			case catalog.OfName:
				m.Name = []string{"t0", "l1", "none", "exported_t0"}[r.IntN(4)]
				conditions = append(conditions, func(e catalog.Entry) bool {
					return strings.HasPrefix(m.Name, "exported_") || m.Match(tagOf(e, m.Name)) ||
						slices.ContainsFunc(e.Labels, func(l telemetry.Label) bool { return l.Name == m.Name && m.Match(l.Value) })
				})
			}
			ms = append(ms, m)
		}
		var want []string
		for id, e := range all(x) {
			if !slices.ContainsFunc(conditions, func(c func(catalog.Entry) bool) bool { return !c(e) }) {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		s := x.Select(ms, 0, 1)
		s.Union(x.Select(ms, 1, x.Blocks()))
		got := s.Devices()
		slices.Sort(got)
		require.Equal(t, want, append([]string(nil), got...))
		require.Equal(t, len(want), s.Len())
		var listed []string
		for after := ""; ; {
			page := s.After(after, 100)
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				listed = append(listed, e.Device)
			}
			after = listed[len(listed)-1]
		}
		require.Equal(t, want, listed)
	}
}

// Counts are those of the entries.
func TestCountsAgreeWithEntries(t *testing.T) {
	r := seeded(t)
	x := catalog.NewIndex()
	for range 300 {
		x.Add(catalog.Page{Entries: []catalog.Entry{random(r, 90)}})
	}
	half := x.Select([]catalog.Matcher{{Of: catalog.OfDevice, Match: func(s string) bool { return s < "d50" }}}, 0, 1)
	metrics, tags, labels := map[string]int{}, map[string]map[string]int{}, map[string]map[string]bool{}
	half.Each(func(e catalog.Entry) bool {
		for _, m := range e.MetricNames() {
			metrics[m]++
		}
		for _, tag := range e.Tags {
			if tags[tag.Name] == nil {
				tags[tag.Name] = map[string]int{}
			}
			tags[tag.Name][tag.Value]++
		}
		for _, l := range e.Labels {
			if labels[l.Name] == nil {
				labels[l.Name] = map[string]bool{}
			}
			labels[l.Name][l.Value] = true
		}
		return true
	})
	for _, m := range half.Metrics() {
		require.Equal(t, metrics[m.Name], m.Devices)
		require.NotEmpty(t, m.Types)
	}
	require.Len(t, half.Metrics(), len(metrics))
	require.Len(t, half.Tags(), len(tags))
	for _, c := range half.Tags() {
		top, n := half.TagValues(c.Name, 2)
		require.Equal(t, len(tags[c.Name]), n)
		require.Equal(t, c.Values, n)
		sum := 0
		for _, k := range tags[c.Name] {
			sum += k
		}
		require.Equal(t, sum, c.Devices)
		for _, v := range top {
			require.Equal(t, tags[c.Name][v.Name], v.Devices)
		}
		require.True(t, len(top) < 2 || top[0].Devices >= top[1].Devices)
	}
	for _, l := range half.Labels() {
		require.Equal(t, len(labels[l.Name]), l.Values)
	}
}

// Pages of every release are read. Bytes are compared only of what is unpacked: another zstd may pack better.
func TestGoldenPages(t *testing.T) {
	entries := []catalog.Entry{
		{Device: "Gerät 7:x", First: -5, Last: 253402300799999, Metrics: []catalog.Metric{
			{Name: `a"b😀`, Kind: telemetry.Text}, {Name: "velocity", Kind: telemetry.Float, Unit: "km/h"}, {Name: "velocity", Kind: telemetry.Int},
		}, Labels: []telemetry.Label{{Name: "axis"}, {Name: "axis", Value: "x"}},
			Tags: []catalog.Tag{{Name: "fleet", Value: "nord/süd", Updated: 1795183200123},
				{Name: "site", Updated: 1795183200456}}},
		{Device: "truck-0001", First: 1795183200000, Last: 1795183209000, Metrics: []catalog.Metric{
			{Name: "velocity", Kind: telemetry.Float, Unit: "km/h"}},
			Tags: []catalog.Tag{{Name: "fleet", Value: "East", Updated: 1795183200123}}},
		{Device: "truck-0002", First: 1},
	}
	for i := range entries {
		entries[i].Normalize()
	}
	for _, name := range []string{"page.v1.json", "page.v1.sources.json", "page.v1.positions.json"} {
		golden := filepath.Join("testdata", name)
		if *update && name == "page.v1.positions.json" { // the others are of earlier releases
			_, doc, err := catalog.Encode(catalog.Page{Entries: entries, Updated: 1795183200456,
				Replaces: []string{"00"}, Forget: []catalog.Forgotten{{Device: catalog.Digest("gone"), Until: 7}}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(golden, append(doc, '\n'), 0o644))
		}
		doc, err := os.ReadFile(golden)
		require.NoError(t, err)
		p, err := catalog.Decode("x", doc)
		require.NoError(t, err)
		require.Len(t, p.Entries, len(entries))
		for i, e := range p.Entries {
			if e.First > e.Last {
				e.First, e.Last = entries[i].First, entries[i].Last
			}
			require.Equal(t, entries[i], e)
		}
		require.Equal(t, []catalog.Forgotten{{Device: catalog.Digest("gone"), Until: 7}}, p.Forget)
		entries[0].Tags[0].Source = telemetry.Source{Stream: 1, Partition: 2, Through: 300}
		entries[0].Tags[1].Source = telemetry.Source{Stream: 1, Partition: 2, Through: 299}
	}
}

// What is written of a tag that was seen, where the catalog has another: what the log's order asks for (rule W13).
func TestTagsFollowTheLog(t *testing.T) {
	at := func(stream uint32, partition int32, through int64) telemetry.Source {
		return telemetry.Source{Stream: stream, Partition: partition, Through: through}
	}
	known := catalog.Tag{Name: "site", Value: "rome", Source: at(3, 1, 50), Updated: 1000}
	for name, c := range map[string]struct {
		seen catalog.Tag
		want telemetry.Source
	}{
		"later":                  {catalog.Tag{Value: "oslo", Source: at(3, 1, 51)}, at(3, 1, 51)},
		"of a worker that lags":  {catalog.Tag{Value: "oslo", Source: at(3, 1, 49), Updated: 2000}, at(0, 0, 0)},
		"the same":               {catalog.Tag{Value: "rome", Source: at(3, 1, 51)}, at(0, 0, 0)},
		"the same after another": {catalog.Tag{Value: "rome", Source: at(3, 1, 51), Replaces: true}, at(3, 1, 51)},
		"the same before":        {catalog.Tag{Value: "rome", Source: at(3, 1, 50), Replaces: true}, at(0, 0, 0)},
		"of a newer stream":      {catalog.Tag{Value: "oslo", Source: at(4, 0, 1)}, at(4, 0, 1)},
		"of an older one":        {catalog.Tag{Value: "oslo", Source: at(2, 1, 60), Updated: 1000}, at(0, 0, 0)},
		"of a device that moved": {catalog.Tag{Value: "oslo", Source: at(2, 1, 60), Updated: 1001}, at(3, 1, 50)},
		"of another partition":   {catalog.Tag{Value: "oslo", Source: at(3, 0, 60), Updated: 1001}, at(3, 1, 50)},
		"after a release before": {catalog.Tag{Value: "oslo", Source: at(1, 0, 0)}, at(1, 0, 0)},
	} {
		x, before := catalog.NewIndex(), known
		if name == "after a release before" {
			before.Source = telemetry.Source{}
		}
		x.Add(catalog.Page{Entries: []catalog.Entry{{Device: "d", First: 1, Tags: []catalog.Tag{before}}}})
		c.seen.Name = "site"
		diff, ok := x.Diff(catalog.Entry{Device: "d", First: 1, Tags: []catalog.Tag{c.seen}}, 9, false)
		require.Equal(t, c.want != telemetry.Source{}, ok, name)
		if ok {
			want := catalog.Tag{Name: "site", Value: c.seen.Value, Source: c.want, Updated: 1001}
			require.Equal(t, []catalog.Tag{want}, diff.Tags, name)
			x.Add(catalog.Page{Entries: []catalog.Entry{diff}})
			e, _ := x.Entry("d")
			require.Equal(t, diff.Tags, e.Tags, "%s: it counts", name)
		}
	}
}

// Pages that no version writes are refused.
func TestDecodeRefusesInvalidPages(t *testing.T) {
	_, doc, err := catalog.Encode(catalog.Page{Entries: []catalog.Entry{{Device: "a", First: 1, Last: 2}}})
	require.NoError(t, err)
	for name, change := range map[string]func(map[string]any){
		"version": func(d map[string]any) { d["v"] = 2 }, "type": func(d map[string]any) { d["type"] = "chunk" },
		"devices": func(d map[string]any) { d["devices"] = 2 }, "fewer": func(d map[string]any) { d["devices"] = 0 },
		"columns": func(d map[string]any) { d["columns"] = 3 }, "data": func(d map[string]any) { d["data"] = "AAAA" },
		"base64": func(d map[string]any) { d["data"] = "§" }, "sources": func(d map[string]any) { d["sourceColumns"] = 3 },
		"positions": func(d map[string]any) { d["positionColumns"] = 3 },
		"forget":    func(d map[string]any) { d["forget"] = [][]string{{"x", "y"}} },
	} {
		var d map[string]any
		require.NoError(t, json.Unmarshal(doc, &d))
		change(d)
		bad, err := json.Marshal(d)
		require.NoError(t, err)
		_, err = catalog.Decode("x", bad)
		require.ErrorIs(t, err, catalog.ErrCorrupt, name)
	}
	_, _, err = catalog.Encode(catalog.Page{Entries: []catalog.Entry{{Device: "a"}, {Device: "a"}}})
	require.Error(t, err)
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"page.v1.sources.json", "page.v1.positions.json"} {
		doc, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := catalog.Decode("x", doc)
		if err != nil {
			require.ErrorIs(t, err, catalog.ErrCorrupt)
			return
		}
		x := catalog.NewIndex()
		x.Add(p)
		_, _, err = catalog.Encode(p)
		require.NoError(t, err)
	})
}

// FuzzColumns changes what is packed.
func FuzzColumns(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 5 {
		var entries []catalog.Entry
		for i := range 6 {
			e := random(r, 1)
			e.Device = fmt.Sprint(i)
			entries = append(entries, e)
		}
		f.Add(catalog.Columns(entries), 6)
	}
	f.Fuzz(func(t *testing.T, columns []byte, devices int) {
		entries, err := catalog.FromColumns(columns, devices)
		if err != nil {
			require.ErrorIs(t, err, catalog.ErrCorrupt)
			return
		}
		again, err := catalog.FromColumns(catalog.Columns(entries), len(entries))
		require.NoError(t, err)
		require.Equal(t, len(entries), len(again))
	})
}
