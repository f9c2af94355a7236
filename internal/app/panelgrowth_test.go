//go:build linux

package app_test

import (
	"bytes"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/text/report"

	"github.com/stretchr/testify/require"
)

var panelGrowth = flag.String("panels.growth", "", "devices of TestPanelsGrow, by commas; empty: it is skipped")

// TestPanelsGrow is a benchmark: panels over six hours of fleets that grow tenfold, in a query process with the limits
// that it has by default, beside peers. A fleet of 100,000 devices reports every minute, a smaller one every 10 s.
func TestPanelsGrow(t *testing.T) {
	if *panelGrowth == "" {
		t.Skip("a benchmark: see make bench-growth")
	}
	all := make(map[string][]float64) // CPU-ms by panel and who, then by size; cold, then warm
	var names []string
	head := []string{"", "who"}
	for i, text := range strings.Split(*panelGrowth, ",") {
		devices, err := strconv.Atoi(text)
		require.NoError(t, err)
		p := &panels{devices: devices, first: panelDay, day: panelDay, hours: 6, interval: 10 * time.Second, chunks: 6,
			defaults: true, reported: plain()}
		if devices >= 100_000 {
			p.interval, p.chunks = time.Minute, 1
		}
		p.begin(t)
		for _, row := range p.besidePeers(t, p.questions(), nil) {
			key := row[0] + "|" + row[1]
			if i == 0 {
				names = append(names, key)
			}
			for _, ms := range row[2:4] {
				v, err := strconv.ParseFloat(ms, 64)
				require.NoError(t, err)
				all[key] = append(all[key], v)
			}
		}
		head = append(head, text+" cold", text+" warm")
	}
	rows := [][]string{head}
	for _, key := range names {
		row := strings.Split(key, "|")
		for i, ms := range all[key] {
			cell := fmt.Sprintf("%.1f", ms)
			if i > 1 {
				cell += fmt.Sprintf(" (%.2f)", ms/all[key][i-2]/10)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	var out bytes.Buffer
	require.NoError(t, report.Grid(&out, rows))
	t.Logf("CPU-ms; in brackets the growth: over ten times the cost of a tenth of the devices\n%s", out.String())
}
