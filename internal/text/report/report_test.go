package report_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"binnacle/internal/text/report"

	"github.com/stretchr/testify/require"
)

func TestGrid(t *testing.T) {
	var b strings.Builder
	require.NoError(t, report.Grid(&b, [][]string{{"", "offered", "429"}, {"by date", "1,200", "80 %", "grainy"},
		{"Größe", "7"}, {"機械", "7"}}))
	require.Equal(t, ""+
		"           offered   429\n"+
		"  by date    1,200  80 %  grainy\n"+
		"  Größe          7\n"+
		"  機械           7\n", b.String())
}

func TestList(t *testing.T) {
	var b strings.Builder
	require.NoError(t, report.List(&b, [][]string{{"records", "22695"}, {"bad lines", "2", "line 2, 7"}, {},
		{"all that was found"}}))
	require.Equal(t, "records    22695\nbad lines  2  line 2, 7\n\nall that was found\n", b.String())
}

func TestParagraph(t *testing.T) {
	var b strings.Builder
	word := strings.Repeat("x", 36)
	require.NoError(t, report.Paragraph(&b, "  – ", strings.Repeat(word+" ", 4)))
	require.Equal(t, "  – "+word+" "+word+" "+word+"\n    "+word+"\n", b.String())
	b.Reset()
	long := strings.Repeat("y", 200)
	require.NoError(t, report.Paragraph(&b, "", long+" end"))
	require.Equal(t, long+"\nend\n", b.String())
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 12: "12", 999: "999", 1000: "1,000", 123456: "123,456",
		-1234567: "-1,234,567"} {
		require.Equal(t, want, report.Thousands(n))
	}
	require.Equal(t, "-9,223,372,036,854,775,808", report.Thousands(int64(math.MinInt64)))
	require.Equal(t, "23.36", report.Dollars(23.36))
	require.Equal(t, "-1,234,567.90", report.Dollars(-1234567.899))
}

// What can't be written is said.
func TestWriteErrors(t *testing.T) {
	full := errors.New("no space left")
	for _, err := range []error{
		report.Grid(broken{full}, [][]string{{"a"}}), report.List(broken{full}, [][]string{{"a"}}),
		report.Paragraph(broken{full}, "", "a"),
	} {
		require.ErrorIs(t, err, full)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }
