package decode_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
)

const (
	senmlType = "application/senml+json"
	cborType  = "application/senml+cbor"
)

// cborOf is a pack of JSON as RFC 8428, 6, writes it in CBOR.
func cborOf(t testing.TB, text string) []byte {
	t.Helper()
	var records []map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &records))
	numbers := map[string]int{"bver": -1, "bn": -2, "bt": -3, "bu": -4, "bv": -5, "bs": -6, "n": 0, "u": 1, "v": 2,
		"vs": 3, "vb": 4, "s": 5, "t": 6, "ut": 7}
	var out []map[any]any
	for _, r := range records {
		x := map[any]any{}
		for k, v := range r {
			f, whole := v.(float64)
			if whole = whole && f == math.Trunc(f); whole {
				v = int64(f)
			}
			if n, ok := numbers[k]; ok {
				x[n] = v
			} else {
				x[k] = v
			}
		}
		out = append(out, x)
	}
	b, err := cbor.Marshal(out)
	require.NoError(t, err)
	return b
}

// bothSenML decodes a pack from JSON and from CBOR and checks that the two say the same, but for the type of whole
// numbers.
func bothSenML(t testing.TB, opts decode.Options, text string) decode.Result {
	t.Helper()
	one := decode.New(opts).Decode(decode.Record{Value: []byte(text), ContentType: senmlType, Timestamp: 1763640000000})
	two := decode.New(opts).Decode(decode.Record{Value: cborOf(t, text), Timestamp: 1763640000000})
	for _, r := range two.Readings {
		for i, f := range r.Fields {
			if v := f.Value; v.Kind() == telemetry.Int && int64(float64(v.Int())) == v.Int() {
				r.Fields[i].Value = telemetry.FloatValue(float64(v.Int()))
			}
		}
	}
	for i := range one.Bad { // the encodings say what is wrong in their own words
		require.Equal(t, one.Bad[i].Reason, two.Bad[i].Reason, text)
		one.Bad[i].Detail, two.Bad[i].Detail = "", ""
	}
	require.Equal(t, one, two, text)
	return one
}

// The packs of RFC 8428, 5.1.
func TestSenML(t *testing.T) {
	float := telemetry.FloatValue
	field := func(metric string, v telemetry.Value) telemetry.Field {
		return telemetry.Field{Metric: metric, Value: v}
	}
	for text, want := range map[string][]telemetry.Reading{
		`[{"n":"urn:dev:ow:10e2073a01080063","u":"Cel","v":23.1}]`: {
			{Device: "urn:dev:ow:10e2073a01080063", Time: 1763640000000, Fields: []telemetry.Field{field("value", float(23.1))}},
		},
		`[{"bn":"urn:dev:ow:10e2073a01080063:","n":"voltage","u":"V","v":120.1},{"n":"current","u":"A","v":1.2}]`: {
			{Device: "urn:dev:ow:10e2073a01080063", Time: 1763640000000,
				Fields: []telemetry.Field{field("current", float(1.2)), field("voltage", float(120.1))}},
		},
		`[{"bn":"urn:dev:ow:10e2073a0108006:","bt":1.276020076001e+09,"bu":"A","bver":5,"n":"voltage","u":"V","v":120.1},
		  {"n":"current","t":-5,"v":1.2},{"n":"current","t":-4,"v":1.3}]`: {
			{Device: "urn:dev:ow:10e2073a0108006", Time: 1276020076001,
				Fields: []telemetry.Field{field("voltage", float(120.1))}},
			{Device: "urn:dev:ow:10e2073a0108006", Time: 1276020071001, Fields: []telemetry.Field{field("current", float(1.2))}},
			{Device: "urn:dev:ow:10e2073a0108006", Time: 1276020072001, Fields: []telemetry.Field{field("current", float(1.3))}},
		},
		`[{"bn":"m1:","bt":-60,"bv":20,"v":3.5},{"bn":"m1","t":10.5,"v":4,"n":"/temp","s":7},{"n":"/ok","vb":true},{"n":"/door","vs":"open"}]`: {
			{Device: "m1", Time: 1763639940000, Fields: []telemetry.Field{
				field("door", telemetry.TextValue("open")), field("ok", telemetry.BoolValue(true)), field("value", float(23.5)),
			}},
			{Device: "m1", Time: 1763639950500, Fields: []telemetry.Field{field("temp", float(24)),
				field("temp_sum", float(7))}},
		},
		`[{"bn":"/3303/0/","n":"5700","v":22.5}]`: {
			{Device: "gw", Time: 1763640000000, Fields: []telemetry.Field{field("3303/0/5700", float(22.5))}},
		},
		`[{"n":"temp","v":22.5,"t":1763640001.9999,"ignored":[1]}]`: {
			{Device: "gw", Time: 1763640001999, Fields: []telemetry.Field{field("temp", float(22.5))}},
		},
	} {
		got := bothSenML(t, decode.Options{Tenant: "acme", Device: "gw"}, text)
		require.Empty(t, got.Bad, text)
		for i := range want {
			want[i].Tenant = "acme"
		}
		require.Equal(t, want, got.Readings, text)
	}
}

// A name is split into device and metric; SenML has one for both, whatever of it is the base.
func TestSenMLNames(t *testing.T) {
	for _, c := range []struct{ base, name, want string }{
		{"m1:", "temp", "m1 temp"}, {"m1_", "temp", "gw m1_temp"}, {"m1/", "temp", "m1 temp"}, {"m1", "temp", "gw m1temp"},
		{"urn:dev:mac:00/room1/", "temp", "urn:dev:mac:00 room1/temp"}, {"m1:", "", "m1 value"}, {"m1", "", "gw m1"},
		{"", "urn:dev:ow:1", "urn:dev:ow:1 value"}, {"urn:dev:ow:1:", "temp", "urn:dev:ow:1 temp"},
		{"urn:dev:os:32473-12_", "temp", "urn:dev:os:32473-12 temp"}, {"URN:uuid:6e8b:", "a:b_c", "URN:uuid:6e8b a:b_c"},
		{"urn:epc:id:sgtin:06.1.4", "/temp", "urn:epc:id:sgtin:06.1.4 temp"},
		{"urn:gsma:", "imei:90", "urn:gsma:imei:90 value"}, {"m1//", "a/", "m1 /a/"},
		{"urn:x", "", "urn:x value"}, {"00:24:be:", "temp", "00:24:be temp"}, {"m1/", "a:b", "m1 a:b"},
		{"", "urn:dev:ow:1/a/b", "urn:dev:ow:1 a/b"}, {"", "temp", "gw temp"}, {"", "a/b", "a b"}, {":", "x", "gw :x"},
		{"/3303/0/", "5700", "gw 3303/0/5700"},
	} {
		full := c.base + c.name
		for cut := range len(full) + 1 { // where the base ends means nothing: RFC 8428, 4.6
			got := bothSenML(t, decode.Options{Tenant: "acme", Device: "gw"},
				fmt.Sprintf(`[{"bn":%q,"n":%q,"v":1.5,"u":"V"}]`, full[:cut], full[cut:]))
			require.Empty(t, got.Bad, c)
			require.Equal(t, c.want, got.Readings[0].Device+" "+got.Readings[0].Fields[0].Metric, full[cut:])
			require.Equal(t, "V", got.Units[0].Unit)
		}
	}
}

func TestBadSenML(t *testing.T) {
	for text, want := range map[string]decode.Reason{
		`[{"n":"a","u":"V"}]`:              decode.Empty,
		`[{"bn":"a\u0001","n":"b","v":1}]`: decode.Device,
		`[{"bn":"m1:","v":true}]`:          decode.Value,
		`[{"bn":"m1:","vb":1}]`:            decode.Value,
		`[{"bn":"m1:","vs":1}]`:            decode.Value,
		`[{"bn":5,"v":1}]`:                 decode.Value,
		`[{"bn":"m1:","v":1,"x_":5}]`:      decode.Undecodable,
		`[{"bn":"m1:","bver":11,"v":1}]`:   decode.Undecodable,
		`[{"bn":"m1:","v":1,"t":1e10}]`:    decode.Time,
		`[{"n":"a","v":1}]`:                decode.Device,
	} {
		got := bothSenML(t, decode.Options{Tenant: "acme"}, text)
		require.Empty(t, got.Readings, text)
		require.Equal(t, want, got.Bad[0].Reason, text)
	}
	d := decode.New(decode.Options{Tenant: "acme"})
	for _, text := range []string{`{}`, `[`, `[{"n":"a","v":01}]`, `[5]`, `[] x`, "[{\"vs\":\"\xff\"}]"} {
		got := d.Decode(decode.Record{Value: []byte(text), ContentType: senmlType})
		require.Equal(t, decode.Undecodable, got.Bad[0].Reason, text)
	}
	for _, payload := range []string{
		"\x81", "\x9a\xff\xff\xff\xff", "\x81\xa2\x00\x61a\x00\x61b", "\x81\xa1\x00\x61\xff", "\x81\x05", "\x80\x80",
		"\x81\xa1\x02" + strings.Repeat("\x81", 98) + "\x80",
	} {
		got := d.Decode(decode.Record{Value: []byte(payload), ContentType: cborType})
		require.Equal(t, decode.Undecodable, got.Bad[0].Reason, "%x", payload)
	}
}

// A record with refused base fields refuses every later one that needs them, until they are given again.
func TestSenMLRefusedBaseFields(t *testing.T) {
	type readings = map[string]float64
	const dev1 = `{"bn":"dev1/","bt":1763640000,"n":"temp","v":1}`
	for text, want := range map[string]readings{
		`{"bn":"dev2/","n":"temp","v":"x"},{"n":"temp","v":2}`:                            {"dev1 temp": 1},
		`{"bn":"dev2/","bt":1763640000,"u":5,"v":2},{"n":"temp","v":2}`:                   {"dev1 temp": 1},
		`{"bn":"dev2/","v":1,"vs":"x"},{"n":"temp","v":2}`:                                {"dev1 temp": 1},
		`{"bn":"dev2/","v":"x"},{"n":"temp","v":2},{"bn":"dev3/","n":"temp","v":3}`:       {"dev1 temp": 1, "dev3 temp": 3},
		`{"bn":"dev2/","v":"x"},{"bn":"dev3/"},{"n":"temp","v":3}`:                        {"dev1 temp": 1, "dev3 temp": 3},
		`{"bt":"x","n":"a","v":2},{"n":"b","v":3},{"bt":1763640000,"n":"c","v":4}`:        {"dev1 temp": 1, "dev1 c": 4},
		`{"bt":"x","n":"a","v":2},{"bn":"dev2/","n":"b","v":3},{"bt":1763640000,"v":4}`:   {"dev1 temp": 1, "dev2 value": 4},
		`{"bv":"x"},{"n":"a","vs":"text"},{"n":"b","v":3},{"n":"c","s":4}`:                {"dev1 temp": 1, "dev1 a": 0, "dev1 c_sum": 4},
		`{"bs":"x"},{"n":"a","v":2},{"n":"b","s":3}`:                                      {"dev1 temp": 1, "dev1 a": 2},
		`{"bu":7},{"n":"a","v":2},{"n":"b","u":"V","v":3}`:                                {"dev1 temp": 1, "dev1 b": 3},
		`{"n":"a","v":"x"},{"n":"b","v":2}`:                                               {"dev1 temp": 1, "dev1 b": 2},
		`{"bn":"dev2/","n":"\u0001","v":2},{"n":"b","v":3}`:                               {"dev1 temp": 1, "dev2 b": 3},
		`{"bn":"dev2\u0001/","n":"a","v":2},{"n":"b","v":3},{"bn":"dev3/","n":"a","v":4}`: {"dev1 temp": 1, "dev3 a": 4},
		`{"bt":0,"n":"now","v":2}`:                                                        {"dev1 temp": 1, "dev1 now": 2},
	} {
		got := bothSenML(t, decode.Options{Tenant: "acme"}, "["+dev1+","+text+"]")
		have := readings{}
		for _, r := range got.Readings {
			require.Equal(t, int64(1763640000000), r.Time, text)
			for _, f := range r.Fields {
				have[r.Device+" "+f.Metric] = 0
				if f.Value.Kind() == telemetry.Float {
					have[r.Device+" "+f.Metric] = f.Value.Float()
				}
			}
		}
		require.Equal(t, want, have, text)
	}
}

// What must be understood refuses the pack, wherever it stands (RFC 8428, 4.4), and so does a label that occurs twice.
func TestSenMLPackIsRefused(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "acme"})
	refused := func(r decode.Record, what string) {
		t.Helper()
		for range 20 { // maps of CBOR come in any order
			got := d.Decode(r)
			require.Empty(t, got.Readings, what)
			require.Empty(t, got.Units, what)
			require.Len(t, got.Bad, 1, what)
			require.Equal(t, decode.Whole, got.Bad[0].Index, what)
			require.Equal(t, decode.Undecodable, got.Bad[0].Reason, what)
		}
	}
	const good = `{"bn":"dev1/","n":"temp","u":"V","v":1}`
	for _, bad := range []string{
		`"x_":5`, `"bver":11`, `"bver":0`, `"bver":-1`, `"bver":9.5`, `"bver":"10"`, `"x_":5,"v":"x"`,
	} {
		text := `[` + good + `,{"n":"a","vs":"b",` + bad + `}]`
		refused(decode.Record{Value: []byte(text), ContentType: senmlType}, text)
		if !strings.Contains(bad, `"v":`) {
			refused(decode.Record{Value: cborOf(t, text)}, text)
		}
	}
	for _, twice := range []string{`"v":1,"v":1`, `"bn":"a/","bn":"b/","v":1`, `"v":1,"x":1,"x":2`, `"v":1,"ut":1,"ut":2`} {
		text := `[` + good + `,{` + twice + `}]`
		refused(decode.Record{Value: []byte(text), ContentType: senmlType}, text)
	}
	for _, twice := range []map[any]any{
		{-2: "dev1/", 0: "temp", 2: 1.0, "v": 2.0}, {-2: "dev1/", "bn": "dev1/", 2: 1.0}, {0: "a", "n": "b", 2: 1},
	} {
		b, err := cbor.Marshal([]any{twice})
		require.NoError(t, err)
		refused(decode.Record{Value: b, ContentType: cborType}, fmt.Sprint(twice))
	}
	got := d.Decode(decode.Record{Value: []byte("[" + good + "]"), ContentType: senmlType})
	require.Equal(t, []decode.Unit{{Tenant: "acme", Metric: "temp", Unit: "V"}}, got.Units, "of a refused pack")
	got = bothSenML(t, decode.Options{Tenant: "acme"}, `[{"bn":"dev1/","bver":10,"9":1,"v":1},{"bver":5,"n":"a","v":2}]`)
	require.Empty(t, got.Bad)
}

// What CBOR has and JSON has not: integers of their own type, bytes, decimal fractions, floats of all sizes.
func TestSenMLInCBOR(t *testing.T) {
	b, err := cbor.Marshal([]map[int]any{
		{-2: "m1:", 0: "int", 2: int64(math.MaxInt64)}, {0: "bytes", 8: []byte{0xFB, 0xFF}},
		{0: "half", 2: cbor.RawMessage{0xF9, 0x3E, 0x00}},
		{0: "fraction", 2: cbor.Tag{Number: 4, Content: []int64{-2, 2315}}}, {0: "single", 2: float32(0.25)},
		{0: "time", 6: 1763640000.123, 2: 1},
	})
	require.NoError(t, err)
	got := decode.New(decode.Options{Tenant: "acme"}).Decode(decode.Record{Value: b, ContentType: cborType, Timestamp: 7})
	require.Empty(t, got.Bad)
	want := values{}
	for metric, v := range map[string]telemetry.Value{
		"int": telemetry.IntValue(math.MaxInt64), "bytes": telemetry.TextValue("-_8"), "half": telemetry.FloatValue(1.5),
		"fraction": telemetry.FloatValue(23.15), "single": telemetry.FloatValue(0.25),
	} {
		want.put("acme", "m1", 7, nil, metric, v)
	}
	want.put("acme", "m1", 1763640000123, nil, "time", telemetry.IntValue(1))
	require.Equal(t, want, flat(t, got))
}

// Random packs, written by the libraries for JSON and CBOR, give the values that they were made of.
func TestSenMLAgainstTheLibraries(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		var records []map[string]any
		want := values{}
		device, base := "", int64(0)
		for i := range 1 + r.IntN(12) {
			x := map[string]any{"n": fmt.Sprintf("metric%d", i%5), "u": "Cel"}
			if i == 0 || r.IntN(4) == 0 {
				device, base = fmt.Sprintf("m%d", r.IntN(3)), int64(1763640000+r.IntN(100))
				x["bn"], x["bt"] = device+":", base
			}
			x["t"] = i * 100
			at, metric := (base+int64(i)*100)*1000, x["n"].(string)
			switch r.IntN(3) {
			case 0:
				x["vs"] = fmt.Sprint("text", i)
				want.put("acme", device, at, nil, metric, telemetry.TextValue(x["vs"].(string)))
			case 1:
				x["vb"] = i%2 == 0
				want.put("acme", device, at, nil, metric, telemetry.BoolValue(i%2 == 0))
			case 2:
				x["v"] = r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15))
				want.put("acme", device, at, nil, metric, telemetry.FloatValue(x["v"].(float64)))
			}
			records = append(records, x)
		}
		text, err := json.Marshal(records)
		require.NoError(t, err)
		got := bothSenML(t, decode.Options{Tenant: "acme"}, string(text))
		require.Empty(t, got.Bad, "seed %d", seed)
		require.Equal(t, want, flat(t, got), "seed %d", seed)
	}
}
