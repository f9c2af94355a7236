package loadtest

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/text/report"
)

func (r *SensorsReport) heading() string {
	return fmt.Sprintf("%s sensors report six values a second, as on the service's page \"Choose a partition key for IoT "+
		"workloads\". %d days, simulated by day for each key and by chunk for Binnacle, seed %d. All request units (RU) are "+
		"modelled, by the %s model; dollars are list prices. Of two figures the first is for a document as that page prints "+
		"it (%d bytes), the second for 1 KB, as it reckons; for Binnacle they are what the model does not know. Its "+
		"chunks take %.2f bytes a value here, as values change a little each second; the worst possible values take 8.",
		number(float64(r.Sensors)), r.Days, r.Seed, r.Model, len(sensorDocument), r.PerValue)
}

// text returns both ends, or the one figure that they are.
func (e Ends) text(of func(float64) string) string {
	if of(e.Low) == of(e.High) {
		return of(e.High)
	}
	return of(e.Low) + " to " + of(e.High)
}

func (r *SensorsReport) rows() [][]string {
	rows := [][]string{{"key", "RU/s of writes", "accepted", "hottest / mean", "TB in a year", "full keys", "$ last month",
		"$ a year"}}
	for _, k := range r.Keys {
		full := "none"
		if k.FullKeys.High > 0 {
			full = fmt.Sprintf("%s, %s", k.FullKeys.text(plain), days(k.FullInDays.High))
		}
		tb := Ends{k.GB.Low / 1000, k.GB.High / 1000}
		rows = append(rows, []string{k.Layout, Ends{k.RUs.Low, k.RUs.High}.text(number), k.Accepted.text(percent),
			fmt.Sprintf("%.1f, then %s", k.HottestAt.High, k.Hottest.text(tenths)), tb.text(number), full,
			k.LastMonth.text(number), k.Year.text(number)})
	}
	return rows
}

func tenths(f float64) string { return fmt.Sprintf("%.1f", f) }

func plain(f float64) string { return report.Thousands(int64(f)) }

// days returns a time in days, or in hours below a day.
func days(d float64) string {
	switch {
	case d < 1:
		return fmt.Sprintf("after %.0f h", 24*d)
	}
	return fmt.Sprintf("after %.0f days", d)
}

func (r *SensorsReport) conclusions() (out []string) {
	own := r.Keys[len(r.Keys)-1]
	cheapest := slices.MinFunc(r.Keys[:len(r.Keys)-1], func(a, b SensorKey) int {
		if whole := func(k SensorKey) bool { return k.Accepted.Low == 1 }; whole(a) != whole(b) {
			if whole(a) {
				return -1
			}
			return 1
		}
		return int(math.Copysign(1, a.Year.High-b.Year.High))
	})
	for _, k := range r.Keys[:len(r.Keys)-1] {
		switch {
		case k.FullKeys.High > 0 && k.Accepted.High > 0.5:
			out = append(out, fmt.Sprintf("%s: %s keys have 20 GB %s, and take no more.", k.Layout, plain(k.FullKeys.High),
				days(k.FullInDays.High)))
		case k.Accepted.High < 0.5:
			out = append(out, fmt.Sprintf("%s: all sensors write to one physical partition at a time, which takes %s of "+
				"them, however much is bought.", k.Layout, k.Accepted.text(percent)))
		case k.Hottest.High > 4:
			out = append(out, fmt.Sprintf("%s: what is stored makes %s physical partitions, and of so many keys a minute "+
				"some partition has %.1f times the mean.", k.Layout, k.Partitions.text(number), k.Hottest.High))
		}
	}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("%s: the cheapest of the keys that take all readings, $%s a year, most of it for what is stored, which forces 1 "+
		"RU/s for each GB too.", cheapest.Layout, cheapest.Year.text(number))
	add("Binnacle: $%s a year, 1/%s of that, for 1/%s of the RU and 1/%s of the GB. A chunk has thousands of readings, "+
		"and four slots a district become as many as the balancer finds.", own.Year.text(number),
		number(cheapest.Year.High/own.Year.High), number(cheapest.RUs.High/own.RUs.High),
		number(cheapest.GB.High/own.GB.High))
	for _, k := range []SensorKey{cheapest, own} {
		add("Serverless, %s: one container serves %s sensors on average, %s in its busiest minute. From %s on, 400 RU/s of "+
			"manual throughput cost less: grow then.", k.Layout, number(k.Serverless.Mean), number(k.Serverless.Busiest),
			plain(k.Serverless.Grow))
	}
	if slices.ContainsFunc(r.Keys, func(k SensorKey) bool { return k.Bought.High > containerRUs }) {
		out = append(out, "More than 1,000,000 RU/s of a container have to be asked for.")
	}
	return out
}

func printSensors(b *bytes.Buffer, r *SensorsReport) {
	fmt.Fprintf(b, "\nSENSORS: a year under each key of the page, and with Binnacle\n\n")
	report.Grid(b, r.rows())
	b.WriteByte('\n')
	for _, s := range r.conclusions() {
		report.Paragraph(b, "  - ", s)
	}
}

// pageSensors is the year on the page.
type pageSensors struct {
	Rows    [][]string
	Verdict []string
	Picture template.HTML
}

// picture draws the dollars of the year of each key on a logarithmic scale, from the low to the high end.
func (r *SensorsReport) picture() string {
	const row, left, width = 34, 300, 620
	least, most := math.Inf(1), 0.0
	for _, k := range r.Keys {
		least, most = min(least, k.Year.Low), max(most, k.Year.High)
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	at := func(v float64) float64 { return left + width*(math.Log10(v)-from)/(to-from) }
	var b strings.Builder
	height := row*len(r.Keys) + 30
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="Dollars of the year by key">`, left+width+90, height)
	for e := from; e <= to; e++ {
		x := at(math.Pow(10, e))
		fmt.Fprintf(&b, `<path d="M%.0f 0V%d" class="rule"/><text x="%.0f" y="%d" text-anchor="middle">$%s</text>`, x,
			height-22, x, height-6, report.Thousands(int64(math.Pow(10, e))))
	}
	for i, k := range r.Keys {
		y, class := row*i+6, "other"
		if i == len(r.Keys)-1 {
			class = "own"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%.1f" y="%d" width="%.1f" height="18" `+
			`class="%s"/>`, left-10, y+14, template.HTMLEscapeString(k.Layout), at(k.Year.Low), y,
			max(4, at(k.Year.High)-at(k.Year.Low)), class)
	}
	b.WriteString("</svg>")
	return b.String()
}

// PrintSimulation prints what a simulation has found.
func PrintSimulation(w io.Writer, r SimulationReport) error {
	fmt.Fprintf(w, "SIMULATED: %d devices of %d tenants (%s), a reading every %gs, hold %gs, %d physical partitions, "+
		"seed %d.\nRequest units are modelled, by the %s model. Chunks and charges are those of %d devices that went "+
		"through ingest.\n\n",
		r.Devices, r.Tenants, r.Scenario, r.IntervalSeconds, r.HoldSeconds, r.Partitions, r.Seed, r.Model, simSamples)
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
	whole := func(x float64) string { return report.Thousands(int64(x)) }
	rows := [][]string{
		{"values a second", whole(r.Values)}, {"chunks a day", whole(r.Chunks)}, {"bytes a chunk", whole(r.ChunkBytes)},
		{"bytes a value", number(r.PerValue)}, {"RU per million values", whole(r.PerMillion)}, {"RU/s", whole(r.Mean)},
		{"RU/s bought", whole(r.Bought)}, {"writes that a partition's second holds", number(r.SecondHolds)},
		{"GB after all days", whole(r.GB)},
		{"GB of the fullest partition", whole(r.FullestGB)}, {"GB of the largest first-level key", number(r.LargestKey)},
		{"partitions that this takes", fmt.Sprint(r.ByStorage)}, {"dollars a month", report.Dollars(r.Dollars)},
		{"first-level keys", whole(float64(r.Keys))}, {"keys of the largest tenant", fmt.Sprint(r.LargestKeys)},
		{"bytes of epochs", whole(float64(r.EpochBytes))},
	}
	if err := report.List(w, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	days := [][]string{{"day", "hottest/mean", "busiest minute/mean", "429s", "longest wait", "epochs",
		"hottest/mean foreseen"}}
	for i, d := range r.Days {
		if i > 0 && d.like(r.Days[i-1]) {
			first, _, _ := strings.Cut(days[len(days)-1][0], " ")
			days[len(days)-1][0] = fmt.Sprintf("%s to %d", first, d.Day)
			continue
		}
		days = append(days, []string{fmt.Sprint(d.Day), fmt.Sprintf("%.2f", d.Hottest), fmt.Sprintf("%.2f", d.Busiest),
			fmt.Sprintf("%.2f %%", 100*d.Throttled), fmt.Sprintf("%.0f s", d.Wait), fmt.Sprint(d.Epochs),
			fmt.Sprintf("%.2f", d.Forecast)})
	}
	if err := report.List(w, days); err != nil {
		return err
	}
	if r.SecondHolds < grainyBelow {
		fmt.Fprintf(w, "\nA second of a physical partition has budget for %.1f writes: so few that 429s are chance. Ingest "+
			"waits and writes again.\n", r.SecondHolds)
	}
	return nil
}

// like reports whether a day has the figures of another, but for its number.
func (d SimulatedDay) like(o SimulatedDay) bool {
	d.Day = o.Day
	return d == o
}
