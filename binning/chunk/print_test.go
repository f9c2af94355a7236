package chunk_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"binnacle/binning/chunk"

	"github.com/stretchr/testify/require"
)

func parseGolden(t *testing.T, name string) *chunk.Chunk {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	c, err := chunk.Parse(doc)
	require.NoError(t, err)
	return c
}

func TestPrint(t *testing.T) {
	for _, name := range []string{"v1-large", "v1-labels-and-kinds", "v1-wide"} {
		var b bytes.Buffer
		require.NoError(t, parseGolden(t, name+".json").Print(&b, 5))
		path := filepath.Join("testdata", name+".print")
		if *update {
			require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String())
	}
}

func TestPrintStopsAtRowsAndErrors(t *testing.T) {
	c := parseGolden(t, "v1-small.json")
	for _, v := range []struct{ rows, lines int }{{-1, 0}, {0, 0}, {1, 3}, {20, 22}, {1000, 22}} {
		var b bytes.Buffer
		require.NoError(t, c.Print(&b, v.rows))
		require.Equal(t, 7+1+1+3+v.lines, strings.Count(b.String(), "\n"), b.String())
	}
	broken := errors.New("pipe closed")
	require.ErrorIs(t, c.Print(failing{broken}, 1), broken)

	doc, err := os.ReadFile(filepath.Join("testdata", "v1-small.json"))
	require.NoError(t, err)
	damaged, err := chunk.Parse(bytes.Replace(doc, []byte(`"data":"A0oU`), []byte(`"data":"A0oV`), 1))
	require.NoError(t, err)
	var b bytes.Buffer
	require.ErrorIs(t, damaged.Print(&b, 1), chunk.ErrCorrupt)
	require.Contains(t, b.String(), "20261120.1.00003.000017")
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
