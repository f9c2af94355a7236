package loadtest

import (
	"bytes"
	"fmt"
	"time"

	"binnacle/internal/text/report"
)

// flood writes a line for each case, and the conclusions.
func flood(b *bytes.Buffer, f *FloodReport) {
	fmt.Fprintf(b, "\nFLOOD: what a loud tenant costs its neighbours in a partition\n\n")
	report.Paragraph(b, "", fmt.Sprintf("For %s it sends %s readings/s beside their %d and may have %s; the partition's "+
		"loop takes %s. What is deferred takes %s of the time of what is taken, what is refused %s.",
		seconds(f.For.Seconds()), number(f.Rate), quietTrucks, number(f.Limit), number(f.Takes), percent(deferredShare),
		percent(refuseShare)))
	b.WriteByte('\n')
	rows := [][]string{
		{"", "neighbours, from the log to a query", "", "", "dead", "RU per million", "lag at most", "floor, at most"},
		{"", "p50", "p99", "longest", "letters", "values, modelled", "readings", "behind"},
	}
	for _, c := range f.Cases {
		rows = append(rows, []string{
			c.Case, lapse(c.P50), lapse(c.P99), lapse(c.Longest), report.Thousands(int64(c.DeadLetters)), number(c.PerMillion),
			report.Thousands(int64(c.Lag)), lapse(c.Floor),
		})
	}
	report.Grid(b, rows)
	b.WriteByte('\n')
	rows = [][]string{
		{"", "the loud one, readings/s", "", "readings", "", "", "waited"},
		{"", "sent", "let through", "waited", "refused", "stored", "at most"},
	}
	for _, c := range f.Cases[1:] {
		rows = append(rows, []string{
			c.Case, number(c.Sent), number(c.Admitted), report.Thousands(int64(c.Deferred)), report.Thousands(int64(c.Refused)),
			report.Thousands(int64(c.Stored)), held(c.DeferredSeconds),
		})
	}
	report.Grid(b, rows)
	b.WriteByte('\n')
	for _, s := range f.conclusions() {
		report.Paragraph(b, "  - ", s)
	}
}

// lapse returns a length of time with as many digits as mean something.
func lapse(s float64) string {
	switch {
	case s < 0.00095:
		return fmt.Sprintf("%.1f ms", 1000*s)
	case s < 0.9995:
		return fmt.Sprintf("%.0f ms", 1000*s)
	case s < 9.95:
		return fmt.Sprintf("%.1f s", s)
	}
	return (time.Duration(s+0.5) * time.Second).String()
}

// held returns how long something has waited, if anything did.
func held(s float64) string {
	if s == 0 {
		return "-"
	}
	return lapse(s)
}

// conclusions says what follows from the figures.
func (f *FloodReport) conclusions() (out []string) {
	quiet, free := f.Cases[0], f.Cases[1]
	out = append(out, fmt.Sprintf("Without a limit a partition is one queue: neighbours wait with the loud one, up "+
		"to %s, and for %s after it is quiet again.", lapse(free.Longest), lapse(free.Until)))
	for _, c := range f.Cases[2:] {
		if c.Case == floodFair {
			out = append(out, fmt.Sprintf("Without a limit, and shared out fairly: the neighbours' p99 is %s, beside %s; "+
				"the loud one is deferred for up to %s. All of it is taken in the end; the floor, which waits "+
				"for it, is up to %s behind.", lapse(c.P99), lapse(free.P99), lapse(c.DeferredSeconds), lapse(c.Floor)))
			continue
		}
		text := fmt.Sprintf("%s: the neighbours' p99 is %s, beside %s when they are alone; ", c.about(), lapse(c.P99),
			lapse(quiet.P99))
		text += fmt.Sprintf("the loud one gets %s readings/s of the %s that it may.", number(c.Admitted), number(f.Limit))
		switch {
		case c.Deferred > 0 && c.Refused > 0:
			text += fmt.Sprintf(" What has not been paid for after %s is refused, so the floor, which waits for it, is never "+
				"more than %s behind.", seconds(f.HeldFor.Seconds()), lapse(c.Floor))
		case c.Deferred > 0:
			text += fmt.Sprintf(" All of it is taken in the end; the floor, which waits for it, is up to %s behind.",
				lapse(c.Floor))
		}
		out = append(out, text)
	}
	return out
}

// about names a case in a sentence.
func (c FloodResult) about() string {
	if c.Case == floodRefuse {
		return "With a limit, and refused at once what is above it"
	}
	return "With a limit, and delayed what is above it"
}
