package decode_test

import (
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// The number that a device gives a message is a metric of its readings, wherever it stands; what is no number is none,
// and without the setting it is what it was.
func TestSequenceNumbers(t *testing.T) {
	header := func(value string) []decode.Header { return []decode.Header{{Key: "Seq", Value: []byte(value)}} }
	const flat = "application/json; format=flat"
	for name, c := range map[string]struct {
		record decode.Record
		want   []telemetry.Value // of the readings, the zero one for none
	}{
		"a property": {decode.Record{Value: []byte(`{"tenant":"acme","device":"m","ts":1,"seq":7,"values":{"v":1,"a":2}}`)},
			[]telemetry.Value{telemetry.IntValue(7)}},
		"behind": {decode.Record{Value: []byte(`[{"tenant":"acme","device":"m","ts":1,"values":{"v":1},"seq": 8 },` +
			`{"tenant":"acme","device":"m","ts":2,"values":{"v":1}}]`)},
			[]telemetry.Value{telemetry.IntValue(8), {}}},
		"no number": {decode.Record{Value: []byte(`{"tenant":"acme","device":"m","ts":1,"seq":{"n":7},"values":{"v":1}}`)},
			[]telemetry.Value{{}}},
		"a value, too": {decode.Record{Value: []byte(
			`{"tenant":"acme","device":"m","ts":1,"seq":7,"values":{"seq":1.5}}`)},
			[]telemetry.Value{telemetry.FloatValue(1.5)}},
		"flat": {decode.Record{ContentType: flat, Value: []byte(`{"tenant":"acme","device":"m","ts":1,"v":1,"seq":7}`)},
			[]telemetry.Value{telemetry.FloatValue(7)}},
		"a header": {decode.Record{Headers: header("9"), Value: []byte(
			`[{"tenant":"acme","device":"m","ts":1,"values":{"z":1,"a":2}},` +
				`{"tenant":"acme","device":"m","ts":2,"seq":3,"values":{"v":1}}]`)},
			[]telemetry.Value{telemetry.IntValue(9), telemetry.IntValue(3)}},
		"a header of lines": {decode.Record{Headers: header("9"), Value: []byte(`m,tenant=acme,device=m v=1 1000000`)},
			[]telemetry.Value{telemetry.IntValue(9)}},
		"a header that is none": {decode.Record{Headers: header("nine"), Value: []byte(
			`{"tenant":"acme","device":"m","ts":1,"values":{"v":1}}`)}, []telemetry.Value{{}}},
	} {
		d := decode.New(decode.Options{Sequence: "seq", Lines: decode.Lines{DeviceTag: "device", TenantTag: "tenant"}})
		for range 3 { // it learns the shape of messages
			got := d.Decode(c.record)
			require.Empty(t, got.Bad, name)
			require.Len(t, got.Readings, len(c.want), name)
			for i, want := range c.want {
				var found telemetry.Value
				fields := got.Readings[i].Fields
				for j, f := range fields {
					require.True(t, j == 0 || fields[j-1].Metric < f.Metric, name)
					if f.Metric == "seq" {
						found = f.Value
					}
				}
				require.Equal(t, want, found, name)
			}
		}
	}
	got := decode.New(decode.Options{}).Decode(decode.Record{Headers: header("9"), Value: []byte(
		`{"tenant":"acme","device":"m","ts":1,"seq":7,"values":{"v":1}}`)})
	require.Len(t, got.Readings[0].Fields, 1, "off")
	require.ErrorContains(t, decode.Options{Sequence: "a\x00"}.Check(), "--sequence")
}
