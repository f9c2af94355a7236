package loadtest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"binnacle/internal/charges/ru"
	"binnacle/internal/text/report"
)

// printPlacements writes lines for each placement.
func printPlacements(b *bytes.Buffer, all []PlacementResult) {
	fmt.Fprintf(b, "\nPLACEMENTS: what a flood costs, by where tenants are\n\n")
	report.Paragraph(b, "", fmt.Sprintf("%d tenants store two chunks a second each, and ask for a device's last chunk "+
		"once a second. For %s a loud one stores %d chunks a second; figures are of what comes in that time, but for "+
		"values stored, which are those stored in it. A request takes %s, and its RU where a partition serves %s a second. "+
		"After a 429 a process sends nothing to the container for as long as it asks for, then tries again at random, as "+
		"the adapter does. RU/s are manual; the price has rollups, with autoscale "+
		"at rest, and the least storage. All is modelled.", tenants,
		seconds(placedFlood.Seconds()), int(1/floodedEvery.Seconds()), lapse(roundTrip.Seconds()), number(ru.PartitionRUs)))
	b.WriteByte('\n')
	rows := [][]string{
		{"", "RU/s", "$ a", "", "values/s", "", "", "write", "", "query", ""},
		{"", "bought", "month", "", "offered", "stored", "429s", "p50", "p99", "p50", "p99"},
	}
	for _, c := range all {
		var rus []string
		for _, n := range c.RUs {
			rus = append(rus, strconv.Itoa(n))
		}
		name, bought, dollars := c.Case, strings.Join(rus, " + "), number(c.Dollars)
		for _, t := range c.Tenants {
			rows = append(rows, []string{name, bought, dollars, t.Tenants, report.Thousands(int64(t.Offered)),
				report.Thousands(int64(t.Accepted)), report.Thousands(int64(t.Throttled)), lapse(t.WriteP50), lapse(t.WriteP99),
				lapse(t.QueryP50), lapse(t.QueryP99)})
			name, bought, dollars = "", "", ""
		}
	}
	report.Grid(b, rows)
}
