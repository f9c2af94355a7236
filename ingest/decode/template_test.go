package decode_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
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

// options are those that bear on messages.
var options = []decode.Options{
	{Tenant: "acme"},
	{Sequence: "seq"},
	{Bound: "acme"},
	{Tenant: "acme", Device: "gate"},
	{Set: decode.Names{Tenant: "x", Device: "y"}},
	{Format: decode.FlatJSON},
}

// requireFresh decodes a payload with a Decoder that has read others, and with one that has not: whatever it may have
// learnt, it must find the same.
func requireFresh(t *testing.T, d *decode.Decoder, opts decode.Options, payload []byte) {
	t.Helper()
	r := decode.Record{Value: payload, Timestamp: 1763640000000}
	want := decode.New(opts).Decode(r)
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
func FuzzTemplates(f *testing.F) {
	for i, kind := range kinds {
		f.Add(uint8(0), []byte(kind), []byte(kinds[(i+1)%len(kinds)]), 3, "x")
		f.Add(uint8(i), []byte(kind), []byte(kind), len(kind)/2, "\"")
	}
	f.Add(uint8(1), []byte(kinds[1]), []byte(kinds[1]), len(kinds[1])-3, "e5")
	f.Add(uint8(1), []byte(kinds[1]), []byte(kinds[1]), len(kinds[1])-2, "\xff")
	f.Fuzz(func(t *testing.T, which uint8, a, b []byte, at int, insert string) {
		opts := options[int(which)%len(options)]
		d := decode.New(opts)
		for range 3 {
			requireFresh(t, d, opts, a)
		}
		requireFresh(t, d, opts, b)
		if at < 0 || at > len(a) {
			return
		}
		changed := append(append(append([]byte{}, a[:at]...), insert...), a[at:]...)
		requireFresh(t, d, opts, changed)
		if end := at + len(insert); end <= len(a) {
			requireFresh(t, d, opts, append(append(append([]byte{}, a[:at]...), insert...), a[end:]...))
		}
		requireFresh(t, d, opts, a)
	})
}

// Messages of all kinds, changed in one place each, one after the other.
func TestTemplatesGiveTheSameResult(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	t.Log("seed", seed)
	odd := []string{"", `"`, `\`, "\n", " ", ",", "}", "{", "[", ":", "0", "-", ".", "e", "1", "null", "é", "\xff", "\x00", `\u0041`,
		`"a":1,`, `1234567890`, "//"}
	fits := 0
	for _, opts := range options {
		d := decode.New(opts)
		for range 2000 {
			kind := kinds[r.IntN(len(kinds))]
			requireFresh(t, d, opts, []byte(kind))
			at := r.IntN(len(kind))
			requireFresh(t, d, opts, []byte(kind[:at]+odd[r.IntN(len(odd))]+kind[min(len(kind), at+r.IntN(3)):]))
		}
		fits += d.Fits()
	}
	require.Greater(t, fits, 1000)
}

// Each kind of message that can have a template has one from the second on, and as many as there are.
func TestTemplatesMatchSimilarMessages(t *testing.T) {
	for i, kind := range kinds {
		d := decode.New(decode.Options{Tenant: "acme"})
		for range 10 {
			requireFresh(t, d, decode.Options{Tenant: "acme"}, []byte(kind))
		}
		want := map[int]int{5: 0, 6: 18, 8: 0}
		if n, special := want[i]; special {
			require.Equal(t, n, d.Fits(), kind)
		} else {
			require.Equal(t, 9, d.Fits(), kind)
		}
	}
	d := decode.New(decode.Options{Tenant: "acme"})
	for i := range 500 {
		requireFresh(t, d, decode.Options{Tenant: "acme"}, []byte(kinds[i%5]))
	}
	require.Greater(t, d.Fits(), 450, "producers of some kinds take turns")
	requireFresh(t, d, decode.Options{Tenant: "acme"},
		[]byte(strings.Replace(truck, `"ts"`, `"x":1,"ts"`, 1)))
}

// Text is looked at wherever it stands: what is no UTF-8 makes a message none.
func TestTemplatesRejectBadText(t *testing.T) {
	opts := decode.Options{Tenant: "acme"}
	for _, message := range []string{
		`{"device":"m","ts":1,"values":{"a":"@"}}`, `{"device":"@","ts":1,"values":{"a":1}}`,
		`{"device":"m","ts":1,"values":{"a":1},"labels":{"a":"@"}}`, `{"device":"m","ts":1,"values":{"a":1},"x":["@"]}`,
		`{"device":"m","ts":"@","values":{"a":1}}`, `{"tenant":"@","device":"m","ts":1,"values":{"a":1}}`,
	} {
		d := decode.New(opts)
		for _, text := range []string{"acme", "2026-11-20T10:00:00Z", "b", `\u0041`, `\ud800`, "\xff", "\x01", "é", "", "b"} {
			for range 2 {
				requireFresh(t, d, opts, []byte(strings.Replace(message, "@", text, 1)))
			}
		}
		require.Positive(t, d.Fits(), message)
	}
}

// A device that never repeats the form of a message does not have templates tried for each.
func TestTemplatesPauseWithoutMatches(t *testing.T) {
	opts := decode.Options{Tenant: "acme"}
	d := decode.New(opts)
	for i := range 2000 {
		requireFresh(t, d, opts, fmt.Appendf(nil, `{"device":"m","ts":%d,"values":{"a%d":1}}`, i, i))
	}
	require.Zero(t, d.Fits())
	for i := range 2000 {
		requireFresh(t, d, opts, fmt.Appendf(nil, `{"device":"m","ts":%d,"values":{"a":1}}`, i))
	}
	require.Greater(t, d.Fits(), 1500)
}

// Numbers are read as they are without a template, to the last bit.
func TestTemplateNumbers(t *testing.T) {
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
	require.Greater(t, d.Fits(), len(numbers))
}

// A long text is not read once for each template that the message with it may fit: nobody makes a record take much more
// memory than it takes without them.
func TestTemplatesSkipLongTexts(t *testing.T) {
	opts := decode.Options{Lines: decode.Lines{TenantTag: "tenant", DeviceTag: "device"}}
	d, plain := decode.New(opts), decode.New(opts)
	plain.WithoutTemplates()
	message := func(frame, body int, text string) decode.Record {
		return decode.Record{ContentType: "application/json", Value: fmt.Appendf(nil,
			`{"tenant":"acme","device":"d","ts":1,"values":{"a":"%s","b%d":1},"c%d":2}`, text, body, frame)}
	}
	for frame := range 8 {
		for body := range 16 {
			for range 4 { // a device that only learns runs out of tries
				require.Len(t, d.Decode(message(frame, body, `\\`)).Readings, 1)
			}
		}
	}
	fits := d.Fits()
	require.Len(t, d.Decode(message(1, 1, `\\`)).Readings, 1)
	require.Greater(t, d.Fits(), fits)
	taken := func(d *decode.Decoder, r decode.Record) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Len(t, d.Decode(r).Readings, 1)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for _, long := range []decode.Record{
		message(9, 99, strings.Repeat(`\\`, 1<<20)),
		message(9, 99, strings.Repeat(`\\`, 4000)),
	} {
		require.Less(t, taken(d, long), 4*taken(plain, long)+1<<20)
	}
	line := func(body int, text string) decode.Record {
		return decode.Record{ContentType: "text/plain; format=influx", Value: fmt.Appendf(nil,
			`m,tenant=acme,device=d a="%s",b%d=1 1`, text, body)}
	}
	for body := range 64 {
		for range 4 {
			require.Len(t, d.Decode(line(body, "x")).Readings, 1)
		}
	}
	require.Greater(t, d.LineFits(), 100)
	long := line(99, strings.Repeat("x", 1<<20))
	require.Less(t, taken(d, long), 4*taken(plain, long)+1<<20)
}
