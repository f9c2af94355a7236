package architecture_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The house stays small. A change that needs more lines says so by moving these figures; one that needs fewer moves
// them too.
const (
	// mostLines is the lines of Go outside tests.
	mostLines = 130_424
	// mostProductLines is the part of mostLines outside internal/lab.
	mostProductLines = 103_925
	// mostFolders is the folders in internal.
	mostFolders = 24
)

func TestTheHouseIsSmall(t *testing.T) {
	lines, product := 0, 0
	var folders []string
	for _, f := range tracked(t) {
		if !strings.HasSuffix(f, ".go") || strings.HasSuffix(f, "_test.go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, f))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		n := strings.Count(string(source), "\n")
		lines += n
		if !strings.HasPrefix(f, "internal/lab/") {
			product += n
		}
		if below, ok := strings.CutPrefix(f, "internal/"); ok {
			folder, _, _ := strings.Cut(below, "/")
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	t.Logf("%d lines of Go outside tests, %d of them outside internal/lab; %d folders in internal/", lines, product,
		len(folders)+1) // and check, which has tests alone
	require.LessOrEqual(t, lines, mostLines)
	require.LessOrEqual(t, product, mostProductLines)
	require.LessOrEqual(t, len(folders)+1, mostFolders, "%v", folders)
}
