package architecture_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pages name the files that do what they say: each of them exists. Decision records are history.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	files := tracked(t)
	rooms := map[string]string{"docs/reference/emulator.md": "internal/lab/emulator"} // names its files from there
	count := 0
	for _, doc := range files {
		record := strings.HasPrefix(doc, "docs/internals/adr/")
		if record || !strings.HasPrefix(doc, "docs/") || !strings.HasSuffix(doc, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, doc))
		require.NoError(t, err)
		for _, named := range namedFiles(string(text)) {
			count++
			exists := slices.ContainsFunc([]string{named, rooms[doc] + "/" + named}, func(path string) bool {
				return slices.ContainsFunc(files, func(f string) bool {
					return f == path || strings.HasPrefix(f, path+"/")
				})
			})
			require.True(t, exists, "%s names %s, which does not exist", doc, named)
		}
	}
	require.Greater(t, count, 40)
}

// namedFiles returns the paths that a page names as code: Go files, and whatever lies below a folder of the top.
// Braces stand for several, as in a shell.
func namedFiles(page string) (paths []string) {
	for _, m := range regexp.MustCompile("`([\\w./{},-]+)`").FindAllStringSubmatch(page, -1) {
		top, _, below := strings.Cut(m[1], "/")
		folders := []string{"cmd", "ingest", "binning", "sharding", "query", "deploy", "internal", "docs"}
		if !strings.HasSuffix(m[1], ".go") && !(below && slices.Contains(folders, top)) {
			continue
		}
		before, rest, _ := strings.Cut(strings.TrimSuffix(m[1], "/"), "{")
		alternatives, after, _ := strings.Cut(rest, "}")
		for alternative := range strings.SplitSeq(alternatives, ",") {
			paths = append(paths, before+alternative+after)
		}
	}
	return paths
}

func TestNamedFiles(t *testing.T) {
	page := "`ingest/{a,b}.go`, `c.go`, `query/`, `deploy/x.yaml`; not `x.csv`, `tenant/device`, or ingest/d.go"
	require.Equal(t, []string{"ingest/a.go", "ingest/b.go", "c.go", "query", "deploy/x.yaml"}, namedFiles(page))
}

// Links of pages to pages and to their headings lead somewhere.
func TestLinksOfDocuments(t *testing.T) {
	block, span := regexp.MustCompile("(?s)```.*?```"), regexp.MustCompile("`[^`\n]*`")
	count := 0
	for _, doc := range tracked(t) {
		if !strings.HasSuffix(doc, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, doc))
		require.NoError(t, err)
		prose := span.ReplaceAllString(block.ReplaceAllString(string(text), ""), "")
		for _, link := range regexp.MustCompile(`\]\(([^)\s:]+)\)`).FindAllStringSubmatch(prose, -1) {
			count++
			file, heading, _ := strings.Cut(link[1], "#")
			target := filepath.Join(root, doc)
			if file != "" {
				target = filepath.Join(filepath.Dir(target), file)
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", doc, link[1])
			if heading == "" || !strings.HasSuffix(target, ".md") {
				continue
			}
			page, err := os.ReadFile(target)
			require.NoError(t, err)
			require.Contains(t, headings(block.ReplaceAllString(string(page), "")), heading, "%s links to %s", doc, link[1])
		}
	}
	require.Greater(t, count, 100)
}

// headings returns the names by which links reach the headings of a page.
func headings(page string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		text = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`).ReplaceAllString(strings.ToLower(text), "")
		names = append(names, strings.ReplaceAll(text, " ", "-"))
	}
	return names
}
