package decode_test

import (
	"strings"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

const flatType = "application/json; format=flat"

func TestFlatJSON(t *testing.T) {
	opts := decode.Options{
		Tenant: "acme",
		Object: decode.ObjectNames{Device: []string{"vin", "id"}, Labels: []string{"axle", "pos_side"},
			Tags: []string{"model"}},
	}
	got := decode.New(opts).Decode(decode.Record{ContentType: flatType, Value: []byte(`{"id":7,"timestamp":"2025-11-20T12:00:00Z","axle":2,
		"model":"G","speed":62.5,"gear":"D","gps":{"lat":1,"fix":null,"deep":{"er":true}},"pos":{"side":"left"},"list":[{}],"big":9007199254740993}`)})
	require.Empty(t, got.Bad)
	require.Equal(t, []telemetry.Reading{{
		Tenant: "acme", Device: "7", Time: 1763640000000,
		Fields: []telemetry.Field{
			{Metric: "big", Value: telemetry.IntValue(9007199254740993)},
			{Metric: "gear", Value: telemetry.TextValue("D")},
			{Metric: "gps_deep_er", Value: telemetry.BoolValue(true)},
			{Metric: "gps_lat", Value: telemetry.FloatValue(1)},
			{Metric: "speed", Value: telemetry.FloatValue(62.5)},
		},
		Labels: telemetry.Labels{{Name: "axle", Value: "2"}, {Name: "pos_side", Value: "left"}},
		Tags:   telemetry.Labels{{Name: "model", Value: "G"}},
	}}, got.Readings)

	got = decode.New(opts).Decode(decode.Record{ContentType: flatType,
		Value: []byte(`[{"id":"a","vin":"b","ts":1,"x":1},{"vin":"c","id":"d","time":2,"ts":3,"x":1}]`)})
	require.Equal(t, "b", got.Readings[0].Device)
	require.Equal(t, "c", got.Readings[1].Device)
	require.EqualValues(t, 3000, got.Readings[1].Time)
}

// What has the shape of a message is read as one, also where other shapes are expected.
func TestFlatJSONReadsMessages(t *testing.T) {
	d := decode.New(decode.Options{})
	text := []byte(`{"tenant":"acme","x":1,"device":"m1","ts":5,"values":{"a":1},"y":[2],"labels":{"l":"1"},"tags":{"t":"2"}}`)
	plain := d.Decode(decode.Record{Value: text})
	want := append([]telemetry.Reading{}, plain.Readings...)
	want[0].Fields = append([]telemetry.Field{}, want[0].Fields...)
	require.Equal(t, want, d.Decode(decode.Record{Value: text, ContentType: flatType}).Readings)
	for text, want := range map[string]decode.Reason{
		`{"tenant":"A","device":"m1","ts":5,"x":1}`:                             decode.Tenant,
		`{"tenantId":"A","device":"m1","ts":5,"x":1}`:                           decode.Tenant,
		`{"tenant":"a","deviceId":"/","ts":5,"x":1}`:                            decode.Device,
		`{"tenant":"a","deviceId":[],"ts":5,"x":1}`:                             decode.Label,
		`{"tenant":"a","device":"m1","time":"now","x":1}`:                       decode.Time,
		`{"tenant":"a","device":"m1","x":1}`:                                    decode.Time,
		`{"tenant":"a","device":"m1","ts":5}`:                                   decode.Empty,
		`{"tenant":"a","device":"m1","ts":5,"x":1e999}`:                         decode.Value,
		`{"tenant":"a","device":"m1","ts":5,"":1}`:                              decode.Name,
		`{"a":` + strings.Repeat(`{"a":`, 200) + `1` + strings.Repeat(`}`, 201): decode.Undecodable,
	} {
		got := d.Decode(decode.Record{Value: []byte(text), ContentType: flatType})
		require.Len(t, got.Bad, 1, text)
		require.Equal(t, want, got.Bad[0].Reason, "%s: %s", text, got.Bad[0].Detail)
	}
}
