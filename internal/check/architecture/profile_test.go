package architecture_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// At most a tenth of the packages in the profile are gone. A function that has moved gains nothing by the profile; make
// profile measures again.
func TestProfileIsOfThisCode(t *testing.T) {
	file, err := os.Open(filepath.Join(root, "deploy/cpu.pgo"))
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it is read only
	packed, err := gzip.NewReader(file)
	require.NoError(t, err)
	names, err := io.ReadAll(packed)
	require.NoError(t, err)
	packages := map[string]bool{}
	for _, m := range regexp.MustCompile(`binnacle/([a-z/]+)/\w+\.go`).FindAllSubmatch(names, -1) {
		packages[string(m[1])] = true
	}
	require.Greater(t, len(packages), 20)
	gone := []string{}
	for p := range packages {
		if _, err := os.Stat(filepath.Join(root, p)); err != nil {
			gone = append(gone, p)
		}
	}
	require.LessOrEqual(t, 10*len(gone), len(packages), "%q are gone", gone)
}
