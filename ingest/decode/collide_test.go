package decode_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/fxamacker/cbor/v2"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// collisionOptions give names of all formats their roles.
func collisionOptions() decode.Options {
	return decode.Options{Tenant: "acme", Device: "gw", Sequence: "seq",
		Lines:  decode.Lines{DeviceTag: "device", TenantTag: "tenant", Tags: []string{"model"}},
		Object: decode.ObjectNames{Labels: []string{"site", "at_site"}, Tags: []string{"model"}}}
}

// Where two of its names become one, an element is refused, unless both say the same: nothing is lost without a word.
func TestNamesThatCollideAreRefused(t *testing.T) {
	const line, hub = "text/plain; format=influx", `{"SystemProperties":{"connectionDeviceId":"m1"},`
	for _, c := range []struct {
		kind, text string
		want       decode.Reason // empty: it is taken
	}{
		{"", message(`{"a":1,"a":2}`), decode.Name},
		{"", message(`{"a":1,"\u0061":"1"}`), decode.Name},
		{"", message(`{"a":{"float":"NaN"},"a":{"float":"NaN"}}`), ""},
		{"", message(`{"a":0,"a":-0}`), decode.Name},
		{"", message(`{"a":null,"a":2,"a":null}`), ""},
		{"", `{"ts":1,"values":{"a":1},"values":{"b":1}}`, decode.Undecodable},
		{"", `{"ts":1,"ts":2,"values":{"a":1}}`, decode.Undecodable},
		{"", `{"device":"a","ts":1,"values":{"a":1},"device":"b"}`, decode.Undecodable},
		{"", `{"ts":1,"values":{"a":1},"seq":1,"seq":2}`, decode.Undecodable},
		{"", `{"ts":1,"values":{"a":1},"labels":{"l":"1","l":"2"}}`, decode.Label},
		{"", `{"ts":1,"values":{"a":1},"tags":{"l":"1","l":"2"}}`, decode.Label},
		{"", `{"ts":1,"values":{"a":1},"labels":{"l":"1","l":"1"}}`, ""},
		{flatType, `{"ts":1,"p":{"in":1},"p_in":2}`, decode.Name},
		{flatType, `{"ts":1,"p":{"in":1},"p":{"out":2}}`, ""},
		{flatType, `{"ts":1,"p":{"":{"in":1}},"p_":{"in":2}}`, decode.Name},
		{flatType, `{"ts":1,"at":{"site":"x"},"at_site":"y","v":1}`, decode.Label},
		{flatType, `{"ts":1,"site":"x","labels":{"site":"y"},"v":1}`, decode.Label},
		{flatType, `{"ts":1,"model":"x","model":"y","v":1}`, decode.Label},
		{flatType, `{"ts":1,"tenant":"acme","tenant":"globex","v":1}`, decode.Undecodable},
		{line, "m,zone=a,zone=b v=1 5", decode.Label},
		{line, "m,zone=a,zone=a v=1 5", ""},
		{line, "m,device=a,device=b v=1 5", decode.Label},
		{line, "m,model=a,model=b v=1 5", decode.Label},
		{line, "m v=1,v=2 5", decode.Name},
		{line, "m v=1,v=1 5", ""},
		{line, "m,v=x v=1 5", ""},
		{senmlType, `[{"n":"d/a","v":1},{"n":"d/a","v":2}]`, decode.Name},
		{senmlType, `[{"n":"d/a","v":1},{"n":"d/a","v":1}]`, ""},
		{senmlType, `[{"n":"urn:dev:ow:1/a","v":1},{"n":"urn:dev:ow:1:a","v":2}]`, decode.Name},
		{senmlType, `[{"n":"d/a","s":1},{"n":"d/a_sum","v":2}]`, decode.Name},
		{senmlType, `[{"n":"d/a","t":1763640000.1001,"v":1},{"n":"d/a","t":1763640000.1002,"v":2}]`, ""},
		{"", hub + `"Properties":{"tenant":"acme","tenant":"globex"},"Body":{"ts":1,"v":1}}`, decode.Undecodable},
		{"", hub + `"Body":{"ts":1,"v":1},"body":{"ts":1,"w":1}}`, decode.Undecodable},
		{"", `{"SystemProperties":{"connectionDeviceId":"m1","connectionModuleId":"x"},"Body":{"ts":1,"values":{"v":1},` +
			`"labels":{"module":"y"}}}`, decode.Label},
		{"", `{"SystemProperties":{"connectionDeviceId":"m1","connectionModuleId":"x"},"Body":{"ts":1,"values":{"v":1},` +
			`"labels":{"module":"x"}}}`, ""},
	} {
		d := decode.New(collisionOptions())
		for range 3 { // the third is of a known form
			got := d.Decode(decode.Record{Value: []byte(c.text), ContentType: c.kind, Timestamp: 1763640000000})
			if c.want == "" {
				require.Empty(t, got.Bad, c.text)
				require.NotEmpty(t, got.Readings, c.text)
				continue
			}
			require.Len(t, got.Bad, 1, c.text)
			require.Equal(t, c.want, got.Bad[0].Reason, "%s: %s", c.text, got.Bad[0].Detail)
		}
	}
}

// Fields of Avro that become one name, keys of a map that occur twice, and two fields for one thing.
func TestAvroNamesThatCollide(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"ts","type":"long"},{"name":"time","type":"long"},` +
		`{"name":"p","type":{"type":"map","values":"long"}},{"name":"p_in","type":["null","long"]}]}`
	opts := decode.Options{Tenant: "acme", Device: "m1", Schemas: schemas{1: {Text: schema}}}
	pair := func(name string, v byte) string { return string(rune(2*len(name))) + name + string(rune(2*v)) }
	for payload, want := range map[string][]string{
		"\x02\x02\x02" + pair("in", 1) + "\x00\x00":                      {"p_in"},
		"\x02\x04\x02" + pair("in", 1) + "\x00\x00":                      {"p_in", "time"},
		"\x02\x02\x02" + pair("in", 1) + "\x00\x02\x02":                  {"p_in"},
		"\x02\x02\x02" + pair("in", 1) + "\x00\x02\x04":                  nil,
		"\x02\x02\x04" + pair("in", 1) + pair("in", 2) + "\x00\x00":      nil,
		"\x02\x02\x04" + pair("in", 1) + pair("in_", 2) + "\x00\x02\x02": {"p_in", "p_in_"},
	} {
		got := decode.New(opts).Decode(registered(1, []byte(payload)))
		if want == nil {
			require.Len(t, got.Bad, 1, "%q", payload)
			require.Equal(t, decode.Name, got.Bad[0].Reason, "%q: %s", payload, got.Bad[0].Detail)
			continue
		}
		require.Empty(t, got.Bad, "%q", payload)
		var names []string
		for _, f := range got.Readings[0].Fields {
			names = append(names, f.Metric)
		}
		require.Equal(t, want, names, "%q", payload)
	}
}

// Objects of any shape keep each of their values, or are refused.
func TestFlatJSONLosesNoValue(t *testing.T) {
	const seed = 33
	r := rand.New(rand.NewPCG(seed, 3))
	names := []string{"a", "b", "a_b", "b_a", "a_a_b",
		"ts", "time", "timestamp", "tenantId", "device", "deviceId", "device_id"}
	refused := 0
	for range 4000 {
		values := 0
		var object func(depth int) string
		object = func(depth int) string {
			var parts []string
			for range 1 + r.IntN(3) {
				name, value := names[r.IntN(len(names))], ""
				switch {
				case depth < 3 && r.IntN(3) == 0:
					value = object(depth + 1)
				default:
					values++
					value = fmt.Sprint(1763640000000 + values)
				}
				parts = append(parts, fmt.Sprintf("%q:%s", name, value))
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		text := object(0)
		got := decode.New(decode.Options{Tenant: "acme", Device: "gw"}).Decode(
			decode.Record{Value: []byte(text), ContentType: flatType})
		if len(got.Bad) > 0 {
			refused++
			continue
		}
		kept := len(got.Readings[0].Fields) + 1 // a time
		for _, named := range []bool{got.Readings[0].Tenant != "acme", got.Readings[0].Device != "gw"} {
			if named {
				kept++
			}
		}
		require.Equal(t, values, kept, "seed %d: %s", seed, text)
	}
	require.Less(t, refused, 3900, "seed %d", seed)
}

// A label name stands once in a series of remote write.
func TestRemoteWriteRefusesLabelsThatOccurTwice(t *testing.T) {
	one := func(pairs ...string) sent {
		return sent{labels: label(append([]string{"tenant", "acme"}, pairs...)...),
			samples: []prompb.Sample{{Timestamp: 5, Value: 1}}}
	}
	series := []sent{
		one("__name__", "m", "instance", "i", "zone", "a", "zone", "b"),
		one("__name__", "n1", "__name__", "n2", "instance", "i"),
		one("__name__", "m", "instance", "i2", "instance", "i3"),
		one("__name__", "m", "instance", "i", "zone", "a", "zone", "a"),
		one("__name__", "good", "instance", "i"), one("__name__", "m", "instance", "i", "tenant", "globex"),
	}
	for _, r := range []decode.Record{version1(t, series), version2(t, series)} {
		got := decode.New(decode.Options{}).Decode(r)
		require.Len(t, got.Readings, 1)
		require.Equal(t, []int{4}, got.Index)
		require.Len(t, got.Bad, 5)
		for _, b := range got.Bad {
			require.Equal(t, decode.Label, b.Reason, b.Detail)
		}
	}
	twice := []sent{one("__name__", "m", "instance", "i"), one("__name__", "m", "instance", "i")}
	twice[1].samples = []prompb.Sample{{Timestamp: 5, Value: 2}, {Timestamp: 6, Value: 3}}
	got := decode.New(decode.Options{}).Decode(version1(t, twice))
	require.Equal(t, []decode.Bad{{Index: 1, Reason: decode.Name, Detail: `the metric "m" has two values at one instant`}}, got.Bad)
	require.Len(t, got.Readings, 2)
}

// Points of OTLP that become one series at one time are one, or the later is refused; below a millisecond the last
// counts.
func TestOTLPPointsThatCollide(t *testing.T) {
	m, metrics := host(map[string]any{"host.name": "gw", "service.name": "pump", "process.pid": 1})
	gauge(metrics, "x_count", "", 1)
	gauge(metrics, "fine", "", 1)
	metrics.add("x", "", histograms).add(dataPoint{time: noon, count: 7})
	gauge(metrics, "fine", "", 2).time = noon + 1
	gauge(metrics, "other", "", 3).put("service.name", "fan")
	gauge(metrics, "same", "", 4).put("service.name", "pump")
	more := m.add(map[string]any{"host.name": "gw", "service.name": "pump", "process.pid": 2})
	gauge(more, "x_count", "", 9)
	gauge(more, "alone", "", 5)

	got := both(t, otlpOptions, m)
	var bad []string
	for _, b := range got.Bad {
		bad = append(bad, fmt.Sprint(b.Index, " ", b.Reason))
	}
	require.Equal(t, []string{"4 label", "2 name", "6 name"}, bad)
	want := values{}
	labels := telemetry.Labels{{Name: "service.name", Value: "pump"}}
	for metric, v := range map[string]float64{"x_count": 1, "fine": 2, "same": 4, "alone": 5} {
		want.put("acme", "gw", noonMillis, labels, metric, telemetry.FloatValue(v))
	}
	require.Equal(t, want, flat(t, got))

	// An attribute that occurs twice, which no encoder writes: of a resource, of a data point, in an attribute.
	field := func(n protowire.Number, parts ...string) string {
		return string(protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), strings.Join(parts, "")))
	}
	attribute := func(n protowire.Number, name, value string) string {
		return field(n, field(1, name), field(2, field(1, value)))
	}
	point := func(attributes string) string {
		fixed := protowire.AppendFixed64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), 1)
		return field(2, field(2, field(1, "m"), field(5, field(1, attributes, string(fixed)))))
	}
	in := field(7, field(1, "k"), field(2, field(6, attribute(1, "a", "x"), attribute(1, "a", "y"))))
	device := attribute(1, "device", "m1")
	for _, payload := range []string{
		field(1, field(1, device, attribute(1, "a", "x"), attribute(1, "a", "y")), point("")),
		field(1, field(1, device, attribute(1, "device", "m2")), point("")),
		field(1, field(1, device), point(attribute(7, "a", "x")+attribute(7, "a", "y"))),
		field(1, field(1, device), point(in)),
	} {
		for range 2 {
			got := decode.New(otlpOptions).Decode(decode.Record{Value: []byte(payload), Timestamp: 5})
			require.Empty(t, got.Readings, "%q", payload)
			require.Len(t, got.Bad, 1, "%q", payload)
			require.Equal(t, decode.Label, got.Bad[0].Reason, got.Bad[0].Detail)
		}
	}
}

// What has no time of its own has that of its record, and is refused where that has none.
func TestNoTimeAtAll(t *testing.T) {
	m, metrics := host(map[string]any{"host.name": "gw"})
	gauge(metrics, "x", "", 1).time = 0
	pack, err := cbor.Marshal([]map[int]any{{0: "d/x", 2: 1}})
	require.NoError(t, err)
	for name, r := range map[string]decode.Record{
		"line": {Value: []byte("m v=1"), ContentType: "text/plain; format=influx"}, "OTLP": {Value: m.protobuf()},
		"SenML": {Value: []byte(`[{"n":"d/x","v":1}]`), ContentType: senmlType}, "CBOR": {Value: pack},
		"hub":  {Value: []byte(`{"v":1}`), Headers: []decode.Header{{Key: "iothub-connection-device-id", Value: []byte("m1")}}},
		"JSON": {Value: []byte(`{"values":{"v":1}}`)},
	} {
		d := decode.New(decode.Options{Tenant: "acme", Device: "m1"})
		for range 3 {
			r.Timestamp = 5
			if got := d.Decode(r); name != "JSON" {
				require.Empty(t, got.Bad, name)
				require.EqualValues(t, 5, got.Readings[0].Time, name)
			}
			r.Timestamp = -1
			got := d.Decode(r)
			require.Empty(t, got.Readings, name)
			require.Len(t, got.Bad, 1, name)
			require.Equal(t, decode.Time, got.Bad[0].Reason, name)
		}
	}
}
