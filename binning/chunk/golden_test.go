package chunk_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false,
	"write the golden chunks that are missing (those that are there never change), and what is printed of them")

// TestGolden reads every document in testdata, written by this or an earlier release, and holds it against the values
// beside it. That today's Encode writes the same bytes is not asked: a newer zstd may pack better.
func TestGolden(t *testing.T) {
	if *update {
		for name, f := range goldenFrames() {
			writeMissing(t, fmt.Sprintf("v%d-%s.json", chunk.Version, name), encode(t, f))
			writeMissing(t, fmt.Sprintf("v%d-%s.txt", chunk.Version, name), []byte(dump(headerOf(f).ID, f)))
		}
	}
	docs, err := filepath.Glob(filepath.Join("testdata", "v*.json"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(docs), len(goldenFrames()))
	for _, name := range docs {
		t.Run(filepath.Base(name), func(t *testing.T) {
			doc, err := os.ReadFile(name)
			require.NoError(t, err)
			want, err := os.ReadFile(strings.TrimSuffix(name, ".json") + ".txt")
			require.NoError(t, err)
			c, err := chunk.Parse(doc)
			require.NoError(t, err)
			f, err := c.Frame(nil)
			require.NoError(t, err)
			require.Equal(t, string(want), dump(c.Header.ID, f))
		})
	}
}

func writeMissing(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if _, err := os.Stat(path); err == nil {
		return
	}
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	require.NoError(t, os.WriteFile(path, b, 0o644))
}

// dump writes every value of a frame on a line of its own, numbers as the bits they are.
func dump(id chunk.ID, f chunk.Frame) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", id)
	for _, g := range f.Groups {
		fmt.Fprintf(&b, "labels %q\n", g.Labels)
		for i := range g.Columns {
			c := &g.Columns[i]
			fmt.Fprintf(&b, "%s %q\n", c.Kind, c.Metric)
			k := 0
			for row, at := range g.Times {
				if !c.Present.Has(row) {
					continue
				}
				if c.Kind == telemetry.Text {
					fmt.Fprintf(&b, "%d %q\n", at, c.Texts[k])
				} else {
					fmt.Fprintf(&b, "%d %x\n", at, c.Bits[k])
				}
				k++
			}
		}
	}
	return b.String()
}

// noise is a generator of its own, so that golden frames are the same for ever (Knuth's MMIX multiplier).
type noise uint64

func (n *noise) next(below int) int {
	*n = *n*6364136223846793005 + 1442695040888963407
	return int(uint64(*n>>33) % uint64(below))
}

// goldenFrames use every form that a column or a clock can take.
func goldenFrames() map[string]chunk.Frame {
	return map[string]chunk.Frame{
		"labels-and-kinds": labelled(),
		"one-value":        oneColumn(telemetry.Float, math.Float64bits(21.5)),
		"odd-floats":       oneColumn(telemetry.Float, oddFloats()...),
		"large":            goldenLarge(),
		"small":            goldenSmall(),
		"wide":             goldenWide(),
	}
}

// goldenLarge is a chunk of a string per column: decimals with strays, float32, doubles, dictionaries of numbers,
// texts, a gap, a sparse column, and a clock that jitters around a grid.
func goldenLarge() chunk.Frame {
	n := noise(1)
	var points []point
	walk, full, load := 20.0, 1.0, 7
	for i := range 250 {
		at := int64(1795183200000) + int64(i)*10_000 + int64(n.next(80))
		add := func(metric string, v telemetry.Value) { points = append(points, point{at, metric, v}) }
		walk += float64(n.next(21)-10) / 10
		decimal := math.Round(walk*10) / 10
		if i%50 == 7 {
			decimal = math.Nextafter(decimal, 1000)
		}
		full *= 1 + float64(n.next(1000))/1e6
		if n.next(20) == 0 {
			load = n.next(5000)
		}
		add("decimal", telemetry.FloatValue(decimal))
		add("single", telemetry.FloatValue(float64(float32(20+float64(n.next(300))/10))))
		add("full", telemetry.FloatValue(full))
		add("repeated", telemetry.FloatValue([]float64{1.0 / 3, 2.0 / 7, math.Pi, 1e100}[n.next(4)]))
		add("ids", telemetry.IntValue([]int64{math.MaxInt64, -5, 1 << 40, 12}[n.next(4)]))
		add("counter", telemetry.IntValue(int64(i)*1500+int64(n.next(3))*25))
		add("load", telemetry.IntValue(int64(load)))
		add("state", telemetry.TextValue([]string{"idle", "running", "error"}[n.next(30)/14]))
		add("message", telemetry.TextValue(fmt.Sprint("event ", n.next(1_000_000))))
		if n.next(10) > 0 {
			add("open", telemetry.BoolValue(n.next(3) == 0))
		}
	}
	return frameOf(points)
}

// goldenSmall is a chunk of one string, on a clock that waits a period between readings and loses some.
func goldenSmall() chunk.Frame {
	n := noise(2)
	at := int64(1795183200123)
	var points []point
	for range 20 {
		at += 1000 + int64(n.next(5)) + int64(n.next(10)/9)*1000
		points = append(points,
			point{at, "latitude", telemetry.FloatValue(52 + float64(n.next(1000))/1e5)},
			point{at, "speed", telemetry.IntValue(int64(n.next(80)))},
			point{at, "gear", telemetry.TextValue([]string{"D", "R"}[n.next(2)])})
	}
	return frameOf(points)
}

// goldenWide is a chunk of packs: two label sets, all kinds, gaps, and numbers with odd statistics.
func goldenWide() chunk.Frame {
	n := noise(3)
	var f chunk.Frame
	for set := range 2 {
		var points []point
		for i := range 12 {
			at := int64(1795183200000) + int64(i)*60_000 + int64(set)
			for m := range 150 {
				name := fmt.Sprintf("sensor/%03d", m)
				switch {
				case m == 7:
					points = append(points, point{at, name, telemetry.FloatValue([]float64{math.Inf(1), math.NaN()}[i%2])})
				case m == 8:
					points = append(points, point{at, name, telemetry.IntValue(math.MaxInt64 - int64(n.next(9)))})
				case m%50 == 9:
					points = append(points, point{at, name, telemetry.TextValue([]string{"on", "off"}[n.next(2)])})
				case m%50 == 10:
					points = append(points, point{at, name, telemetry.BoolValue(n.next(2) == 0)})
				case m%3 == 0 && n.next(4) == 0:
				default:
					points = append(points, point{at, name, telemetry.FloatValue(float64(m) + float64(n.next(200))/10)})
				}
			}
		}
		g := frameOf(points).Groups[0]
		if set > 0 {
			g.Labels = telemetry.Labels{{Name: "side", Value: "left"}}
		}
		f.Groups = append(f.Groups, g)
	}
	return f
}
