package loadtest

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"binnacle/internal/text/report"
)

// PrintTarget writes what was measured of an account as text.
func PrintTarget(w io.Writer, r TargetReport) error {
	var b bytes.Buffer
	report.Paragraph(&b, "", fmt.Sprintf("%s: %s. %d trucks. Measured on the account in %s.", r.Scenario,
		r.Scenario.about(), r.Devices, wall(r.Seconds)))
	if len(r.Layouts) > 0 {
		r.layouts(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r TargetReport) layouts(b *bytes.Buffer) {
	partitions := r.Layouts[0].Partitions
	report.Paragraph(b, "\n", fmt.Sprintf("Cosmos DB: each layout had a container of %s RU/s for itself (physical "+
		"partitions: %d), and was offered what takes %s of it. Only the column \"modelled\" is modelled, by the %s model.",
		number(float64(r.RUs)), partitions, percent(utilisation), r.Model))
	b.WriteByte('\n')
	rows := [][]string{
		{"", "readings/s", "", "RU per document", "", "RU per million", "answered", "documents not", "hottest",
			"latency, ms", "", "longest", ""},
		{"a document per", "offered", "stored", "measured", "modelled", "values", "429", "stored", "/ mean", "50 %", "99 %",
			"wait", "took"},
	}
	for _, x := range r.Layouts {
		rows = append(rows, []string{x.Layout.about(), number(x.Offered), number(x.Accepted),
			fmt.Sprintf("%.2f", x.Each), fmt.Sprintf("%.2f", x.Modelled), number(x.PerMillion),
			percent(float64(x.Throttled) / float64(max(1, x.Requests))),
			fmt.Sprintf("%d of %d", x.Lost, x.Lost+x.Documents), fmt.Sprintf("%.2f", x.Hottest), millis(x.Latency.P50),
			millis(x.Latency.P99), wall(x.Longest), wall(x.Seconds)})
	}
	report.Grid(b, rows)
	if partitions == 1 {
		report.Paragraph(b, "\n", "With one physical partition no key can be hot: --target-rus above 6000 makes several.")
	}
}

// wall prints seconds of the clock on the wall.
func wall(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond).String()
}

// millis prints seconds as milliseconds.
func millis(seconds float64) string { return fmt.Sprintf("%.1f", seconds*1000) }
