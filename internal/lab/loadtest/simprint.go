package loadtest

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"binnacle/internal/text/report"
)

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
