package replay

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/report"
)

// maxLineNumbers is how many bad lines a Summary names.
const maxLineNumbers = 10

// Summary is what a replay did. Counts are of the whole file if Run returned no error; then every record
// is acknowledged.
type Summary struct {
	File   string
	Format Format
	Shift  int64 // milliseconds that were added to every time

	Records  int // acknowledged Kafka records
	Readings int // good readings among them
	Values   int // values of the good readings

	BadLines       int    // no readings of an allowed tenant and device: not published
	BadLineNumbers []int  // the first ten, from 1
	FirstBad       string // the error of the first bad line

	Texts     int    // cells of a table that begin like a number and became text
	FirstText string // the first such cell, and its place

	Refusals Refusals // the ingesters' refusals of the records, as far as they have decided
}

func (s *Summary) count(e *element) {
	s.Texts += e.texts
	s.FirstText = cmp.Or(s.FirstText, e.text)
	switch e.outcome {
	case good:
		s.Readings++
		s.Values += len(e.reading.Fields)
	case bad:
		s.bad(e)
	}
}

func (s *Summary) bad(e *element) {
	if s.BadLines++; s.BadLines == 1 {
		s.FirstBad = e.why
	}
	if len(s.BadLineNumbers) < maxLineNumbers {
		s.BadLineNumbers = append(s.BadLineNumbers, e.line)
	}
}

// Print writes the summary for people.
func (s Summary) Print(w io.Writer) error {
	rows := [][]string{{s.File, string(s.Format)}}
	row := func(name string, n int, note string) { rows = append(rows, []string{name, strconv.Itoa(n), note}) }
	if s.Shift != 0 {
		rows = append(rows, []string{"times shifted by", fmt.Sprintf("%+.3f days", float64(s.Shift)/telemetry.DayMillis)})
	}
	row("records", s.Records, "")
	row("readings", s.Readings, "")
	row("values", s.Values, "")
	row("bad lines", s.BadLines, s.lineNumbers())
	if s.Texts > 0 {
		row("text", s.Texts, "cells begin like a number; the first: "+s.FirstText)
	}
	if n := s.Refusals.Records; n > 0 {
		row("refused", n, "by ingesters: they are dead letters")
	}
	return report.List(w, rows)
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
