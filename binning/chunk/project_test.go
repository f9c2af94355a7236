package chunk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// wideFrame is a random frame of so many metrics, some of which have columns of two kinds, in up to two label sets.
func wideFrame(r *rand.Rand, metrics, rows int) chunk.Frame {
	var f chunk.Frame
	day := telemetry.Day(20_000)
	for i := range 1 + r.IntN(2) {
		g := chunk.Group{Times: randomTimes(r, day, rows)}
		if i > 0 {
			g.Labels = telemetry.Labels{{Name: "axle", Value: "left"}}
		}
		for j := range metrics {
			g.Columns = append(g.Columns, randomColumns(r, fmt.Sprintf("é %05d", j*7), len(g.Times))...)
		}
		f.Groups = append(f.Groups, g)
	}
	return f
}

// shuffled is a document with the properties of all objects in another order, names escaped, and others strewn in.
func shuffled(t *testing.T, r *rand.Rand, doc []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	var b bytes.Buffer
	writeShuffled(t, r, &b, v, true)
	return b.Bytes()
}

func writeShuffled(t *testing.T, r *rand.Rand, b *bytes.Buffer, v any, ours bool) {
	switch v := v.(type) {
	case map[string]any:
		if ours {
			v["_more"] = []any{map[string]any{"columns": "}]", "metric": "\\\"}"}, "x]", json.Number("1e5"), nil, false}
			v["_etag"] = `"00"`
		}
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteString(" ,\n")
			}
			writeString(r, b, name)
			b.WriteString(" : ")
			writeShuffled(t, r, b, v[name], ours && name != "labels" && name[0] != '_')
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeShuffled(t, r, b, x, ours)
		}
		b.WriteByte(']')
	case string:
		writeString(r, b, v)
	default:
		text, err := json.Marshal(v)
		require.NoError(t, err)
		b.Write(text)
	}
}

// writeString writes s with some of its ASCII characters as escapes.
func writeString(r *rand.Rand, b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, c := range s {
		if c < 0x20 || c == '"' || c == '\\' || c < 0x80 && r.IntN(30) == 0 {
			fmt.Fprintf(b, `\u%04x`, c)
		} else {
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

// A reader of some metrics gets of them what a reader of all gets, whatever the order of properties is.
func TestParseColumns(t *testing.T) {
	const seed = 21
	r := rand.New(rand.NewPCG(seed, 0))
	frames := []chunk.Frame{labelled(), frameOf(truckPoints(1, 20)), frameOf(truckPoints(1, 400))}
	for range 60 {
		frames = append(frames, randomFrame(r, 400))
	}
	for _, metrics := range []int{20, 33, 70, 400} {
		frames = append(frames, wideFrame(r, metrics, 1+r.IntN(60)))
	}
	for i, f := range frames {
		doc := encode(t, f)
		if i%3 > 0 {
			doc = shuffled(t, r, doc)
		}
		whole, err := chunk.Parse(doc)
		require.NoError(t, err, "seed %d frame %d", seed, i)
		all := whole.Columns()
		asked := []string{all[r.IntN(len(all))].Metric, "none such", all[r.IntN(len(all))].Metric}
		c, err := chunk.ParseColumns(doc, asked)
		require.NoError(t, err, "seed %d frame %d", seed, i)
		require.Equal(t, whole.Header, c.Header)
		var infos []chunk.ColumnInfo
		for _, info := range all {
			if slices.Contains(asked, info.Metric) {
				infos = append(infos, info)
			}
		}
		require.Equal(t, infos, c.Columns())
		for _, metrics := range [][]string{nil, asked, asked[:1]} {
			got, err := c.Frame(metrics)
			require.NoError(t, err)
			if metrics == nil {
				metrics = asked
			}
			want, err := whole.Frame(metrics)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		none, err := c.Frame([]string{"none such"})
		require.NoError(t, err)
		require.Empty(t, none.Groups)
	}
}

// TestLastRow compares the last row of statistics with the last row of the frame, or expects no row.
func TestLastRow(t *testing.T) {
	const seed = 23
	r := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for i := range 2000 {
		f := randomFrame(r, []int{1, 5, 300}[i%3])
		c, err := chunk.Parse(encode(t, f))
		require.NoError(t, err)
		all := c.Columns()
		asked := []string{all[r.IntN(len(all))].Metric, all[r.IntN(len(all))].Metric}
		for _, metrics := range [][]string{nil, asked, asked[:1]} {
			got, ok := c.LastRow(metrics)
			if !ok {
				continue
			}
			found++
			want, err := c.Frame(metrics)
			require.NoError(t, err)
			require.Len(t, want.Groups, 1)
			g := &want.Groups[0]
			g.Times = g.Times[len(g.Times)-1:]
			for k := range g.Columns {
				require.Nil(t, g.Columns[k].Present)
				g.Columns[k].Bits = g.Columns[k].Bits[len(g.Columns[k].Bits)-1:]
			}
			require.Equal(t, want, got, "seed %d, frame %d", seed, i)
		}
	}
	require.Greater(t, found, 100)

	one := math.Float64bits(1)
	for what, bits := range map[string][2][]uint64{
		"a zero may lose its sign": {{one, 0}, {0, one}}, "a NaN": {{math.Float64bits(math.NaN()), one}, {one, one}}} {
		for i, ok := range []bool{false, true} {
			c, err := chunk.Parse(encode(t, oneColumn(telemetry.Float, bits[i]...)))
			require.NoError(t, err)
			_, got := c.LastRow(nil)
			require.Equal(t, ok, got, what)
		}
	}
	c, err := chunk.Parse(encode(t, oneColumn(telemetry.Int, 1<<53+1, 1)))
	require.NoError(t, err)
	_, ok := c.LastRow(nil)
	require.False(t, ok, "whoever answers in floats warns of the first")
}

// Wide frames come back whole, whatever is in them.
func TestWideFrameRoundTrip(t *testing.T) {
	const seed = 22
	r := rand.New(rand.NewPCG(seed, 0))
	for i, v := range []struct{ metrics, rows int }{{33, 1}, {33, 300}, {100, 7}, {700, 1}, {1500, 3}, {60, 2000}} {
		f := wideFrame(r, v.metrics, v.rows)
		doc := encode(t, f)
		require.Contains(t, string(doc), `{"pack":`, "seed %d frame %d", seed, i)
		requireSame(t, f, doc)
		c, err := chunk.Parse(doc)
		require.NoError(t, err)
		k := 0
		infos := c.Columns()
		for _, g := range f.Groups {
			for j := range g.Columns {
				narrow := chunk.Frame{Groups: []chunk.Group{{Times: g.Times, Columns: g.Columns[j : j+1]}}}
				want, err := chunk.Parse(encode(t, narrow))
				require.NoError(t, err)
				w := want.Columns()[0]
				w.Labels = g.Labels
				require.Equal(t, w, infos[k])
				k++
			}
		}
		require.Len(t, infos, k)
	}
}

// Long names fill the index of a pack before its values do.
func TestPacksOfLongNames(t *testing.T) {
	var points []point
	for i := range 300 {
		points = append(points, point{1795183200000, fmt.Sprintf("%05d %s", i*7919%100000, strings.Repeat("\u2028é", 97)),
			telemetry.IntValue(int64(i))})
	}
	f := frameOf(points)
	requireSame(t, f, encode(t, f))
}

func TestOverhead(t *testing.T) {
	for _, f := range []chunk.Frame{labelled(), frameOf(truckPoints(1, 20)), frameOf(truckPoints(1, 400)),
		wideFrame(rand.New(rand.NewPCG(1, 1)), 50, 9)} {
		doc := encode(t, f)
		overhead, err := chunk.Overhead(doc)
		require.NoError(t, err)
		data := 0
		var d struct {
			Time, Data string
			Columns    []struct{ Data string }
		}
		require.NoError(t, json.Unmarshal(doc, &d))
		for _, c := range d.Columns {
			data += len(c.Data)
		}
		require.Equal(t, len(doc)-len(d.Time)-len(d.Data)-data, overhead)
	}
	_, err := chunk.Overhead([]byte("{}"))
	require.ErrorIs(t, err, chunk.ErrCorrupt)
}
