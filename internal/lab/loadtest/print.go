package loadtest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/text/report"
)

// Print writes a report as text: for each scenario what it shows, a table, and what follows for each layout.
func Print(w io.Writer, r Report) error {
	var b bytes.Buffer
	report.Paragraph(&b, "", heading(r))
	for _, o := range r.Outcomes {
		fmt.Fprintf(&b, "\n%s: %s\n\n", strings.ToUpper(string(o.Scenario)), o.Scenario.about())
		report.Paragraph(&b, "", lead(o))
		b.WriteByte('\n')
		table(&b, o)
		b.WriteByte('\n')
		for _, s := range conclusions(o) {
			report.Paragraph(&b, "  - ", s)
		}
	}
	footnotes(&b, r)
	_, err := w.Write(b.Bytes())
	return err
}

func heading(r Report) string {
	if len(r.Outcomes) == 1 {
		r.PhysicalPartitions = cmp.Or(r.Outcomes[0].Partitions, r.PhysicalPartitions)
		r.SampleSeconds = cmp.Or(r.Outcomes[0].SampleSeconds, r.SampleSeconds)
		r.Devices = cmp.Or(r.Outcomes[0].Devices, r.Devices)
		r.WindowSeconds = cmp.Or(r.Outcomes[0].WindowSeconds, r.WindowSeconds)
	}
	measured := seconds(r.WindowSeconds) + " of fleet time"
	switch {
	case r.SampleSeconds >= r.WindowSeconds:
	case len(r.Outcomes) == 1 && r.Outcomes[0].Scenario == Explodes:
		measured += " (a document per reading: one interval in each hour)"
	default:
		measured += " (a document per reading: the first " + one(seconds(r.SampleSeconds)) + ")"
	}
	return fmt.Sprintf("%s trucks report ten metrics every %s, seed %d. Each layout has a container of its own with %d "+
		"physical partitions. "+
		"Measured: %s. All request units (RU) are modelled, by the %s model%s.",
		number(float64(r.Devices)), one(seconds(r.IntervalSeconds)), r.Seed, r.PhysicalPartitions, measured, r.Model,
		r.corrected())
}

func (r Report) corrected() string {
	if r.Factors == (ru.Factors{}) {
		return ""
	}
	return " times what an account was measured to charge: " + r.Factors.String()
}

// table writes the results side by side.
func table(b *bytes.Buffer, o Outcome) {
	rows := [][]string{
		{"", "readings/s", "", "RU per million", "answered", "hottest", "RU/s, modelled", "", "dollars"},
		{"a document per", "offered", "accepted", "values, modelled", "429", "/ mean", "needed", "bought", "a month"},
	}
	for _, r := range o.Results {
		throttled := percent(r.Throttled)
		if r.Grainy() {
			throttled += " grainy"
		}
		rows = append(rows, []string{
			r.Layout.about(), number(r.Offered), number(r.Accepted), number(r.PerMillion), throttled,
			fmt.Sprintf("%.2f", r.Hottest), number(r.Needed), number(r.Bought), report.Dollars(r.Dollars),
		})
	}
	report.Grid(b, rows)
}

// number returns a figure with as many decimals as mean something, and separated thousands.
func number(f float64) string {
	switch {
	case f < 9.95:
		return fmt.Sprintf("%.1f", f)
	case f < 999.5:
		return fmt.Sprintf("%.0f", f)
	}
	return report.Thousands(int64(math.Round(f)))
}

// percent returns a share, whole from one percent on.
func percent(share float64) string {
	if p := 100 * share; p > 0 && p < 0.95 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// seconds returns a length of time as people say it.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d%time.Hour == 0:
		return plural(d/time.Hour, "hour")
	case d%time.Minute == 0:
		return plural(d/time.Minute, "minute")
	case d%time.Second == 0:
		return plural(d/time.Second, "second")
	}
	return d.String()
}

// one leaves the number out of "1 minute".
func one(s string) string { return strings.TrimPrefix(s, "1 ") }

func plural[N ~int | ~int64](n N, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

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
