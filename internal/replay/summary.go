package replay

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"binnacle/internal/telemetry"
)

// maxLineNumbers is how many bad lines a Summary names.
const maxLineNumbers = 10

// Summary is what a replay did. Counts are of the whole file if Run returned no error; then every record
// is acknowledged.
type Summary struct {
	File   string
	Format Format
	Shift  int64 // milliseconds that were added to every time

	Records     int // acknowledged Kafka records
	Readings    int // good readings among them
	Values      int // of those
	DeadLetters int // records that lack a tenant, a device or else: they end in the dead letters

	BadLines       int   // can't be parsed, and are not published
	BadLineNumbers []int // the first ten, from 1

	// DuplicateInstants are the readings that give a series a value at an instant at which it has one from
	// earlier in the file. The later one wins.
	DuplicateInstants int
	// DuplicatesWithin is 0 if the whole file was searched for them, else the number of values back to
	// which at least it was.
	DuplicatesWithin int
}

func (s *Summary) count(e *element) {
	switch e.fate {
	case good:
		s.Readings++
		s.Values += len(e.reading.Fields)
	case deadLetter:
		s.DeadLetters++
	case bad:
		s.bad(e.line)
	}
}

func (s *Summary) bad(line int) {
	s.BadLines++
	if len(s.BadLineNumbers) < maxLineNumbers {
		s.BadLineNumbers = append(s.BadLineNumbers, line)
	}
}

// WriteTo prints the summary for people.
func (s Summary) WriteTo(w io.Writer) (int64, error) {
	var out strings.Builder
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(name string, n int, note string) {
		if note != "" {
			note = "\t" + note
		}
		fmt.Fprintf(t, "%s\t%d%s\n", name, n, note)
	}
	fmt.Fprintf(t, "%s\t%s\n", s.File, s.Format)
	if s.Shift != 0 {
		fmt.Fprintf(t, "times shifted by\t%+.3f days\n", float64(s.Shift)/telemetry.DayMillis)
	}
	row("records", s.Records, "")
	row("readings", s.Readings, "")
	row("values", s.Values, "")
	row("bad lines", s.BadLines, s.lineNumbers())
	row("duplicate instants", s.DuplicateInstants, s.within())
	if s.DeadLetters > 0 {
		row("dead letters", s.DeadLetters, "of the records: they lack what a reading must have")
	}
	if err := t.Flush(); err != nil {
		return 0, err
	}
	n, err := io.WriteString(w, out.String())
	return int64(n), err
}

func (s Summary) lineNumbers() string {
	if s.BadLines == 0 {
		return ""
	}
	more := ""
	if s.BadLines > len(s.BadLineNumbers) {
		more = ", …"
	}
	return "line " + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.BadLineNumbers), " ", ", "), "[]") + more
}

func (s Summary) within() string {
	switch {
	case s.DuplicatesWithin > 0:
		return fmt.Sprintf("the later one wins; looked for among the last %d values", s.DuplicatesWithin)
	case s.DuplicateInstants > 0:
		return "the later one wins"
	}
	return ""
}
