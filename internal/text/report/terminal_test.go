package report_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"binnacle/internal/text/report"

	"github.com/stretchr/testify/require"
)

// obeys reports whether a terminal may obey a character.
func obeys(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028 || r == 0x2029
}

// hostile has every character that a terminal may obey, and some that it may show.
func hostile() string {
	var out strings.Builder
	for r := range rune(0x2100) {
		if obeys(r) {
			out.WriteRune(r)
		}
	}
	return out.String() + "Größe 機械 👩‍🔧"
}

// obeyed returns the characters of what was written that a terminal may obey, without ends of lines and tabs.
func obeyed(text string) (out []rune) {
	for _, r := range text {
		if r != '\n' && r != '\t' && obeys(r) {
			out = append(out, r)
		}
	}
	return out
}

// Whatever is written in whatever pieces, a terminal obeys nothing of it; text, lines and JSON stay what they are.
func TestTerminalObeysNothing(t *testing.T) {
	text := "a\tb\n" + hostile() + "\x9b31m \xff\n"
	for _, piece := range []int{1, 2, 3, len(text)} {
		var b strings.Builder
		w := report.Terminal(&b)
		for rest := text; rest != ""; rest = rest[min(piece, len(rest)):] {
			n, err := w.Write([]byte(rest[:min(piece, len(rest))]))
			require.NoError(t, err)
			require.Equal(t, min(piece, len(rest)), n)
		}
		require.Empty(t, obeyed(b.String()))
		require.True(t, strings.HasPrefix(b.String(), "a\tb\n"))
		require.True(t, strings.HasSuffix(b.String(), `Größe 機械 👩‍🔧\x9b31m \xff`+"\n"))
	}
	want := map[string]string{hostile(): hostile()}
	var b strings.Builder
	require.NoError(t, json.NewEncoder(report.Terminal(&b)).Encode(want))
	require.Empty(t, obeyed(b.String()))
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	require.Equal(t, want, got)
}

// A cell stays in its line and column, whatever is in it.
func TestCellsStayInTheirLine(t *testing.T) {
	for _, write := range []func(*strings.Builder, [][]string) error{
		func(b *strings.Builder, rows [][]string) error { return report.List(b, rows) },
		func(b *strings.Builder, rows [][]string) error { return report.Grid(b, rows) },
	} {
		var b strings.Builder
		require.NoError(t, write(&b, [][]string{{"x\ny", "1"}, {hostile(), "2"}}))
		require.Equal(t, 2, strings.Count(b.String(), "\n"))
		require.Empty(t, obeyed(b.String()))
		lines := strings.Split(b.String(), "\n")
		require.Contains(t, lines[0], `x\u000ay`)
		require.NotContains(t, lines[1], "\t")
	}
}
