package loadtest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/text/report"
)

// Print writes a report as text: for each scenario what it shows and a table; with details also charges by both models,
// where the request units go, and what follows for each layout.
func Print(w io.Writer, r Report, details bool) error {
	var b bytes.Buffer
	report.Paragraph(&b, "", heading(r))
	for _, o := range r.Outcomes {
		fmt.Fprintf(&b, "\n%s: %s\n\n", strings.ToUpper(string(o.Scenario)), o.Scenario.about())
		report.Paragraph(&b, "", lead(o))
		b.WriteByte('\n')
		table(&b, o)
		if !details {
			continue
		}
		b.WriteByte('\n')
		charges(&b, r, o)
		b.WriteByte('\n')
		partitionBars(&b, o)
		for _, s := range conclusions(r, o) {
			report.Paragraph(&b, "  - ", s)
		}
	}
	if l := r.Usual; l != nil {
		b.WriteByte('\n')
		report.Paragraph(&b, "", fmt.Sprintf("A chunk holds what a device reports in %s here (--hold). Ingesters hold "+
			"%s by default: then a million values of these trucks take %s RU (modelled), in chunks of %s KB.",
			seconds(r.HoldSeconds), seconds(longHold.Seconds()), number(l.PerMillion), number(l.DocumentBytes/1024)))
	}
	if len(r.Paces) > 0 {
		fmt.Fprintf(&b, "\nPACES: what a hold of %s makes of devices that report alike, by the day\n\n",
			seconds(r.HoldSeconds))
		paces(&b, r)
	}
	if r.Reads != nil {
		b.WriteByte('\n')
		reads(&b, r.Reads)
	}
	if r.Flood != nil {
		flood(&b, r.Flood)
	}
	if len(r.Placements) > 0 {
		printPlacements(&b, r.Placements)
	}
	footnotes(&b, r, details)
	if len(r.Outcomes) > 0 && !details {
		report.Paragraph(&b, "", "--details prints charges by both models, physical partitions and what follows for each "+
			"layout; --html writes a page.")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func heading(r Report) string {
	if len(r.Outcomes) == 0 {
		return fmt.Sprintf("Trucks report to Binnacle, seed %d. All request units (RU) are modelled, by the %s model%s.",
			r.Seed, r.Model, r.corrected())
	}
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

// corrected says how the model is corrected.
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

// charges writes what the layouts are charged by each model, and what the assumptions leave open.
func charges(b *bytes.Buffer, r Report, o Outcome) {
	rows := [][]string{
		{"", "RU per million values, modelled", "", "", "dollars a month"},
		{"a document per", r.Model, r.OtherModel, "possible", "possible"},
	}
	for _, x := range o.Results {
		rows = append(rows, append(append([]string{x.Layout.about()}, byModel(x.ByModel)...),
			span(x.DollarsByModel, report.Dollars)))
	}
	report.Grid(b, rows)
}

// byModel returns a charge by the model, by the other one, and what is possible.
func byModel(i ru.Interval) []string {
	return []string{number(i.Likely), number(i.Other), span(i, number)}
}

// span returns the bounds of an interval, or its one value.
func span(i ru.Interval, show func(float64) string) string {
	low, high := show(i.Low), show(i.High)
	if low == high {
		return low
	}
	return low + " to " + high
}

// paces writes a line for each pace.
func paces(b *bytes.Buffer, r Report) {
	rows := [][]string{
		{"", "chunks", "readings", "KB", "RU per million values, modelled", "", "", "bytes a value in Kafka", ""},
		{"a device reports", "a day", "a chunk", "a chunk", r.Model, r.OtherModel, "possible", "readings", "journal"},
	}
	for _, p := range r.Paces {
		rows = append(rows, slices.Concat([]string{
			fmt.Sprintf("%d metrics every %s", p.Metrics, one(seconds(p.IntervalSeconds))),
			fmt.Sprintf("%.1f", p.PerDay), number(p.Readings), number(p.DocumentBytes / 1024),
		}, byModel(p.ByModel), []string{fmt.Sprintf("%.1f", p.Published), fmt.Sprintf("%.2f", p.Journaled)}))
	}
	report.Grid(b, rows)
	b.WriteByte('\n')
	for _, s := range paceConclusions(r.Paces) {
		report.Paragraph(b, "  - ", s)
	}
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
