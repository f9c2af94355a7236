package decode_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"binnacle/ingest/decode"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"
)

// meter is a decode.Meter.
type meter struct{ calls, most int }

func (m *meter) Made(bytes int) { m.calls, m.most = m.calls+1, max(m.most, bytes) }

// decoded decodes a record, and returns how many bytes were allocated for it.
func decoded(opts decode.Options, r decode.Record) (got decode.Result, allocated uint64) {
	d := decode.New(opts)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got = d.Decode(r)
	runtime.ReadMemStats(&after)
	return got, after.TotalAlloc - before.TotalAlloc
}

// What a record becomes is counted before it is made, whatever names it by reference, repeats it or packs it. One that
// becomes too much is refused as a whole, after some multiple of its bound was allocated and no more.
func TestRecordThatBecomesTooMuch(t *testing.T) {
	const nested = `{"type":"record","name":"R","fields":[{"name":"a","type":` +
		`{"type":"map","values":{"type":"map","values":"bytes"}}}]}`
	const flat, list = "application/json; format=flat", `{"type":"array","items":` +
		`{"type":"record","name":"R","fields":[{"name":"a","type":"null"}]}}`
	record := func(kind, value string, headers ...decode.Header) decode.Record {
		return decode.Record{Value: []byte(value), ContentType: kind, Headers: headers, Timestamp: noonMillis}
	}
	long := strings.Repeat("x", 190)
	var fields, line strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&fields, `,"%x":1`, i)
		fmt.Fprintf(&line, ",%x=1", i)
	}
	m, metrics := host(map[string]any{"device": "m1", "service.name": strings.Repeat("s", 60_000)})
	for i := range 500 {
		gauge(metrics, "v", "", 1).put("i", i)
	}
	deep, metrics := host(map[string]any{"device": "m1"})
	gauge(metrics, "v", "", 1).put("l", make([]any, 600_000))
	req := writev2.Request{Symbols: []string{"", "__name__", "up", "instance", "m1", "a", strings.Repeat("x", 1<<15), "b"}}
	for i := range 600 {
		req.Symbols = append(req.Symbols, fmt.Sprint(i))
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{
			LabelsRefs: []uint32{1, 2, 3, 4, 5, 6, 7, uint32(8 + i)}, Samples: []writev2.Sample{{Value: 1}}})
	}
	references, err := req.Marshal()
	require.NoError(t, err)
	symbols, err := (&writev2.Request{Symbols: make([]string, 4_000_000)}).Marshal()
	require.NoError(t, err)
	tags := map[string]any{"device": "m1"}
	labelled := []sent{{labels: label("__name__", "up", "instance", "m1")}}
	for i := range 20_000 {
		tags[fmt.Sprint("t", i)] = "x"
		labelled[0].labels = append(labelled[0].labels, prompb.Label{Name: fmt.Sprint("t", i), Value: "x"})
	}
	tagged, metrics := host(tags)
	gauge(metrics, "v", "", 1)
	for i := range 2_000 {
		metrics.metrics[0].add(dataPoint{time: noon + uint64(i)*1e6, value: 1.5})
		labelled[0].samples = append(labelled[0].samples, prompb.Sample{Timestamp: noonMillis + int64(i)})
	}
	wide, below := strings.Repeat("x", 100_000), binary.AppendVarint(nil, 1)
	below = append(append(binary.AppendVarint(below, int64(len(wide))), wide...), binary.AppendVarint(nil, 10_000)...)
	below = append(below, strings.Repeat("\x02a\x00", 10_000)+"\x00\x00"...)
	module := decode.Header{Key: "iothub-connection-module-id", Value: bytes.Repeat([]byte("m"), 10_000)}
	device := decode.Header{Key: "iothub-connection-device-id", Value: []byte("m1")}
	for name, r := range map[string]decode.Record{
		"elements that are no message": record("", "["+strings.Repeat("0,", 1_000_000)+"0]"),
		"messages without a value":     record(flat, "["+strings.Repeat("{},", 800_000)+"{}]"),
		"names below a long one":       record(flat, `{"ts":1,"`+long+`":{`+fields.String()[1:]+"}}"),
		"arrays below a long name":     record(flat, `{"`+wide+`":{`+strings.Repeat(`"a":[],`, 10_000)+`"a":[]}}`),
		"bytes below a long name":      registered(2, below),
		"names behind a measurement":   record("text/plain; format=influx", long+",device=m1 "+line.String()[1:]+"\n"),
		"labels of a resource":         record("", string(m.protobuf())),
		"the same in JSON":             record("", string(m.json())),
		"tags of many readings":        record("", string(tagged.protobuf())),
		"labels of many readings":      version1(t, labelled),
		"an attribute of much":         record("", string(deep.protobuf())),
		"labels by reference":          record(write2, string(snappy.Encode(nil, references))),
		"a table of nothing":           record(write2, string(snappy.Encode(nil, symbols))),
		"the module of a hub":          record(flat, "["+strings.Repeat(`{"a":1},`, 10_000)+`{"a":1}]`, device, module),
		"records of nothing in Avro":   registered(1, bytes.Repeat(binary.AppendVarint(nil, 60), 100_000)),
		"records of nothing in CBOR":   record(cborType, "\x9f"+strings.Repeat("\xa1\x00\x61\x61", 900_000)+"\xff"),
	} {
		t.Run(name, func(t *testing.T) {
			var seen meter
			got, allocated := decoded(decode.Options{Tenant: "acme", Device: "m1", Meter: &seen,
				Schemas: schemas{1: {Text: list}, 2: {Text: nested}}}, r)
			bound := 16<<20 + 8*len(r.Value)
			t.Logf("%d bytes: %d MB allocated, %d MB counted, of %d MB", len(r.Value), allocated>>20, seen.most>>20, bound>>20)
			require.True(t, len(got.Readings) == 0, "%d readings", len(got.Readings))
			require.Less(t, allocated, uint64(6*bound))
			if strings.HasPrefix(name, "elements") || strings.Contains(name, "without") || strings.Contains(name, "nothing in") {
				require.LessOrEqual(t, len(got.Bad), 101, "what is refused alike is kept once")
				return
			}
			require.Len(t, got.Bad, 1)
			require.Equal(t, decode.TooLarge, got.Bad[0].Reason, got.Bad[0].Detail)
			require.Equal(t, decode.Whole, got.Bad[0].Index)
			require.Greater(t, seen.most, bound/2)
		})
	}
}

// A pack's base name and base unit are as long as its sender likes, and stand for each record of it.
func TestLongBasesOfSenML(t *testing.T) {
	for _, base := range []string{"bn", "bu"} {
		got, allocated := decoded(decode.Options{Tenant: "acme", Device: "m1"}, decode.Record{
			ContentType: "application/senml+json", Timestamp: noonMillis, Value: fmt.Appendf(nil, `[{"%s":"%s"}%s]`, base, strings.Repeat("x", 100_000),
				strings.Repeat(`,{"n":"a","v":1}`, 1000))})
		require.Equal(t, base == "bu", len(got.Readings) == 1, base)
		require.Less(t, allocated, uint64(8<<20), base)
	}
}

// Ordinary records are taken, however large they are, and take a small multiple of their bytes. The meter sees it.
func TestLargeOrdinaryRecordsAreTaken(t *testing.T) {
	var list, lines strings.Builder
	m, metrics := host(map[string]any{"device": "m1", "service.name": "pumps"})
	gauge(metrics, "temperature", "Cel", 1)
	series := make([]sent, 0, 10_000)
	for i := range 10_000 {
		fmt.Fprintf(&list, `{"device":"m%d","ts":%d,"values":{"temperature":%d.5,"pressure":%d},"labels":{"site":"north"}},`,
			i%100, noonMillis+i, i, i)
		fmt.Fprintf(&lines, "pump,device=m%d,site=north temperature=%d.5,pressure=%di %d000000\n", i%100, i, i, noonMillis+i)
		metrics.metrics[0].add(dataPoint{time: noon, value: float64(i),
			attributes: map[string]any{"pump": fmt.Sprint("pump-", i), "site": "north"}})
		series = append(series, sent{
			labels:  label("__name__", "temperature", "instance", "m1", "job", "pumps", "pump", fmt.Sprint("pump-", i)),
			samples: []prompb.Sample{{Value: 1, Timestamp: noonMillis}, {Value: 2, Timestamp: noonMillis + 1}}})
	}
	inJSON := m.json()
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, inJSON, "", "  "))
	for name, r := range map[string]decode.Record{
		"JSON":             {Value: []byte("[" + strings.TrimSuffix(list.String(), ",") + "]")},
		"line protocol":    {Value: []byte(lines.String())},
		"OTLP in JSON":     {Value: inJSON},
		"indented":         {Value: indented.Bytes()},
		"remote write 1.0": version1(t, series),
		"remote write 2.0": version2(t, series),
	} {
		t.Run(name, func(t *testing.T) {
			var seen meter
			got, allocated := decoded(decode.Options{Tenant: "acme", Device: "m1", Meter: &seen}, r)
			t.Logf("%d bytes: %d KB allocated, %d KB counted", len(r.Value), allocated>>10, seen.most>>10)
			require.Empty(t, got.Bad)
			require.GreaterOrEqual(t, len(got.Readings), 10_000)
			require.Positive(t, seen.calls)
			require.Less(t, seen.most, max(8<<20, 3*len(r.Value)))
		})
	}
}

// panics is schemas of a registry.
type panics struct{}

func (panics) Schema(uint32) (decode.Schema, bool) { panic("out of order") }

// A record on which a decoder panics is refused: it would end the process again after each restart.
func TestPanicOfADecoderRefusesTheRecord(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "acme", Device: "m1", Schemas: panics{}})
	got := d.Decode(registered(1, []byte("\x00")))
	require.Empty(t, got.Readings)
	require.Equal(t, []decode.Bad{{Index: decode.Whole, Reason: decode.Undecodable,
		Detail: decode.Panicked + ": out of order"}}, got.Bad)
	require.Len(t, d.Decode(decode.Record{Value: []byte(`{"ts":1,"values":{"a":1}}`)}).Readings, 1)
}

// The JSON of OTLP may spell names as the protocol's definition does, numbers as text, and enumerations by name.
func TestSpellingsOfOTLPInJSON(t *testing.T) {
	const text = `{"resourceMetrics":[{"schemaUrl":"x","scopeMetrics":[{"metrics":[{"sum":{"dataPoints":[%s],` +
		`"aggregationTemporality":%s},"name":"a"}]}],"resource":{"attributes":null}}]}`
	d := decode.New(decode.Options{Tenant: "acme", Device: "m1"})
	for point, want := range map[string]string{
		`{"asInt":"7","timeUnixNano":"1000000"}`:       "7",
		`{"as_int":7,"time_unix_nano":1000000}`:        "7",
		`{"asDouble":"-Infinity"}`:                     "-Inf",
		`{"asDouble":1e2,"exemplars":[{"x":[1]}]}`:     "100",
		`{"asInt":1,"asDouble":"2.5"}`:                 "2.5",
		`{"asInt":1,"attributes":[{"key":"a"}]}`:       "1",
		`{"asInt":-9223372036854775808,"flags":"0"}`:   "-9223372036854775808",
		`{"asDouble":-0.0,"startTimeUnixNano":"none"}`: "-0",
	} {
		for temporality, label := range map[string]bool{`"AGGREGATION_TEMPORALITY_DELTA"`: true, "1": true, "2": false} {
			got := d.Decode(decode.Record{Value: fmt.Appendf(nil, text, point, temporality)})
			require.Empty(t, got.Bad, point)
			require.Len(t, got.Readings, 1, point)
			require.Equal(t, want, got.Readings[0].Fields[0].Value.String(), point)
			value, _ := got.Readings[0].Labels.Get("temporality")
			require.Equal(t, label, value == "delta", point)
		}
	}
	for _, point := range []string{`{"asInt":1.5}`, `{"asInt":null}`, `{"asDouble":"x"}`, `{"asInt":1,"flags":-1}`, `[]`,
		`{"asInt":1,"attributes":[{"key":1}]}`, `{"asInt":1,"attributes":[{"key":"a","value":{"bytesValue":"?"}}]}`, `{`} {
		got := d.Decode(decode.Record{Value: fmt.Appendf(nil, text, point, "1")})
		require.Empty(t, got.Readings, point)
		require.Len(t, got.Bad, 1, point)
		require.Equal(t, decode.Undecodable, got.Bad[0].Reason, point)
	}
}
