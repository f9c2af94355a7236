package archtest_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"binnacle/internal/archtest"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// Imports point down, libraries stay in their rooms, the domain is pure: see rules.go.
func TestImportsPointDown(t *testing.T) {
	packages, err := archtest.Load(root)
	require.NoError(t, err)
	require.Greater(t, len(packages), 20)
	require.Empty(t, archtest.Faults(packages))
}

// The top of the tree is what a newcomer reads first.
func TestNothingStrayAtTheTop(t *testing.T) {
	allowed := []string{
		"cmd", "ingest", "binning", "sharding", "query", "deploy", "internal", "docs",
		"go.mod", "go.sum", "README.md", "LICENSE", "Makefile", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
	}
	for _, f := range tracked(t) {
		top, _, _ := strings.Cut(f, "/")
		require.True(t, strings.HasPrefix(top, ".") || slices.Contains(allowed, top), "%s stands at the top", top)
	}
}

// tracked are the files of the checkout, by their path from its top.
func tracked(t *testing.T) []string {
	out, err := exec.Command("git", "-C", root, "ls-files").Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// testNames are the names of all tests of the project.
func testNames(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			names[string(m[1])] = true
		}
		return err
	}))
	return names
}

// The documents that promise something name the tests that hold it: each of them exists.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	tests := testNames(t)
	for _, doc := range []string{"docs/ARCHITECTURE.md", "docs/protocol.md"} {
		text, err := os.ReadFile(filepath.Join(root, doc))
		require.NoError(t, err)
		named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1)
		require.NotEmpty(t, named, doc)
		for _, n := range named {
			require.True(t, tests[n], "%s names %s, which is no test", doc, n)
		}
	}
}
