//go:build linux

package app_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTSBSBesidePeers is a benchmark: the 13 questions of TSBS's IoT case, as docs/guides/tsbs.md has them, over a
// day of a fleet of trucks. The first is asked in PromQL, too, since the others have no other language.
func TestTSBSBesidePeers(t *testing.T) {
	if *panelPeers == "" {
		t.Skip("a benchmark: see make bench-query")
	}
	p := newPanels(t, *panelDevices, 1, trucks())
	panels := p.tsbs(t)
	require.Len(t, panels, 13)
	p.besidePeers(t, panels)
}

// tsbs is the questions of the guide, which are about six hours, for a day.
func (p *panels) tsbs(t *testing.T) (out []panel) {
	guide, err := os.ReadFile("../../docs/guides/tsbs.md")
	require.NoError(t, err)
	question := regexp.MustCompile("(?s)### ([a-z-]+)\n.*?```(?:promql|http)\n(.*?)```")
	for _, m := range question.FindAllStringSubmatch(string(guide), -1) {
		name, text := m[1], m[2]
		if name == "single-last-loc" {
			text = `last_over_time({__name__=~"readings_latitude|readings_longitude",device=~"truck-0000|truck-0001"}[6h])`
		}
		text = strings.NewReplacer("[6h", "[24h", "/ 6", "/ 24", "> 15", "> 60", "350m", "1430m").Replace(text)
		out = append(out, panel{name: name, text: text, from: p.day.Start(), to: p.day.End(), lookback: "10s"})
	}
	return out
}

// trucks is what the trucks of TSBS report, of what its questions are about.
func trucks() reported {
	return reported{
		names: []string{"readings_latitude", "readings_longitude", "readings_velocity", "readings_fuel_consumption",
			"readings_nominal_fuel_consumption", "diagnostics_fuel_state", "diagnostics_current_load",
			"diagnostics_load_capacity", "diagnostics_status"},
		tags: func(d int) map[string]string {
			return map[string]string{
				"fleet": []string{"East", "West", "North", "South"}[d/3%4], "model": []string{"F-150", "G-2000", "H-2"}[d%3],
				"driver": fmt.Sprintf("driver_%d", d/12%6), "device_version": fmt.Sprintf("v%d", d%4),
			}
		},
		value: func(metric, kind int, since time.Duration) float64 {
			at, k := since.Hours(), float64(kind)
			wave := func(hours float64) float64 { return math.Sin(2*math.Pi*at/hours + k) }
			tenth := func(v float64) float64 { return math.Round(10*v) / 10 }
			velocity := max(0, math.Round(55+20*k/7+70*wave(7.4)+9*wave(0.11)))
			switch metric {
			case 0, 1: // places, of five decimals
				return math.Round(1e5*(45+k+2*wave(float64(17+metric))+0.01*wave(0.3))) / 1e5
			case 2:
				return velocity
			case 3:
				return tenth(velocity/5 + 3 + 2*wave(0.07))
			case 4:
				return []float64{12, 15, 19}[kind%3]
			case 5: // until it is refuelled
				return tenth(1 - math.Mod(at/8.4+k/8, 1))
			case 6:
				return math.Round(100 * (12 + 12*math.Round(4*wave(11))/4))
			case 7:
				return []float64{1500, 2000, 5000}[kind%3]
			}
			return math.Round(max(0, 2.5+3.5*wave(5)))
		},
	}
}
