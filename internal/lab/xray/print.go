package xray

import (
	"fmt"
	"io"
	"strings"

	"binnacle/internal/text/report"
)

const minute = "2006-01-02 15:04"

// Print writes the report for a terminal.
func Print(w io.Writer, r Report) error {
	for _, f := range r.Findings {
		if err := report.Paragraph(w, "- ", f); err != nil {
			return err
		}
	}
	who := fmt.Sprintf("%s (%s)", report.Thousands(r.Devices), r.DevicePath)
	if r.TenantPath != "" {
		who += fmt.Sprintf(" of %s (%s)", report.Thousands(r.Tenants), r.TenantPath)
	}
	lines := [][]string{
		{""},
		{"container", r.Database + "/" + r.Container},
		{"documents", fmt.Sprintf("%s, %.2f GB of JSON", report.Thousands(r.Documents), r.GB)},
		{"written", fmt.Sprintf("%s to %s, %.2f RU/s", r.From.Format(minute), r.To.Format(minute), r.WriteRUs)},
		{"devices", who + " in the sample"},
		{"sample", fmt.Sprintf("%s documents for %.1f RU", report.Thousands(r.Sampled), r.RUs)},
		{""},
	}
	if err := report.List(w, lines); err != nil {
		return err
	}
	rows := [][]string{{"partition", "documents", "GB", "of the writes"}}
	for _, p := range r.Partitions {
		rows = append(rows, []string{p.ID, report.Thousands(p.Documents), fmt.Sprintf("%.2f", p.GB),
			fmt.Sprintf("%.1f %%", 100*p.Share)})
	}
	if err := report.Grid(w, append(rows, []string{""})); err != nil {
		return err
	}
	rows = [][]string{{"layout", "hottest/mean", "hottest key", "full in", "keys of a device's day", "RU",
		"of a tenant's day", "RU", "RU/s", "a month"}}
	for _, l := range append([]Layout{r.Now}, r.Others...) {
		name := l.Name
		if name == r.Recommended {
			name += " *"
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.2f", l.HottestOverMean), fmt.Sprintf("%.1f %%", 100*l.HottestShare),
			inDays(l.FullInDays), l.DeviceDay.keys(), fmt.Sprintf("%.0f", l.DeviceDay.RUs), l.TenantDay.keys(),
			fmt.Sprintf("%.0f", l.TenantDay.RUs), fmt.Sprintf("%.1f", l.NeedRUs), report.Dollars(l.Dollars)})
	}
	if err := report.Grid(w, rows); err != nil {
		return err
	}
	star := ""
	if r.Recommended != "" {
		star = "* recommended: the fewest RU/s that serve writes and reads, without a key that is full within a year.\n"
	}
	fmt.Fprintf(w, "\n%sRequest units and prices are modelled; hottest/mean is of the RU of writes, by day.\n", star)
	return printRemedies(w, r.Remedies)
}

func inDays(d float64) string {
	switch {
	case d == 0:
		return "never"
	case d > 10*soonDays:
		return "> 10 years"
	}
	return fmt.Sprintf("%.0f days", d)
}

func (r Read) keys() string {
	if r.Keys == 0 {
		return fmt.Sprintf("all (%d)", r.Partitions)
	}
	return fmt.Sprintf("%d (%d)", r.Keys, r.Partitions)
}

// printRemedies writes what can be done about the key.
func printRemedies(w io.Writer, all []Remedy) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nWHAT CAN BE DONE\n")
	rows := [][]string{{"", "RU once", "$ once", "RU/s then", "$ a month then", "cures"}}
	for _, x := range all {
		rows = append(rows, []string{x.Name, report.Thousands(int64(x.OnceRUs)), report.Dollars(x.OnceDollars),
			fmt.Sprintf("%.1f", x.NeedRUs), report.Dollars(x.Dollars), x.Cures})
	}
	if err := report.List(w, rows); err != nil {
		return err
	}
	for _, x := range all {
		text := x.Name + ": " + strings.Join(x.Gates, "; ") + "."
		if x.Refused != "" {
			text += " Not to be had here: " + x.Refused + "."
		}
		if err := report.Paragraph(w, "- ", text); err != nil {
			return err
		}
	}
	return nil
}
