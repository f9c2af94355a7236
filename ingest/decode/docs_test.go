package decode_test

import (
	"os"
	"regexp"
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// The table of reasons in the format page and the list in the code are the same.
func TestReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/message.md")
	require.NoError(t, err)
	table := regexp.MustCompile(`(?s)\| reason \| meaning \|\n.*?\n\n`).Find(page)
	var documented []decode.Reason
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllSubmatch(table, -1) {
		documented = append(documented, decode.Reason(row[1]))
	}
	require.Equal(t, decode.Reasons(), documented)
}

// The page's JSON example is read as the page says.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/message.md")
	require.NoError(t, err)
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)[1]
	got := decodeJSON(t, string(example))
	require.Empty(t, got.Bad)
	require.Len(t, got.Readings[0].Fields, 5)
	require.EqualValues(t, 9007199254740993, got.Readings[0].Fields[2].Value.Int())
}
