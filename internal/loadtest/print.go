package loadtest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Print writes a report as text: for each scenario a table, where the request units go, and what follows.
func Print(w io.Writer, r Report) error {
	var b bytes.Buffer
	paragraph(&b, "", heading(r))
	for _, o := range r.Outcomes {
		fmt.Fprintf(&b, "\n%s: %s\n\n", strings.ToUpper(string(o.Scenario)), o.Scenario.about())
		table(&b, o)
		b.WriteByte('\n')
		strips(&b, r, o)
		b.WriteByte('\n')
		for _, s := range conclusions(r, o) {
			paragraph(&b, "  - ", s)
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
	return fmt.Sprintf("%s trucks report ten metrics every %s, seed %d. Each layout has a container of its own with %d physical partitions. "+
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
			fmt.Sprintf("%.2f", r.Hottest), r.both(r.Needed), number(r.Bought), dollars(r.Dollars),
		})
	}
	grid(b, rows)
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

// grid prints rows in columns: the first to the left, the others to the right.
func grid(b *bytes.Buffer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i == 0 {
				fmt.Fprintf(&line, "  %-*s", width[i], cell)
			} else {
				fmt.Fprintf(&line, "  %*s", width[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

// lineEnd is where a line of text ends at the latest.
const lineEnd = 116

// paragraph prints text in lines that begin behind the mark, which stands before the first.
func paragraph(b *bytes.Buffer, mark, text string) {
	indent := strings.Repeat(" ", len(mark))
	line := mark
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > lineEnd {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// number is a figure with as many decimals as mean something, and separated thousands.
func number(f float64) string {
	switch {
	case f < 9.95:
		return fmt.Sprintf("%.1f", f)
	case f < 999.5:
		return fmt.Sprintf("%.0f", f)
	}
	return thousands(fmt.Sprintf("%.0f", f))
}

// dollars is an amount with cents.
func dollars(f float64) string {
	whole, cents, _ := strings.Cut(fmt.Sprintf("%.2f", f), ".")
	return thousands(whole) + "." + cents
}

// thousands separates the digits of a positive integer.
func thousands(digits string) string {
	var out []byte
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, digits[i])
	}
	return string(out)
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
