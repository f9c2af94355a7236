package architecture_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A decision has a number of its own, with which its text begins too.
func TestDecisionsAreNumberedOnce(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/internals/adr/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, file := range files {
		number, _, _ := strings.Cut(filepath.Base(file), "-")
		require.Equal(t, fmt.Sprintf("%04d", i+1), number, file)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), fmt.Sprintf("# %d. ", i+1)), "%s begins with another number", file)
	}
}
