package chunk_test

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// TestFormatPage holds the worked example of docs/internals/format/chunk.md against the code: the document is what
// Encode writes, and the bytes of its table are those in the document. Nothing in it goes through zstd, so it never
// changes.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "format", "chunk.md"))
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "## A worked example")
	require.True(t, found)
	doc := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindStringSubmatch(example)
	require.Len(t, doc, 2)

	var points []point
	for i, at := range []int64{1795183200123, 1795183201123, 1795183202123, 1795183204123} {
		points = append(points, point{at, "velocity", telemetry.FloatValue([]float64{62.5, 62.6, 62.4, 62.4}[i])})
		if gear := []string{"N", "", "D", "D"}[i]; gear != "" {
			points = append(points, point{at, "gear", telemetry.TextValue(gear)})
		}
	}
	f := frameOf(points)
	h := headerOf(f)
	h.First, h.Through, h.After = 1306001, 1306004, 1306000
	want, err := chunk.Encode(h, f)
	require.NoError(t, err)
	require.Equal(t, string(want), doc[1])
	requireSame(t, f, []byte(doc[1]))

	var listed []byte
	for _, row := range regexp.MustCompile("(?m)^\\| `([0-9a-f ]+)` \\|").FindAllStringSubmatch(example, -1) {
		b, err := hex.DecodeString(strings.ReplaceAll(row[1], " ", ""))
		require.NoError(t, err)
		listed = append(listed, b...)
	}
	require.Contains(t, doc[1], `"data":"`+base64.StdEncoding.EncodeToString(listed)+`"`)
}
