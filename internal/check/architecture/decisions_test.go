package architecture_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// MaxRecords is how many decision records there may be: superseded ones are merged into the record that replaced them.
const MaxRecords = 25

// MaxRecordWords is how many words a decision record may have.
const MaxRecordWords = 300

// Decision records are few and short. Each has one number, with which its text begins too.
func TestDecisionsAreNumberedOnce(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/internals/adr/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	require.LessOrEqual(t, len(files), MaxRecords)
	for i, file := range files {
		number, _, _ := strings.Cut(filepath.Base(file), "-")
		require.Equal(t, fmt.Sprintf("%04d", i+1), number, file)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), fmt.Sprintf("# %d. ", i+1)), "%s begins with another number", file)
		require.LessOrEqual(t, len(strings.Fields(string(text))), MaxRecordWords, "%s is too long", file)
	}
}
