package loadtest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"binnacle/internal/lab/loadtest"

	"github.com/stretchr/testify/require"
)

// The page of a run stands for itself: it names nothing that is elsewhere, the same seed gives the same bytes, and its
// traces are of what the report says.
func TestPage(t *testing.T) {
	cfg := small(func(c *loadtest.Config) {
		c.Scenarios = []loadtest.Scenario{loadtest.Whale}
		c.Layouts = []loadtest.Layout{loadtest.ByDate, loadtest.Binnacle, loadtest.Balanced}
		c.Devices, c.Interval, c.Sample, c.Hold, c.Window = 200, 10*time.Second, 20*time.Second, time.Minute, time.Minute
	})
	page := func() (loadtest.Report, string) {
		r := run(t, cfg)
		r.Command = "binnacle loadtest --scenario whale --html report.html"
		var b bytes.Buffer
		require.NoError(t, loadtest.HTML(&b, r))
		return r, b.String()
	}
	r, first := page()
	_, second := page()
	require.True(t, first == second)
	require.Empty(t, regexp.MustCompile(`(src|href)=|url\(|@import|fetch\(|XMLHttpRequest`).FindAllString(first, -1))
	require.True(t, strings.Contains(first, "default-src 'none'"), "the browser lets it load nothing")
	require.True(t, strings.Contains(first, r.Command))

	fates := map[loadtest.Layout][3]int{}
	for _, x := range r.Outcomes[0].Results {
		trace, rus, stored, throttled, keys := x.Trace, 0.0, 0.0, 0.0, 0.0
		for _, p := range trace.Partitions {
			for c := range p.RUs {
				rus, throttled = rus+p.RUs[c], throttled+p.Throttled[c]
				require.LessOrEqual(t, p.RUs[c], x.Bought/5+20, "a second of a partition ends with the write that exceeds it")
			}
			for _, k := range p.Keys {
				for _, v := range k.RUs {
					keys += v
				}
			}
		}
		require.InEpsilon(t, rus, keys, 0.01, "what keys take is what partitions take: %s", x.Layout)
		for _, v := range trace.Stored {
			stored += v
		}
		require.InEpsilon(t, x.Accepted, stored/float64(len(trace.Stored)), 0.01)
		require.Equal(t, x.Throttled > 0, throttled > 0)
		n := fates[x.Layout]
		for _, m := range trace.Marks {
			require.Less(t, m[1], 5.0)
			n[int(m[2])]++
		}
		fates[x.Layout] = n
	}
	require.Positive(t, fates[loadtest.ByDate][loadtest.Refused])
	require.Positive(t, fates[loadtest.ByDate][loadtest.StoredLate])
	require.Positive(t, fates[loadtest.Balanced][loadtest.StoredAtOnce])
	require.Zero(t, fates[loadtest.Binnacle][loadtest.Refused])
}

// The pages that the guide links have the style and the script of this code, and the command that makes them again:
// `make report` runs it.
func TestLinkedPages(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/start/reports/loadtest-*.html")
	require.NoError(t, err)
	require.Len(t, pages, 2)
	rules, err := os.ReadFile("../../../Makefile")
	require.NoError(t, err)
	guide, err := os.ReadFile("../../../docs/start/demonstrate.md")
	require.NoError(t, err)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, part := range []string{"page/report.css", "page/report.js"} {
			b, err := os.ReadFile(part)
			require.NoError(t, err)
			require.True(t, bytes.Contains(text, b), "%s lacks the present %s: make report", page, part)
		}
		name := filepath.Base(page)
		scenario := strings.TrimSuffix(strings.TrimPrefix(name, "loadtest-"), ".html")
		command := "binnacle loadtest --scenario " + scenario + " --html "
		require.True(t, bytes.Contains(text, []byte(command+"report.html")), page)
		require.True(t, bytes.Contains(rules, []byte(command+"docs/start/reports/"+name)), page)
		require.True(t, bytes.Contains(guide, []byte("reports/"+name)), page)
	}
}
