package loadtest

import (
	"bytes"
	"fmt"
	"time"

	"binnacle/internal/text/report"
)

func flood(b *bytes.Buffer, f *FloodReport) {
	fmt.Fprintf(b, "\nFLOOD: what a loud tenant costs its neighbours in a partition\n\n")
	report.Paragraph(b, "", fmt.Sprintf("For %s it sends %s readings/s beside their %d and may have %s; the partition's "+
		"loop takes %s. What is deferred takes %s of the time of what is taken, what is refused %s.",
		seconds(f.For.Seconds()), number(f.Rate), quietTrucks, number(f.Limit), number(f.Takes), percent(deferredShare),
		percent(refuseShare)))
	b.WriteByte('\n')
	rows := [][]string{
		{"", "neighbours, from the log to a query", "", "dead", "the loud one's readings", "", "", "waited"},
		{"", "p50", "p99", "letters", "waited", "refused", "stored", "at most"},
	}
	for _, c := range f.Cases {
		rows = append(rows, []string{
			c.Case, lapse(c.P50), lapse(c.P99), report.Thousands(int64(c.DeadLetters)), report.Thousands(int64(c.Deferred)),
			report.Thousands(int64(c.Refused)), report.Thousands(int64(c.Stored)), held(c.DeferredSeconds),
		})
	}
	report.Grid(b, rows)
	report.Paragraph(b, "\n", "Without a limit a partition is one queue, and neighbours wait with the loud one. What "+
		"waits above a limit is taken as the limit allows, or refused after "+seconds(f.HeldFor.Seconds())+".")
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
