package architecture_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// Imports point down, libraries stay in their rooms, the domain is pure: see layers_test.go.
func TestImportsPointDown(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	require.Greater(t, len(packages), 20)
	require.Empty(t, Faults(packages))
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

// The documents name the tests that hold what they promise: each of them exists, here or, as .ci says, in azcosmos.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	name := regexp.MustCompile(`\bTest[A-Z]\w+`)
	tests := testNames(t)
	theirs, err := os.ReadFile(filepath.Join(root, ".ci/azcosmos-conformance"))
	require.NoError(t, err)
	for _, n := range name.FindAllString(string(theirs), -1) {
		tests[n] = true
	}
	count := 0
	for _, doc := range tracked(t) {
		if !strings.HasSuffix(doc, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, doc))
		require.NoError(t, err)
		for _, n := range name.FindAllString(string(text), -1) {
			count++
			require.True(t, tests[n], "%s names %s, which is no test", doc, n)
		}
	}
	require.Greater(t, count, 20)
}

// Invariants are numbered once, in docs/ARCHITECTURE.md: each names a test, and nobody speaks of one that is not
// there.
func TestInvariants(t *testing.T) {
	tests := testNames(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md"))
	require.NoError(t, err)
	known := map[string]bool{"6": true, "10": true} // the page says why they do not hold
	last := 0
	for _, row := range regexp.MustCompile(`(?m)^\| I(\d+) \|.*\| (.*) \|$`).FindAllStringSubmatch(string(text), -1) {
		number, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		require.Greater(t, number, last, "I%d: in order, each once", number)
		last, known[row[1]] = number, true
		for name := range strings.SplitSeq(row[2], ", ") {
			require.True(t, tests[name], "I%d names %s, which is no test", number, name)
		}
	}
	require.Greater(t, last, 10)
	for _, f := range tracked(t) {
		if !strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, ".md") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, f))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`\bI(\d{1,2})\b`).FindAllStringSubmatch(string(source), -1) {
			require.True(t, known[m[1]], "%s speaks of invariant I%s, which docs/ARCHITECTURE.md does not have", f, m[1])
		}
	}
}

func TestLinesFit(t *testing.T) {
	var faults []string
	for _, f := range tracked(t) {
		if source, err := os.ReadFile(filepath.Join(root, f)); err == nil && strings.HasSuffix(f, ".go") {
			faults = append(faults, LongLines(f, string(source))...)
		}
	}
	require.Empty(t, faults)
}

func TestErrorsHaveOneLogKey(t *testing.T) {
	var faults []string
	for _, f := range tracked(t) {
		if source, err := os.ReadFile(filepath.Join(root, f)); err == nil && strings.HasSuffix(f, ".go") {
			found, err := LogKeys(f, string(source))
			require.NoError(t, err)
			faults = append(faults, found...)
		}
	}
	require.Empty(t, faults)
}
