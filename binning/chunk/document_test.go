package chunk_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// labelled is a frame with all that a document can hold: label sets, kinds, gaps, odd numbers.
func labelled() chunk.Frame {
	nan := math.Float64bits(math.NaN())
	inf, minusInf := math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1))
	third := chunk.NewBitmap(3)
	third.Set(2)
	others := chunk.NewBitmap(3)
	others.Set(0)
	others.Set(1)
	at := int64(1795183200123)
	return chunk.Frame{Groups: []chunk.Group{
		{Times: []int64{at, at + 1000, at + 2000}, Columns: []chunk.Column{
			{Metric: "door", Kind: telemetry.Bool, Bits: []uint64{1, 0, 1}},
			{Metric: "fuel", Kind: telemetry.Float, Present: others, Bits: []uint64{math.Float64bits(0.1),
				math.Float64bits(-0.5)}},
			{Metric: "fuel", Kind: telemetry.Text, Present: third, Texts: []string{"empty \"so\" \\ \x00"}},
			{Metric: "odometer", Kind: telemetry.Int, Bits: []uint64{9007199254740993, 1 << 63, 5}},
			{Metric: "slope", Kind: telemetry.Float, Bits: []uint64{nan, inf, minusInf}},
		}},
		{Labels: telemetry.Labels{{Name: "axle", Value: "a\"\\\x01\x7fé😀<"}, {Name: "side", Value: ""}},
			Times: []int64{at + 1000}, Columns: []chunk.Column{
				{Metric: "load", Kind: telemetry.Float, Bits: []uint64{math.Float64bits(1e21)}},
			}},
	}}
}

func TestHeaderRoundTrip(t *testing.T) {
	f := labelled()
	h := headerOf(f)
	doc, err := chunk.Encode(h, f)
	require.NoError(t, err)
	c, err := chunk.Parse(doc)
	require.NoError(t, err)
	h.From, h.To, h.Rows, h.Unique = 1795183200123, 1795183202123, 4, false
	require.Equal(t, h, c.Header)
	requireSame(t, f, doc)
	bytes := 0.0
	for _, n := range c.ColumnBytes() {
		require.Positive(t, n)
		bytes += n
	}
	overhead, err := chunk.Overhead(doc)
	require.NoError(t, err)
	require.LessOrEqual(t, bytes, float64(len(doc)-overhead), "columns take no more than instants and values")

	f.Groups[1].Times[0] += 1
	h.TTL, h.After = 0, -1
	doc, err = chunk.Encode(h, f)
	require.NoError(t, err)
	require.NotContains(t, string(doc), "ttl")
	c, err = chunk.Parse(doc)
	require.NoError(t, err)
	h.Unique = true
	require.Equal(t, h, c.Header)
}

func TestDocumentIsJSONAndNamesItsParts(t *testing.T) {
	for _, f := range []chunk.Frame{labelled(), frameOf(truckPoints(1, 1000)), frameOf(truckPoints(1, 10))} {
		var d struct {
			ID, Type, TenantShard, Device string
			V                             int
			Time, Data                    *string
			Labels                        []map[string]string
			Columns                       []struct {
				Metric, Type string
				Labels       int
				Data         *string
			}
		}
		require.NoError(t, json.Unmarshal(encode(t, f), &d))
		require.Equal(t, "chunk", d.Type)
		require.Equal(t, "acme~cg", d.TenantShard)
		require.Equal(t, "truck-0042", d.Device)
		require.Equal(t, 1, d.V)
		require.True(t, (d.Time == nil) != (d.Data == nil))
		k := 0
		for i, g := range f.Groups {
			if len(f.Groups) > 1 {
				require.Equal(t, g.Labels, telemetry.LabelsOf(d.Labels[i]))
			}
			for _, c := range g.Columns {
				require.Equal(t, c.Metric, d.Columns[k].Metric)
				require.Equal(t, c.Kind.String(), d.Columns[k].Type)
				require.Equal(t, i, d.Columns[k].Labels)
				require.Equal(t, d.Data == nil, d.Columns[k].Data != nil)
				k++
			}
		}
	}
}

// TestLabelsAreStoredOnce looks at a wide device: six label sets of ten metrics.
func TestLabelsAreStoredOnce(t *testing.T) {
	f := chunk.Frame{}
	for axle := range 6 {
		g := frameOf(truckPoints(axle, 100)).Groups[0]
		g.Labels = telemetry.Labels{{Name: "axle", Value: string(rune('a' + axle))},
			{Name: "position", Value: "somewhere on the left"}}
		f.Groups = append(f.Groups, g)
	}
	doc := encode(t, f)
	requireSame(t, f, doc)
	require.Equal(t, 6, strings.Count(string(doc), "somewhere"))
	around := len(doc) - binarySize(t, doc)*4/3
	t.Logf("60 columns, %d values: %d bytes, of which %d are not data", f.Values(), len(doc), around)
	require.Less(t, around, 60*40+600)
}

// TestDocumentKeepsValuesThroughFloat64 sends documents through an engine that keeps every number as a float64, spells
// it its own way and adds properties, as the service does.
func TestDocumentKeepsValuesThroughFloat64(t *testing.T) {
	for _, f := range []chunk.Frame{labelled(), frameOf(truckPoints(1, 1000))} {
		doc := encode(t, f)
		var object map[string]any
		require.NoError(t, json.Unmarshal(doc, &object))
		object["_rid"], object["_etag"], object["_ts"], object["_more"] = "x==", `"0"`, 1795190000, []any{map[string]any{}}
		stored, err := json.MarshalIndent(object, "", "  ")
		require.NoError(t, err)
		exponents := strings.NewReplacer(`"to": 1795183202123`, `"to": 1.795183202123E12`, `"rows": 4,`,
			`"rows": 4.0,`).Replace(string(stored))

		want, err := chunk.Parse(doc)
		require.NoError(t, err)
		got, err := chunk.Parse([]byte(exponents))
		require.NoError(t, err)
		require.Equal(t, want.Header, got.Header)
		require.Equal(t, want.Columns(), got.Columns())
		frame, err := got.Frame(nil)
		require.NoError(t, err)
		require.Equal(t, f, frame)
	}
}

func TestParseKeepsNothingOfItsArgument(t *testing.T) {
	f := frameOf(truckPoints(1, 1000))
	doc := encode(t, f)
	c, err := chunk.Parse(doc)
	require.NoError(t, err)
	clear(doc)
	_, err = chunk.Parse(encode(t, frameOf(truckPoints(2, 300)))) // takes the parser's memory over
	require.NoError(t, err)
	got, err := c.Frame(nil)
	require.NoError(t, err)
	require.Equal(t, f, got)
}

func TestStats(t *testing.T) {
	float, whole, text, flag := telemetry.FloatValue, telemetry.IntValue, telemetry.TextValue, telemetry.BoolValue
	for _, v := range []struct {
		name   string
		values []telemetry.Value
		want   chunk.Stats
	}{
		{"floats", []telemetry.Value{float(2), float(-1.5), float(4)},
			chunk.Stats{Count: 3, Min: float(-1.5), Max: float(4), Sum: float(4.5), First: float(2), Last: float(4)}},
		{"the sum is compensated", []telemetry.Value{float(1e16), float(1), float(1), float(-1e16)},
			chunk.Stats{Count: 4, Min: float(-1e16), Max: float(1e16), Sum: float(2), First: float(1e16), Last: float(-1e16)}},
		{"odd floats stand apart", []telemetry.Value{float(math.NaN()), float(3), float(math.Inf(1)), float(1),
			float(math.Inf(-1)), float(math.NaN())},
			chunk.Stats{Count: 2, Min: float(1), Max: float(3), Sum: float(4), First: float(3), Last: float(1), NaN: 2,
				PosInf: 1, NegInf: 1}},
		{"nothing but odd floats", []telemetry.Value{float(math.NaN()), float(math.Inf(1))}, chunk.Stats{NaN: 1, PosInf: 1}},
		{"a float sum too large", []telemetry.Value{float(1e308), float(1e308)},
			chunk.Stats{Count: 2, Min: float(1e308), Max: float(1e308), First: float(1e308), Last: float(1e308)}},
		{"floats keep their last bit", []telemetry.Value{float(74.93588199999998), float(5e-324)},
			chunk.Stats{Count: 2, Min: float(5e-324), Max: float(74.93588199999998), Sum: float(74.93588199999998),
				First: float(74.93588199999998), Last: float(5e-324)}},
		{"ints beyond 2^53", []telemetry.Value{whole(math.MaxInt64 - 1), whole(-9007199254740993)},
			chunk.Stats{Count: 2, Min: whole(-9007199254740993), Max: whole(math.MaxInt64 - 1),
				Sum: whole(math.MaxInt64 - 1 - 9007199254740993), First: whole(math.MaxInt64 - 1), Last: whole(-9007199254740993)}},
		{"an int sum too large", []telemetry.Value{whole(math.MaxInt64), whole(1), whole(-1)},
			chunk.Stats{Count: 3, Min: whole(-1), Max: whole(math.MaxInt64), First: whole(math.MaxInt64), Last: whole(-1)}},
		{"an int sum too small", []telemetry.Value{whole(math.MinInt64), whole(-1)},
			chunk.Stats{Count: 2, Min: whole(math.MinInt64), Max: whole(-1), First: whole(math.MinInt64), Last: whole(-1)}},
		{"zeros", []telemetry.Value{whole(0), whole(0)},
			chunk.Stats{Count: 2, Min: whole(0), Max: whole(0), Sum: whole(0), First: whole(0), Last: whole(0)}},
		{"bools", []telemetry.Value{flag(true), flag(false), flag(true)},
			chunk.Stats{Count: 3, Min: flag(false), Max: flag(true), Sum: whole(2), First: flag(true), Last: flag(true)}},
		{"texts", []telemetry.Value{text("b"), text("a")}, chunk.Stats{Count: 2}},
	} {
		t.Run(v.name, func(t *testing.T) {
			var points []point
			for i, x := range v.values {
				points = append(points, point{1795183200000 + int64(i), "x", x})
			}
			c, err := chunk.Parse(encode(t, frameOf(points)))
			require.NoError(t, err)
			require.Equal(t, []chunk.ColumnInfo{{Metric: "x", Kind: v.values[0].Kind(), Stats: v.want}}, c.Columns())
		})
	}
}

func TestStatsOfColumnsAreListedInOrder(t *testing.T) {
	c, err := chunk.Parse(encode(t, labelled()))
	require.NoError(t, err)
	var names []string
	for _, x := range c.Columns() {
		names = append(names, x.Metric+" "+x.Kind.String())
	}
	require.Equal(t, []string{"door bool", "fuel float", "fuel text", "odometer int", "slope float", "load float"}, names)
	require.Equal(t, labelled().Groups[1].Labels, c.Columns()[5].Labels)
	require.Equal(t, 3, slices.MaxFunc(c.Columns(), func(a,
		b chunk.ColumnInfo) int {
		return a.Stats.NaN - b.Stats.NaN
	}).Stats.Values())
}
