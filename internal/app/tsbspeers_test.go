//go:build linux

package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTSBSBesidePeers is a benchmark: the 13 questions of TSBS's IoT case, as docs/reference/promql.md has them, over a
// day of a fleet of trucks. The first is asked in PromQL, too, since the others have no other language. Each has an
// answer with something in it, and all answer the same.
func TestTSBSBesidePeers(t *testing.T) {
	if *panelPeers == "" {
		t.Skip("a benchmark: see make bench-query")
	}
	p := newPanels(t, *panelDevices, 1, trucks())
	panels := p.tsbs(t)
	require.Len(t, panels, 13)
	ours := make(map[string]map[string]float64)
	p.besidePeers(t, panels, func(who string, panel panel, body string) {
		got := vectorOf(t, panel, body)
		if who == "binnacle" {
			require.NotEmpty(t, got, panel.name)
			some := slices.ContainsFunc(slices.Collect(maps.Values(got)), func(v float64) bool { return v != 0 && v == v })
			require.Equal(t, panel.name != "stationary-trucks", some, "%s: some are not 0: %v", panel.name, got)
			ours[panel.name] = got
			return
		}
		resets := who == "victoria-metrics" && strings.Contains(panel.text, "resets")
		require.Empty(t, differing(ours[panel.name], got, resets), "%s, %s", who, panel.name)
	})
}

// answersNear is by how much of itself a value of another system may differ: sums over devices are in another order.
const answersNear = 1e-12

// differing is in what two answers differ. With resets VictoriaMetrics may count one more than others: it also
// compares the first value of a range with the one before it, so that a stretch of driving which begins with the day
// counts twice in avg-daily-driving-session, and its mean over n stretches is one over n + 1.
func differing(ours, theirs map[string]float64, resets bool) (out []string) {
	near := func(v, w float64) bool { return math.Abs(v-w) <= answersNear*math.Abs(v) }
	for name, v := range ours {
		w, ok := theirs[name]
		same := near(v, w) || math.IsNaN(v) && math.IsNaN(w)
		for n := 1.0; resets && n < 72; n++ {
			same = same || near(v*n/(n+1), w)
		}
		if !ok || !same {
			out = append(out, fmt.Sprintf("%s: %v, theirs %v %v", name, v, w, ok))
		}
	}
	for name, w := range theirs {
		if _, ok := ours[name]; !ok {
			out = append(out, fmt.Sprintf("%s: none, theirs %v", name, w))
		}
	}
	slices.Sort(out)
	return out
}

var durations = regexp.MustCompile(`\[([0-9]+[hms])`)

// closed is a panel for a Prometheus before 3.0, whose ranges and lookbacks are closed at both ends: they are a
// millisecond shorter, so that they have in them what (from, to] has.
func (p panel) closed(t *testing.T) panel {
	shorter := func(text string) string {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		return fmt.Sprintf("%dms", (d - time.Millisecond).Milliseconds())
	}
	p.text = durations.ReplaceAllStringFunc(p.text, func(m string) string { return "[" + shorter(m[1:]) })
	p.lookback = shorter(p.lookback)
	return p
}

// vectorOf is the values of an answer by what their series are called, but for the name of the metric, unless the
// question asks for several: VictoriaMetrics keeps it where Prometheus drops it.
func vectorOf(t *testing.T, of panel, body string) map[string]float64 {
	var a struct {
		Data struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &a))
	require.Equal(t, "vector", a.Data.ResultType)
	out := make(map[string]float64)
	for _, s := range a.Data.Result {
		if !strings.Contains(of.text, "__name__") {
			delete(s.Metric, "__name__")
		}
		v, err := strconv.ParseFloat(s.Value[1].(string), 64)
		require.NoError(t, err)
		require.NotContains(t, out, fmt.Sprint(s.Metric), of.name)
		out[fmt.Sprint(s.Metric)] = v
	}
	return out
}

// tsbs is the questions of the guide, which are about six hours, for a day.
func (p *panels) tsbs(t *testing.T) (out []panel) {
	guide, err := os.ReadFile("../../docs/reference/promql.md")
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
			if hour := math.Mod(at, 24); kind == 4 && (hour < 6 || hour > 22) {
				velocity = 0 // it stands still at night
			}
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
				return math.Round(100*(1-math.Mod(at/8.4+k/8, 1))) / 100
			case 6:
				return math.Round(100 * (12 + 12*math.Round(4*wave(11))/4))
			case 7:
				return []float64{1500, 2000, 5000}[kind%3]
			}
			return math.Round(max(0, 2.5+3.5*wave(5)))
		},
	}
}
