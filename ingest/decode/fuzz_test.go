package decode_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// What encoding/json rejects is never accepted, and what is accepted has the values that encoding/json
// and strconv read, bit for bit.
func FuzzJSONAgainstTheStandardLibrary(f *testing.F) {
	f.Add([]byte(truck))
	for _, seed := range []string{
		message(`{"a":1.5e3,"b":-0,"c":9007199254740993,"d":"\ud83d\ude00\n","e":null,"f":{"float":"NaN"}}`),
		"[" + message(`{"a":1}`) + ",\t" + message(`{"a":true,"a":false}`) + "," + message(`{"a":1,"a":null}`) + "]",
		`{"tenant":"acme","device":"m1","ts":"2026-11-20T10:00:00Z","values":{"a":1},"labels":{"a":"b"},"tags":null,"x":[{}]}`,
		`{"tenant":"acme","device":"m1","ts":1e12,"values":{"a":1},"x":"\x"}`, "\"a\x01\\n\"", `[1-2]`, `[nan]`, "{}", "[]",
		"",
	} {
		f.Add([]byte(seed))
	}
	d := decode.New(decode.Options{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := d.Decode(decode.Record{Value: payload, ContentType: "application/json"})
		if len(got.Bad) == 1 && got.Bad[0].Index == decode.Whole {
			require.Empty(t, got.Readings)
			return
		}
		require.True(t, json.Valid(payload))
		elements := []json.RawMessage{payload}
		if bytes.TrimLeft(payload, " \t\r\n")[0] == '[' {
			require.NoError(t, json.Unmarshal(payload, &elements))
		}
		require.Len(t, elements, len(got.Readings)+len(got.Bad))
		for i, r := range got.Readings {
			requireSame(t, elements[got.Index[i]], r)
		}
	})
}

// requireSame compares a reading with what encoding/json reads in its message.
func requireSame(t *testing.T, message []byte, r telemetry.Reading) {
	t.Helper()
	var top map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(message, &top))
	values, d := map[string]json.RawMessage{}, json.NewDecoder(bytes.NewReader(top["values"]))
	_, err := d.Token()
	require.NoError(t, err)
	for d.More() { // null is no value, and takes none away
		name, err := d.Token()
		require.NoError(t, err)
		var raw json.RawMessage
		require.NoError(t, d.Decode(&raw))
		if string(raw) != "null" {
			values[name.(string)] = raw
		}
	}
	require.Len(t, r.Fields, len(values))
	for _, f := range r.Fields {
		requireValue(t, values[f.Metric], f.Value)
	}
	for property, got := range map[string]string{"tenant": r.Tenant, "device": r.Device} {
		var want string
		require.NoError(t, json.Unmarshal(top[property], &want))
		require.Equal(t, want, got)
	}
	for property, got := range map[string]telemetry.Labels{"labels": r.Labels, "tags": r.Tags} {
		var want map[string]string
		if top[property] != nil {
			require.NoError(t, json.Unmarshal(top[property], &want))
		}
		require.Equal(t, telemetry.LabelsOf(want), got)
	}
}

func requireValue(t *testing.T, raw json.RawMessage, v telemetry.Value) {
	t.Helper()
	switch v.Kind() {
	case telemetry.Int:
		require.Equal(t, string(raw), strconv.FormatInt(v.Int(), 10))
	case telemetry.Float:
		if raw[0] == '{' {
			return
		}
		want, err := strconv.ParseFloat(string(raw), 64)
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(want), v.Bits(), "%s", raw)
	case telemetry.Bool:
		require.Equal(t, string(raw), strconv.FormatBool(v.Bool()))
	case telemetry.Text:
		var want string
		require.NoError(t, json.Unmarshal(raw, &want))
		require.Equal(t, want, v.Text())
	default:
		require.Fail(t, "a field without a value")
	}
}

// An integer literal keeps its exact value or is refused; a time is the literal rounded down, exactly.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{
		"0", "-0", "1", "9007199254740993", "-9223372036854775808", "18446744073709551616", "1763640000000.999999999999",
		"-0.0001", "1e12", "123456789012345678901234567890e-20", "-1.5", "0.1e1", "5e-324", "1e309", "0e9999", "00", "1.",
		"-",
	} {
		f.Add(seed)
	}
	d := decode.New(decode.Options{})
	f.Fuzz(func(t *testing.T, text string) {
		if text != strings.TrimSpace(text) || !json.Valid([]byte(text)) || !strings.Contains("-0123456789", text[:1]) {
			return
		}
		got := d.Decode(decode.Record{Value: []byte(message(`{"a":` + text + `}`))})
		require.False(t, len(got.Bad) == 1 && got.Bad[0].Reason != decode.Value, text)
		if len(text) > 60 || strings.ContainsAny(text, "eE") && len(text)-strings.IndexAny(text, "eE") > 4 {
			return // beyond what big.Rat reads in reasonable time
		}
		exact, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		if len(got.Readings) == 1 && !strings.ContainsAny(text, ".eE") {
			v := got.Readings[0].Fields[0].Value
			have := new(big.Rat).SetInt64(v.Int())
			if v.Kind() == telemetry.Float {
				have.SetFloat64(v.Float())
			}
			require.Zero(t, exact.Cmp(have), text)
		}
		near, _ := exact.Float64()
		switch telemetry.EpochPlaces(near) {
		case 3:
			exact.Mul(exact, big.NewRat(1000, 1))
		case -3:
			exact.Quo(exact, big.NewRat(1000, 1))
		case -6:
			exact.Quo(exact, big.NewRat(1000000, 1))
		}
		floor := new(big.Int).Div(exact.Num(), exact.Denom())
		at := d.Decode(decode.Record{Value: []byte(`{"tenant":"a","device":"b","values":{"a":1},"ts":` + text + `}`)})
		if len(at.Readings) == 1 {
			require.Equal(t, floor.String(), strconv.FormatInt(at.Readings[0].Time, 10), text)
		} else {
			require.True(t, !floor.IsInt64() || floor.Int64() < -math.MaxInt64, text)
		}
	})
}

// Decode(AppendJSON(r)) is r, but that JSON has one NaN, and no ints where floats do, and that an empty label is none.
func FuzzRoundTrip(f *testing.F) {
	f.Add("acme", "m1", int64(1763640000000), "a", uint64(0x7FF8000000000001), int64(23), "text", "label\x00\"")
	f.Add("x", "Gerät", int64(-1), "b", uint64(1)<<63, int64(1)<<60+1, "", "😀")
	f.Add("x", "m", int64(math.MaxInt64), "b", math.Float64bits(9007199254740994), int64(math.MinInt64), "\x1f\x7f", "")
	f.Add("x", "m", int64(0), "b", math.Float64bits(1e15), int64(math.MaxInt64), "\u2028", "")
	d := decode.New(decode.Options{})
	f.Fuzz(func(t *testing.T, tenant, device string, ts int64, metric string, bits uint64, i int64, text, label string) {
		if telemetry.CheckTenant(tenant) != nil || telemetry.CheckDevice(device) != nil ||
			ts <= -telemetry.MaxMillis || ts >= telemetry.MaxMillis ||
			telemetry.CheckName("metric", metric+"a") != nil || !utf8.ValidString(text) || !utf8.ValidString(label) {
			return
		}
		in := telemetry.Reading{
			Tenant: tenant, Device: device, Time: ts,
			Fields: []telemetry.Field{
				{Metric: metric + "0", Value: telemetry.BitsValue(telemetry.Float, bits)},
				{Metric: metric + "1", Value: telemetry.IntValue(i)},
				{Metric: metric + "2", Value: telemetry.BoolValue(i%2 == 0)},
				{Metric: metric + "3", Value: telemetry.TextValue(text)},
			},
			Labels: telemetry.Labels{{Name: metric + "l", Value: label}},
			Tags:   telemetry.Labels{{Name: metric + "t", Value: text}},
		}
		got := d.Decode(decode.Record{Value: decode.AppendJSON(nil, in)})
		require.Empty(t, got.Bad)
		if math.IsNaN(in.Fields[0].Value.Float()) {
			in.Fields[0].Value = telemetry.FloatValue(math.NaN())
		}
		if new(big.Int).SetInt64(i).Cmp(bigOf(float64(i))) == 0 {
			in.Fields[1].Value = telemetry.FloatValue(float64(i))
		}
		if label == "" {
			in.Labels = nil
		}
		require.Equal(t, []telemetry.Reading{in}, got.Readings)
	})
}

func bigOf(f float64) *big.Int {
	i, _ := big.NewFloat(f).Int(nil)
	return i
}

// Every reading is whole, and where no string can span lines, lines are read one by one.
func FuzzLines(f *testing.F) {
	f.Add([]byte(truckLine))
	f.Add([]byte("m,name=a f=\"1\n\" 1\n#\n\nm,name=a,l=\\  f=1i,g=t,h=2u -1\r\nm f=\"\\\"\" 5"))
	f.Add([]byte("m,name=a f=\"1\nm,name=a f=\"2\"\n\\\nm,name=a f=1\\"))
	f.Add([]byte("m,name=a f=1\nm,name=a f=1 x\nm,name=a f=1 7"))
	opts := decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "name", Tags: []string{"t"}}}
	d, single := decode.New(opts), decode.New(opts)
	f.Fuzz(func(t *testing.T, payload []byte) {
		r := decode.Record{Value: payload, ContentType: "text/plain; format=influx", Timestamp: 5}
		got := d.Decode(r)
		for i, x := range got.Readings {
			require.NoError(t, telemetry.CheckDevice(x.Device))
			require.NotEmpty(t, x.Fields)
			require.True(t, i == 0 || got.Index[i-1] < got.Index[i])
		}
		if bytes.ContainsAny(payload, "\"\\") {
			return
		}
		n := 0
		for line := range bytes.Lines(payload) {
			r.Value = line
			for _, x := range single.Decode(r).Readings {
				require.Equal(t, x, got.Readings[n])
				n++
			}
		}
		require.Len(t, got.Readings, n)
	})
}
