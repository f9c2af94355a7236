package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

// code is what the sources say of metrics: their names, and all that stands between quotes, label values among it.
type code struct {
	metrics map[string]bool
	words   map[string]bool
}

// readCode reads all sources of the project but tests.
func readCode(t *testing.T) code {
	t.Helper()
	c := code{map[string]bool{}, map[string]bool{}}
	quoted := regexp.MustCompile(`"([^"\\\n]*)"`)
	histogram := regexp.MustCompile(`NewHistogram(?:Vec)?\(prometheus\.HistogramOpts\{\s*Name:\s*"([a-z_]+)"`)
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range quoted.FindAllSubmatch(source, -1) {
			word := string(m[1])
			c.words[word] = true
			if metricName.MatchString(word) {
				c.metrics[word] = true
			}
		}
		for _, m := range histogram.FindAllSubmatch(source, -1) {
			name := string(m[1])
			delete(c.metrics, name) // a query for it finds nothing
			for _, of := range []string{"_bucket", "_sum", "_count"} {
				c.metrics[name+of] = true
			}
		}
		return nil
	}))
	require.Greater(t, len(c.metrics), 30)
	return c
}

var metricName = regexp.MustCompile(`^binnacle_[a-z_]+$`)

// known are metrics that Prometheus and its clients have themselves.
var known = map[string]bool{"up": true}

// valued are labels with values that are constants of the code.
var valued = map[string]bool{"reason": true, "fault": true, "kind": true, "action": true, "tier": true}

// check holds that an expression parses, and that the code has the metrics and label values that it names.
func (c code) check(t *testing.T, expr string) parser.Expr {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	require.NoError(t, err, expr)
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		require.True(t, c.metrics[s.Name] || known[s.Name], "no code registers %s, in %s", s.Name, expr)
		for _, m := range s.LabelMatchers {
			if !valued[m.Name] || strings.HasPrefix(m.Value, "$") {
				continue
			}
			values := []string{m.Value}
			if m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp {
				values = strings.Split(m.Value, "|")
			}
			for _, v := range values {
				require.True(t, c.words[v], "no code says %s=%q, in %s", m.Name, v, expr)
			}
		}
		return nil
	})
	return parsed
}

// A metric that nothing registers is found, and so is a histogram without its suffix and a label's value of nobody's.
func TestCheckFindsUnknownNames(t *testing.T) {
	c := readCode(t)
	require.True(t, c.metrics["binnacle_ingest_lag_records"])
	require.True(t, c.metrics["binnacle_query_duration_seconds_count"])
	require.False(t, c.metrics["binnacle_query_duration_seconds"])
	require.False(t, c.metrics["binnacle_ingest_lag_record"])
	require.True(t, c.words["key-full"])
	require.False(t, c.words["key-"+"filled"])
}

// pause is a duration as Prometheus writes it.
func pause(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	require.NoError(t, err)
	return d
}

// A metric has a reader: a dashboard, an alert, or a page that says what it shows.
func TestMetricsAreRead(t *testing.T) {
	var readers strings.Builder
	for _, dir := range []string{"deploy", "docs"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			readers.Write(text)
			return err
		}))
	}
	read := make(map[string]bool)
	for _, name := range regexp.MustCompile(`binnacle_[a-z_]+`).FindAllString(readers.String(), -1) {
		read[name] = true
	}
	var idle []string
	for name := range readCode(t).metrics {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !read[base] && !read[base+"_bucket"] && !read[base+"_sum"] && !read[base+"_count"] {
			idle = append(idle, base)
		}
	}
	slices.Sort(idle)
	require.Empty(t, slices.Compact(idle))
}
