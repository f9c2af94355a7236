package loadtest

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"binnacle/internal/report"
)

// Print writes a report as text: for each scenario a table, where the request units go, and what follows.
func Print(w io.Writer, r Report) error {
	var b bytes.Buffer
	report.Paragraph(&b, "", heading(r))
	for _, o := range r.Outcomes {
		fmt.Fprintf(&b, "\n%s: %s\n\n", strings.ToUpper(string(o.Scenario)), o.Scenario.about())
		table(&b, o)
		b.WriteByte('\n')
		strips(&b, r, o)
		b.WriteByte('\n')
		for _, s := range conclusions(r, o) {
			report.Paragraph(&b, "  - ", s)
		}
	}
	footnotes(&b, r)
	_, err := w.Write(b.Bytes())
	return err
}

func heading(r Report) string {
	measured := seconds(r.WindowSeconds) + " of fleet time"
	if r.SampleSeconds < r.WindowSeconds {
		measured += ", of which a document per reading takes the first " + one(seconds(r.SampleSeconds))
	}
	return fmt.Sprintf("%s trucks report ten metrics every %s, seed %d. Each layout has a container of its own with %d "+
		"physical partitions. "+
		"Measured: %s. All request units (RU) are modelled, by the %s model.",
		number(float64(r.Devices)), one(seconds(r.IntervalSeconds)), r.Seed, r.PhysicalPartitions, measured, r.Model)
}

// table is the results side by side.
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
			r.Layout.about(), number(r.Offered), number(r.Accepted), r.both(r.PerMillion), throttled,
			fmt.Sprintf("%.2f", r.Hottest), r.both(r.Needed), number(r.Bought), report.Dollars(r.Dollars),
		})
	}
	report.Grid(b, rows)
}

// differ is how far the models must be apart to be shown both.
const differ = 0.1

func (r Result) modelsDiffer() bool {
	ratio := r.OtherModel / r.PerMillion
	return ratio <= 1-differ || ratio >= 1+differ
}

// both is a figure in RU, and what it would be by the other model where that differs.
func (r Result) both(rus float64) string {
	if !r.modelsDiffer() {
		return number(rus)
	}
	return fmt.Sprintf("%s (%s)", number(rus), number(rus*r.OtherModel/r.PerMillion))
}

// number is a figure with as many decimals as mean something, and separated thousands.
func number(f float64) string {
	switch {
	case f < 9.95:
		return fmt.Sprintf("%.1f", f)
	case f < 999.5:
		return fmt.Sprintf("%.0f", f)
	}
	return report.Thousands(int64(math.Round(f)))
}

// percent is a share, whole from one percent on.
func percent(share float64) string {
	if p := 100 * share; p > 0 && p < 0.95 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// seconds is a length of time as people say it.
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

func plural(n time.Duration, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
