package decode_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// message is a good message but for its values.
func message(values string) string {
	return `{"tenant":"acme","device":"m1","ts":1763640000000,"values":` + values + `}`
}

func decodeJSON(t *testing.T, payload string) decode.Result {
	t.Helper()
	return decode.New(decode.Options{}).Decode(decode.Record{Value: []byte(payload), ContentType: "application/json"})
}

func TestMessage(t *testing.T) {
	got := decodeJSON(t, ` {"tenant":"acme","device":"Gerät 7","ts":"2026-11-20T10:00:00.123999+01:00","more":[{"x":null}],
		"values":{"b":true,"a":2,"text":"é\u00e9\ud83d\ude00\n","n":null,"a":2,"b":null},"labels":{"z":"1","axis":"x"},"tags":{"model":"A"}} `)
	require.Empty(t, got.Bad)
	require.Equal(t, []int{0}, got.Index)
	require.Equal(t, []telemetry.Reading{{
		Tenant: "acme", Device: "Gerät 7", Time: 1795165200123,
		Fields: []telemetry.Field{
			{Metric: "a", Value: telemetry.FloatValue(2)},
			{Metric: "b", Value: telemetry.BoolValue(true)},
			{Metric: "text", Value: telemetry.TextValue("éé😀\n")},
		},
		Labels: telemetry.Labels{{Name: "axis", Value: "x"}, {Name: "z", Value: "1"}},
		Tags:   telemetry.Labels{{Name: "model", Value: "A"}},
	}}, got.Readings)
}

func TestArrayElementIndexes(t *testing.T) {
	got := decodeJSON(t, "["+message(`{"a":1}`)+`,{"device":"m1"},`+message(`{"a":[]}`)+","+message(`{"a":2}`)+`,7]`)
	require.Equal(t, []int{0, 3}, got.Index)
	require.Len(t, got.Readings, 2)
	require.Equal(t, telemetry.FloatValue(2), got.Readings[1].Fields[0].Value)
	var bad []decode.Bad
	for _, b := range got.Bad {
		bad = append(bad, decode.Bad{Index: b.Index, Reason: b.Reason})
	}
	require.Equal(t, []decode.Bad{
		{Index: 1, Reason: decode.Tenant}, {Index: 2, Reason: decode.Value}, {Index: 4, Reason: decode.Undecodable},
	}, bad)
	got = decodeJSON(t, " [ ] ")
	require.Empty(t, got.Readings)
	require.Empty(t, got.Bad)
}

func TestValues(t *testing.T) {
	float, integer := telemetry.FloatValue, telemetry.IntValue
	for text, want := range map[string]telemetry.Value{
		`0`:                          float(0),
		`-0`:                         float(math.Copysign(0, -1)),
		`-0.0e5`:                     float(math.Copysign(0, -1)),
		`1`:                          float(1),
		`74.93588199999998`:          float(74.93588199999998),
		`9007199254740992`:           float(1 << 53),
		`9007199254740993`:           integer(1<<53 + 1),
		`-9007199254740993`:          integer(-1<<53 - 1),
		`9007199254740993.0`:         float(1 << 53),
		`999999999999999`:            float(999999999999999),
		`9223372036854775807`:        integer(math.MaxInt64),
		`-9223372036854775808`:       float(math.MinInt64),
		`-9223372036854775807`:       integer(-math.MaxInt64),
		`9223372036854775808`:        float(1 << 63),
		`18446744073709551616`:       float(1 << 64),
		`100000000000000000000`:      float(1e20),
		`1e300`:                      float(1e300),
		`1E+2`:                       float(100),
		`5e-324`:                     float(math.SmallestNonzeroFloat64),
		`1e-400`:                     float(0),
		`2.2250738585072011e-308`:    float(2.2250738585072011e-308),
		`1.7976931348623157e308`:     float(math.MaxFloat64),
		`123456789012345678e-10`:     float(123456789012345678e-10),
		`0.000000000000000000000001`: float(1e-24),
		`true`:                       telemetry.BoolValue(true),
		`false`:                      telemetry.BoolValue(false),
		`""`:                         telemetry.TextValue(""),
		`"\u0000\"\\\/\b\f\n\r\t"`:   telemetry.TextValue("\x00\"\\/\b\f\n\r\t"),
		`{"float":"NaN"}`:            float(math.NaN()),
		`{ "float" : "+Inf" }`:       float(math.Inf(1)),
		`{"float":"-Inf"}`:           float(math.Inf(-1)),
	} {
		got := decodeJSON(t, message(`{"a":`+text+`}`))
		require.Empty(t, got.Bad, text)
		require.Equal(t, want, got.Readings[0].Fields[0].Value, text)
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]int64{
		`0`:                                   0,
		`-0`:                                  0,
		`1763640000000`:                       1763640000000,
		`1763640000000.0`:                     1763640000000,
		`1763640000000.99999999999999`:        1763640000000,
		`1e12`:                                1000000000000,
		`1.763640000123e12`:                   1763640000123,
		`1.7636400001239e12`:                  1763640000123,
		`17636400001239e-1`:                   1763640000123,
		`1763640000`:                          1763640000000, // seconds
		`1763640000.1239`:                     1763640000123,
		`1.7636400001239e9`:                   1763640000123,
		`99999999999.999`:                     99999999999999,
		`100000000000`:                        100000000000,
		`253402300799999`:                     telemetry.MaxMillis - 1,
		`1763640000123456`:                    1763640000123, // microseconds
		`1763640000123456.7`:                  1763640000123,
		`1763640000123456789`:                 1763640000123, // nanoseconds
		`-1763640000123456789`:                -1763640000124,
		`0.9`:                                 900,
		`0.00001`:                             0,
		`-0.0001`:                             -1,
		`-1`:                                  -1000,
		`-1.5`:                                -1500,
		`-1e-99`:                              -1,
		`9223372036854775807`:                 math.MaxInt64 / 1000000,
		`9223372036854775807.5`:               math.MaxInt64 / 1000000,
		`0e999999999999`:                      0,
		`"1970-01-01T00:00:00Z"`:              0,
		`"1969-12-31T23:59:59.9999Z"`:         -1,
		`"1970-01-01T00:00:00.0019999Z"`:      1,
		`"2026-11-20T12:00:00+02:00"`:         1795168800000,
		`"2026-11-20T12:00:00.123456789123Z"`: 1795176000123,
		`"2026-11-20T12:00:00.9999999999999999Z"`: 1795176000999,
	} {
		got := decodeJSON(t, `{"tenant":"acme","device":"m1","values":{"a":1},"ts":`+text+`}`)
		require.Empty(t, got.Bad, text)
		require.Equal(t, want, got.Readings[0].Time, text)
	}
}

func TestBadMessages(t *testing.T) {
	head := `{"tenant":"acme","device":"m1","ts":0,"values":{"a":1}`
	for payload, want := range map[string]decode.Reason{
		"":                                decode.Empty,
		" \n":                             decode.Empty,
		"{":                               decode.Undecodable,
		"nul":                             decode.Undecodable,
		"null":                            decode.Undecodable,
		"7":                               decode.Undecodable,
		`"a"`:                             decode.Undecodable,
		head:                              decode.Undecodable,
		head + "}}":                       decode.Undecodable,
		head + "}\x00":                    decode.Undecodable,
		head + "},":                       decode.Undecodable,
		head + ",}":                       decode.Undecodable,
		head + `,"x":01}`:                 decode.Undecodable,
		head + `,"x":1.}`:                 decode.Undecodable,
		head + `,"x":.5}`:                 decode.Undecodable,
		head + `,"x":1e}`:                 decode.Undecodable,
		head + `,"x":+1}`:                 decode.Undecodable,
		head + `,"x":1-2}`:                decode.Undecodable,
		head + `,"x":NaN}`:                decode.Undecodable,
		head + `,"x":nan}`:                decode.Undecodable,
		head + `,"x":truE}`:               decode.Undecodable,
		head + `,"x":"\x"}`:               decode.Undecodable,
		head + `,"x":"\u12"}`:             decode.Undecodable,
		head + `,"x":"\ud800"}`:           decode.Undecodable,
		head + `,"x":"\udc00\ud800"}`:     decode.Undecodable,
		head + ",\"x\":\"a\x01\\n\"}":     decode.Undecodable,
		head + ",\"x\":\"\t\"}":           decode.Undecodable,
		head + ",\"x\":\"\xff\"}":         decode.Undecodable,
		head + ",\"x\":\"\xed\xa0\x80\"}": decode.Undecodable,
		head + `,"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: decode.Undecodable,
		strings.Repeat("[", 100000):                                                       decode.Undecodable,
		"\ufeff" + head + "}":                                                             decode.Undecodable,
		`{"device":"m1","ts":0,"values":{"a":1}}`:                                         decode.Tenant,
		`{"tenant":null,"device":"m1","ts":0,"values":{"a":1}}`:                           decode.Tenant,
		`{"tenant":"Acme","device":"m1","ts":0,"values":{"a":1}}`:                         decode.Tenant,
		`{"tenant":5,"device":"m1","ts":0,"values":{"a":1}}`:                              decode.Tenant,
		`{"tenant":"acme","ts":0,"values":{"a":1}}`:                                       decode.Device,
		`{"tenant":"acme","device":"","ts":0,"values":{"a":1}}`:                           decode.Device,
		`{"tenant":"acme","device":"a/b","ts":0,"values":{"a":1}}`:                        decode.Device,
		`{"tenant":"acme","device":"😀","ts":0,"values":{"a":1}}`:                          decode.Device,
		`{"tenant":"acme","device":"m1","values":{"a":1}}`:                                decode.Time,
		`{"tenant":"acme","device":"m1","ts":null,"values":{"a":1}}`:                      decode.Time,
		`{"tenant":"acme","device":"m1","ts":true,"values":{"a":1}}`:                      decode.Time,
		`{"tenant":"acme","device":"m1","ts":"2026-11-20","values":{"a":1}}`:              decode.Time,
		`{"tenant":"acme","device":"m1","ts":"2026-11-20T10:00:00","values":{"a":1}}`:     decode.Time,
		`{"tenant":"acme","device":"m1","ts":"2026-02-30T10:00:00Z","values":{"a":1}}`:    decode.Time,
		`{"tenant":"acme","device":"m1","ts":"2026-11-20 10:00:00Z","values":{"a":1}}`:    decode.Time,
		`{"tenant":"acme","device":"m1","ts":9223372036854775808000000,"values":{"a":1}}`: decode.Time,
		`{"tenant":"acme","device":"m1","ts":1e25,"values":{"a":1}}`:                      decode.Time,
		`{"tenant":"acme","device":"m1","ts":1e999999999,"values":{"a":1}}`:               decode.Time,
		`{"tenant":"acme","device":"m1","ts":0}`:                                          decode.Empty,
		`{"tenant":"acme","device":"m1","ts":0,"values":null}`:                            decode.Empty,
		message(`{}`):                                              decode.Empty,
		message(`{"a":null}`):                                      decode.Empty,
		message(`{"a":1,"a":2}`):                                   decode.Name,
		message(`5`):                                               decode.Value,
		message(`{"a":[1]}`):                                       decode.Value,
		message(`{"a":{}}`):                                        decode.Value,
		message(`{"a":{"float":"nan"}}`):                           decode.Value,
		message(`{"a":{"float":1}}`):                               decode.Value,
		message(`{"a":{"float":"NaN","x":1}}`):                     decode.Value,
		message(`{"a":{"float":"NaN","float":"NaN"}}`):             decode.Value,
		message(`{"a":1e309}`):                                     decode.Value,
		message(`{"a":-1e309}`):                                    decode.Value,
		message(`{"a":18446744073709551617}`):                      decode.Value,
		message(`{"a":-9223372036854775809}`):                      decode.Value,
		message(`{"a":1` + strings.Repeat("0", 400) + `}`):         decode.Value,
		message(`{"":1}`):                                          decode.Name,
		message(`{"a\u0007":1}`):                                   decode.Name,
		message(`{"` + strings.Repeat("é", 201) + `":1}`):          decode.Name,
		head + `,"labels":{"":"x"}}`:                               decode.Name,
		head + `,"tags":{"\u007f":"x"}}`:                           decode.Name,
		head + `,"labels":{"a":1}}`:                                decode.Label,
		head + `,"labels":[]}`:                                     decode.Label,
		head + `,"tags":"x"}`:                                      decode.Label,
		`[` + message(`{"a":1}`) + `,` + message(`{"a":1}`) + `,]`: decode.Undecodable,
	} {
		got := decodeJSON(t, payload)
		require.Empty(t, got.Readings, "%.200s", payload)
		require.Empty(t, got.Index, "%.200s", payload)
		require.Len(t, got.Bad, 1, "%.200s", payload)
		require.Equal(t, want, got.Bad[0].Reason, "%.200s: %s", payload, got.Bad[0].Detail)
		require.NotEmpty(t, got.Bad[0].Detail)
		require.Less(t, len(got.Bad[0].Detail), 1000)
	}
}

func TestContentTypes(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "d"}})
	object, line := message(`{"a":1}`), "m,d=m1 a=1 0\n"
	for _, c := range []struct {
		payload, contentType string
		bad                  decode.Reason
	}{
		{object, "application/json", ""},
		{object, "Application/JSON; charset=utf-8", ""},
		{object, "", ""},
		{"\n " + object, "  ", ""},
		{"[" + object + "]", "", ""},
		{line, "", ""},
		{"# a comment\n\n " + line, "", ""},
		{"hello world", "", decode.ContentType},
		{"a b=\x01", "", decode.ContentType},
		{"a b=\xff", "", decode.ContentType},
		{object, "text/plain", decode.ContentType},
		{object, "application/cbor", decode.ContentType},
		{object, ";", decode.ContentType},
		{line, "text/plain; format=influx", ""},
		{line, "text/plain;format=influx;precision=s", ""},
		{line, "text/plain; format=influx; precision=h", decode.ContentType},
		{line, "text/plain; format=graphite", decode.ContentType},
		{object, "text/plain; format=influx", decode.Undecodable},
		{line, "application/json", decode.Undecodable},
		{object, "", ""},
	} {
		got := d.Decode(decode.Record{Value: []byte(c.payload), ContentType: c.contentType})
		if c.bad == "" {
			require.Empty(t, got.Bad, "%s as %q", c.payload, c.contentType)
			require.Len(t, got.Readings, 1)
			continue
		}
		require.Empty(t, got.Readings, "%s as %q", c.payload, c.contentType)
		require.Equal(t, c.bad, got.Bad[0].Reason, "%s as %q", c.payload, c.contentType)
	}
}

func TestDefaults(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "globex", Device: "m9"})
	got := d.Decode(decode.Record{Value: []byte(`[{"ts":0,"values":{"a":1}},{"tenant":"acme","device":"m1","ts":0,"values":{"a":1}}]`)})
	require.Empty(t, got.Bad)
	require.Equal(t, "globex m9", got.Readings[0].Tenant+" "+got.Readings[0].Device)
	require.Equal(t, "acme m1", got.Readings[1].Tenant+" "+got.Readings[1].Device)
}

// The order of metrics is learnt from reading to reading; whatever came before, fields are sorted and
// carry their own values.
func TestFieldsAreSorted(t *testing.T) {
	d := decode.New(decode.Options{})
	for _, values := range []string{
		`{"c":3,"a":1,"b":2}`, `{"c":3,"a":1,"b":2}`, `{"c":3,"a":1,"b":2}`, `{"c":3,"a":1}`, `{"c":3,"a":1}`,
		`{"c":3,"a":1,"b":2}`, `{"c":3,"a":1,"b":2,"d":4}`, `{"c":3,"a":null,"b":2,"d":4}`, `{"c":3,"a":1,"b":2,"d":4}`,
		`{"c":3,"c":3,"a":1,"b":2}`, `{"c":null,"c":3,"a":1,"b":2}`, `{"c":3,"c":3,"a":1,"b":2}`, `{"b":2}`, `{"b":2}`,
		`{"b":2}`,
		`{"a":1,"b":2,"c":3}`, `{"a":1,"b":2,"c":3}`, `{"b":2,"a":1}`,
	} {
		got := d.Decode(decode.Record{Value: []byte("[" + message(values) + "," + message(values) + "]")})
		require.Empty(t, got.Bad, values)
		for _, r := range got.Readings {
			last := ""
			for _, f := range r.Fields {
				require.Less(t, last, f.Metric, values)
				require.Equal(t, telemetry.FloatValue(float64(f.Metric[0]-'a'+1)), f.Value, values)
				last = f.Metric
			}
			require.NotEmpty(t, r.Fields)
		}
		require.Equal(t, got.Readings[0], got.Readings[1])
	}
}

// Strings and label sets may be kept by the caller while the Decoder goes on.
func TestStringsAndLabelsOutliveTheRecord(t *testing.T) {
	d := decode.New(decode.Options{})
	payload := []byte(`{"tenant":"acme","device":"m1","ts":0,"values":{"a":"x"},"labels":{"l":"one"}}`)
	first := d.Decode(decode.Record{Value: payload}).Readings[0]
	fields := append([]telemetry.Field{}, first.Fields...)
	copy(payload, strings.ReplaceAll(strings.ReplaceAll(string(payload), "one", "two"), "m1", "m2"))
	second := d.Decode(decode.Record{Value: payload}).Readings[0]
	require.Equal(t, "m1", first.Device)
	require.Equal(t, telemetry.Labels{{Name: "l", Value: "one"}}, first.Labels)
	require.Equal(t, telemetry.Field{Metric: "a", Value: telemetry.TextValue("x")}, fields[0])
	require.Equal(t, telemetry.Labels{{Name: "l", Value: "two"}}, second.Labels)
}

// A float is written as the shortest text that reads back to its bits, whichever way it is found.
func TestFloatsAreShortest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 21))
	for i := range 100_000 {
		f := math.Trunc(r.NormFloat64()*1e6) / []float64{1, 2, 8, 10, 1000, 1e5, 1e6, 3}[i%8] * math.Pow(10, float64(i%12-3))
		if abs := math.Abs(f); abs < 1e-6 || abs >= 1e15 {
			continue
		}
		reading := telemetry.Reading{Time: 1e12, Fields: []telemetry.Field{{Metric: "m", Value: telemetry.FloatValue(f)}}}
		want := `{"ts":1000000000000,"values":{"m":` + strconv.FormatFloat(f, 'f', -1, 64) + `}}`
		require.Equal(t, want, string(decode.AppendJSON(nil, reading)), "seed 5, 21")
	}
}
