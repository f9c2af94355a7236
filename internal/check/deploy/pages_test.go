package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var links = regexp.MustCompile(`\]\(([^)#:]+\.[a-z]+)[^)]*\)`)

// The pages name metrics that there are.
func TestPagesNameMetricsThatExist(t *testing.T) {
	c := readCode(t)
	var pages []string
	for _, dir := range []string{"docs/*/*.md", "docs/*/*/*.md", "deploy/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, dir))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	require.Greater(t, len(pages), 20)
	name := regexp.MustCompile(`\bbinnacle_[a-z]+_[a-z_]+\b`)
	for _, p := range pages {
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		for _, m := range name.FindAllString(string(text), -1) {
			require.True(t, c.metrics[m] || c.metrics[m+"_count"], "%s names %s, which nothing registers", p, m)
		}
	}
}
