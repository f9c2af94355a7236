package decode_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// kinds are messages of producers that write them each in its way.
var kinds = []string{
	truck,
	`{"tenant":"acme","device":"m1","ts":1763640000001,"values":{"a":1}}`,
	`{ "ts" : "2026-11-20T10:00:00Z", "values" : { "b" : -1.5e3 , "a":true,"t":"on" }, "device":"m2" , "tenant":"acme" } `,
	`{"values":{"a":{"float":"NaN"},"z":null},"tags":{"a":"b"},"labels":{"x":"y","v":"\u00e9"},"ts":5,"device":"m3","tenant":"b"}`,
	`{"device":"Gerät","note":{"a":[1,"}"]},"ts":7,"values":{"Temperatur °C":21.25,"a":74.93588199999998},"tenant":"acme","n":"x"}`,
	`{"device":"m4","ts":7,"values":{"a":1,"a":2}}`,
	`[{"device":"m5","ts":8,"values":{"a":0.1}},{"device":"m6","ts":9,"values":{"a":-0,"b":9007199254740993}},{"device":""}]`,
	`{"tenant":"acme","device":"m7","seq":12,"ts":8,"values":{"a":0.1},"labels":{"a":"}","b":"{"}}`,
	`{"device":"m9","ts":8,"values":{"a":1},"values":{"b":2}}`,
	`{"fields":1,"device":"m8","ts":8,"values":{"a":0.1}}`,
}

// flatKinds are objects of any shape.
var flatKinds = []string{
	`{"deviceId":"m1","timestamp":"2026-11-20T10:00:00Z","temperature":73.9,"pressure":{"in":1.5,"out":1.2},"ok":true}`,
	`{ "tenantId" : "acme", "t":{"device":"x"}, "device_id":"m2" ,"time":1763640000000,"b":-1.5e3 ,"a":"on","n":null}`,
	`{"device":"m3","ts":5,"list":[1,[2,"]"]],"deep":{"er":{"list":[{}],"v":0.5}},"big":9007199254740993,"\u0041":1}`,
	`{"vin":"m4","ts":7,"axle":"rear","pos":{"side":"left"},"model":"G\"","speed":62.5}`,
	`{"device":"m6","ts":7,"axle":"","labels":{"a":"b"},"speed":1}`,
	`{"device":"m7","ts":7,"labels":{"a":"b"},"model":"H","speed":1,"Gerät":2}`,
	`{"device":"m8","ts":7,"tags":{"a":"b"},"values":{"a":1,"b":2}}`,
	`{"device":"m9","ts":7,"x":3,"values":{"a":1,"b":2}}`,
	`{"temperature":73.9,"pressure":{"in":1.5,"out":1.2}}`,
	`{"values":{"a":1,"b":null}}`,
	`{"a_b":1,"a":{"b":2},"device":"m10","ts":7}`,
	`[{"device":"m11","ts":8,"a":1},{"device":"m12","ts":9,"a":{"b":2}},{"values":4,"device":"m13","ts":9}]`,
	`[{"Body":1,"device":"m14","ts":8,"values":{"a":1}}]`,
	`{"Body":1,"device":"m14","ts":8,"values":{"a":1}}`,
	`{"vin":"m4","device":"m5","ts":7,"x":1}`,
}

// source is a topic or a producer: options and headers that bear on messages.
type source struct {
	decode.Options
	headers []decode.Header
}

var hubSource = []decode.Header{
	{Key: "iothub-connection-device-id", Value: []byte("m4")},
	{Key: "iothub-enqueuedtime", Value: []byte("2026-11-20T10:00:00Z")},
}

var sources = []source{
	{Options: decode.Options{Tenant: "acme"}},
	{Options: decode.Options{Sequence: "seq"}},
	{Options: decode.Options{Bound: "acme"}},
	{Options: decode.Options{Tenant: "acme", Device: "gate"}},
	{Options: decode.Options{Set: decode.Names{Tenant: "x", Device: "y"}}},
	{Options: decode.Options{Format: decode.FlatJSON, Tenant: "acme"}},
	{Options: decode.Options{Format: decode.FlatJSON, Tenant: "acme", Object: decode.ObjectNames{
		Device: []string{"vin", "deviceId"}, Labels: []string{"axle", "pos_side"}, Tags: []string{"model"}}}},
	{Options: decode.Options{Tenant: "acme"}, headers: hubSource},
	{Options: decode.Options{Tenant: "acme", Gateways: true}, headers: hubSource},
}

// requireFresh decodes a payload with a Decoder that has read others, and with one that has not: whatever it may have
// learnt, it must find the same.
func requireFresh(t *testing.T, d *decode.Decoder, opts decode.Options, payload []byte) {
	t.Helper()
	source{Options: opts}.requireFresh(t, d, payload)
}

func (s source) requireFresh(t *testing.T, d *decode.Decoder, payload []byte) {
	t.Helper()
	r := decode.Record{Value: payload, Timestamp: 1763640000000, Headers: s.headers}
	want := decode.New(s.Options).Decode(r)
	got := d.Decode(r)
	require.Equal(t, append([]decode.Bad{}, want.Bad...), append([]decode.Bad{}, got.Bad...), "%q", payload)
	require.Len(t, got.Readings, len(want.Readings), "%q", payload)
	for i := range want.Readings {
		require.Equal(t, want.Index[i], got.Index[i])
		require.Equal(t, fmt.Sprintf("%#v", want.Readings[i]), fmt.Sprintf("%#v", got.Readings[i]), "%q", payload)
		for k, f := range want.Readings[i].Fields {
			require.Equal(t, f.Value.Bits(), got.Readings[i].Fields[k].Value.Bits(), "%q", payload)
		}
	}
}

// What was learnt of messages never shows in what later ones are found to be, whatever is changed in them.
func FuzzPlaces(f *testing.F) {
	for i, kind := range kinds {
		f.Add(uint8(0), []byte(kind), []byte(kinds[(i+1)%len(kinds)]), 3, "x")
		f.Add(uint8(i), []byte(kind), []byte(kind), len(kind)/2, "\"")
	}
	for i, kind := range flatKinds {
		f.Add(uint8(5+i), []byte(kind), []byte(flatKinds[(i+1)%len(flatKinds)]), len(kind)/2, "{")
	}
	f.Add(uint8(1), []byte(kinds[1]), []byte(kinds[1]), len(kinds[1])-3, "e5")
	f.Add(uint8(1), []byte(kinds[1]), []byte(kinds[1]), len(kinds[1])-2, "\xff")
	f.Fuzz(func(t *testing.T, which uint8, a, b []byte, at int, insert string) {
		from := sources[int(which)%len(sources)]
		d := decode.New(from.Options)
		for range 3 {
			from.requireFresh(t, d, a)
		}
		from.requireFresh(t, d, b)
		if at < 0 || at > len(a) {
			return
		}
		changed := append(append(append([]byte{}, a[:at]...), insert...), a[at:]...)
		from.requireFresh(t, d, changed)
		if end := at + len(insert); end <= len(a) {
			from.requireFresh(t, d, append(append(append([]byte{}, a[:at]...), insert...), a[end:]...))
		}
		from.requireFresh(t, d, a)
	})
}

// Messages of all kinds, changed in one place each, one after the other.
func TestPlacesGiveTheSameResult(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	odd := []string{"", `"`, `\`, "\n", " ", ",", "}", "{", "[", ":", "0", "-", ".", "e", "1", "null", "é", "\xff", "\x00", `\u0041`,
		`"a":1,`, `1234567890`, "//"}
	all := slices.Concat(kinds, flatKinds)
	for _, from := range sources {
		d := decode.New(from.Options)
		for range 1000 {
			kind := all[r.IntN(len(all))]
			from.requireFresh(t, d, []byte(kind))
			at := r.IntN(len(kind))
			from.requireFresh(t, d, []byte(kind[:at]+odd[r.IntN(len(odd))]+kind[min(len(kind), at+r.IntN(3)):]))
		}
	}
}

// A property that is where it was the last time is not looked up again, in messages of every kind, as in those of
// producers that take turns.
func TestPropertiesAreFoundWhereTheyWere(t *testing.T) {
	for _, from := range sources {
		d := decode.New(from.Options)
		for i, kind := range slices.Concat(kinds, flatKinds) {
			if strings.Contains(kind, "[{") || from.headers != nil && i == len(kinds)+13 {
				continue // arrays have their messages by turns; an envelope is none
			}
			from.requireFresh(t, d, []byte(kind))
			from.requireFresh(t, d, []byte(kind))
			before := d.Lookups()
			from.requireFresh(t, d, []byte(kind))
			require.Equal(t, before, d.Lookups(), kind)
		}
	}
	d := decode.New(decode.Options{Tenant: "acme"})
	for i := range 500 {
		if i == 20 {
			require.Less(t, d.Lookups(), 30)
		}
		requireFresh(t, d, decode.Options{Tenant: "acme"}, []byte(kinds[i%2]))
	}
	require.Less(t, d.Lookups(), 30, "two producers take turns")
	d = decode.New(sources[6].Options)
	for i := range 500 {
		sources[6].requireFresh(t, d, fmt.Appendf(nil, `{"deviceId":"m%d","ts":%d,"a%d":{"b":%d}}`, i, i, i%12, i))
	}
}

// Where a property had a value, another message may have another kind of one.
func TestPlacesHaveOtherValues(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 50) + `@` + strings.Repeat(`}`, 50)
	for _, c := range []struct{ message, first, then string }{
		{`{"vin":"m","ts":1,"a":@}`, `1`, `{"float":"NaN"}`},
		{`{"vin":"m","ts":1,"a":@}`, `1`, `[1]`},
		{`{"vin":"m","ts":1,"b":1,"a":@}`, `[1]`, `2`},
		{`{"vin":"m","ts":1,"b":1,"a":@}`, `[1]`, `{"c":2}`},
		{`{"vin":"m","ts":1,"b":1,"a":` + nested + `}`, `[1]`, strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60)},
		{`{"vin":"m","ts":1,"axle":@,"a":1}`, `"rear"`, `""`},
		{`{"vin":"m","ts":1,"axle":@,"a":1}`, `"rear"`, `5`},
		{`{"vin":"m","ts":1,"axle":@,"a":1}`, `"rear"`, `{"x":5}`},
		{`{"vin":@,"ts":1,"a":1}`, `"m"`, `""`},
		{`{"vin":@,"ts":1,"a":1}`, `"m"`, `"/"`},
		{`{"vin":@,"ts":1,"a":1}`, `"m"`, `7`},
		{`{"vin":"m","time":@,"a":1}`, `1`, `null`},
		{`{"vin":"m","time":@,"a":1}`, `1`, `"now"`},
		{`{"vin":"m","ts":1,"tags":@,"model":"H","a":1}`, `{"a":"b"}`, `{}`},
		{`{"vin":"m","ts":1,"tags":@,"model":"H","a":1}`, `{"a":"b"}`, `null`},
		{`{"vin":"m","ts":1,"values":@}`, `{"a":1}`, `5`},
		{`{"vin":"m","ts":1,"values":@}`, `5`, `{"a":1}`},
	} {
		from := sources[6]
		d := decode.New(from.Options)
		for range 3 {
			from.requireFresh(t, d, []byte(strings.Replace(c.message, "@", c.first, 1)))
			from.requireFresh(t, d, []byte(strings.Replace(c.message, "@", c.then, 1)))
		}
	}
	d, other := decode.New(sources[5].Options), source{Options: sources[5].Options, headers: hubSource}
	for range 3 { // the time of a message without one is the envelope's, or it has none
		other.requireFresh(t, d, []byte(`{"device":"m4","a":1}`))
		sources[5].requireFresh(t, d, []byte(`{"device":"m4","a":1}`))
	}
}

// Text is looked at wherever it stands: what is no UTF-8 makes a message none.
func TestPlacesRejectBadText(t *testing.T) {
	both := []decode.Options{{Tenant: "acme"}, {Set: decode.Names{Tenant: "acme", Device: "m"}}}
	for _, message := range []string{
		`{"device":"m","ts":1,"values":{"a":"@"}}`, `{"device":"@","ts":1,"values":{"a":1}}`,
		`{"device":"m","ts":1,"values":{"a":1},"labels":{"a":"@"}}`, `{"device":"m","ts":1,"values":{"a":1},"x":["@"]}`,
		`{"device":"m","ts":"@","values":{"a":1}}`, `{"tenant":"@","device":"m","ts":1,"values":{"a":1}}`,
	} {
		for _, opts := range both {
			d := decode.New(opts)
			for _, text := range []string{"acme", "2026-11-20T10:00:00Z", "b", `\u0041`, `\ud800`, "\xff", "\x01", "é", "", "b"} {
				for range 2 {
					requireFresh(t, d, opts, []byte(strings.Replace(message, "@", text, 1)))
				}
			}
		}
	}
}

// A device that never repeats a property takes no more memory than there is room for, and then others have their turn.
func TestPlacesTakeBoundedMemory(t *testing.T) {
	opts := decode.Options{Tenant: "acme"}
	d := decode.New(opts)
	for i := range 20_000 {
		require.Len(t, d.Decode(decode.Record{Value: fmt.Appendf(nil, `{"device":"m","ts":%d,"values":{"a%d":1}}`, i, i),
			ContentType: "application/json"}).Readings, 1)
	}
	before := d.Lookups()
	for i := range 2000 {
		requireFresh(t, d, opts, fmt.Appendf(nil, `{"device":"m","ts":%d,"values":{"a":1}}`, i))
	}
	require.Less(t, d.Lookups()-before, 2000)
}

// Numbers are read alike, whatever was read before, to the last bit.
func TestPlaceNumbers(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	opts := decode.Options{Tenant: "acme"}
	d := decode.New(opts)
	numbers := []string{"0", "-0", "0.0", "-0.0", "00", "01", "-01", "1.", ".1", "-", "-.5", "1e", "1e5", "1E-3", "1.5e+3",
		"0.1", "0.30", "999999999999999", "9999999999999999", "1000000000000001", "0.000000000000001",
		"0.0000000000000001", "123456789.123456789", "9007199254740993", "18446744073709551616", "184467440737095516160",
		"1.7976931348623157e308", "1e309", "5e-324", "+1", "1 ", "1\x00", "0x10", "1_0", "NaN", "1.5.5", "--1"}
	for range 3000 {
		switch x := r.Float64()*2000 - 1000; r.IntN(4) {
		case 0:
			numbers = append(numbers, strconv.FormatFloat(x, 'f', r.IntN(18), 64))
		case 1:
			numbers = append(numbers, strconv.FormatFloat(x, 'g', -1, 64))
		case 2:
			numbers = append(numbers, strconv.FormatInt(r.Int64()>>r.IntN(64), 10))
		default:
			numbers = append(numbers, strconv.FormatFloat(math.Float64frombits(r.Uint64()&^(1<<62)), 'e', -1, 64))
		}
	}
	for _, n := range numbers {
		requireFresh(t, d, opts, []byte(`{"device":"m","ts":1,"values":{"a":1}}`))
		requireFresh(t, d, opts, []byte(`{"device":"m","ts":1,"values":{"a":`+n+`}}`))
		requireFresh(t, d, opts, []byte(`{"device":"m","ts":`+n+`,"values":{"a":1}}`))
	}
}
