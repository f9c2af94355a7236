package decode_test

import (
	"encoding/json"
	"strings"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// telegraf are the options of the topic telegraf.
var telegraf = decode.Options{Tenant: "demo", Lines: decode.Lines{Tags: []string{"os"}}}.ForTopic("telegraf")

const disk = `{"fields":{"free":52428800,"mode":"rw","ok":true,"used_percent":41.25},"name":"disk",` +
	`"tags":{"device":"sda1","host":"gw-7","os":"li\u006eux"},"timestamp":1795183200}`

// What Telegraf writes in JSON is what it writes in line protocol, but for integers, which JSON does not tell.
func TestTelegrafJSON(t *testing.T) {
	want := telemetry.Reading{
		Tenant: "demo", Device: "gw-7", Time: 1795183200000,
		Fields: []telemetry.Field{
			{Metric: "disk_free", Value: telemetry.FloatValue(52428800)},
			{Metric: "disk_mode", Value: telemetry.TextValue("rw")},
			{Metric: "disk_ok", Value: telemetry.BoolValue(true)},
			{Metric: "disk_used_percent", Value: telemetry.FloatValue(41.25)},
		},
		Labels: telemetry.Labels{{Name: "device", Value: "sda1"}},
		Tags:   telemetry.Labels{{Name: "os", Value: "linux"}},
	}
	d := decode.New(telegraf)
	for _, payload := range []string{disk, strings.Replace(disk, `"tags":`, `"tags":{"gone":"x"},"x":[{}],"tags":`, 1)} {
		got := d.Decode(decode.Record{Value: []byte(payload)})
		require.Empty(t, got.Bad)
		require.Equal(t, []telemetry.Reading{want}, got.Readings)
	}
	line := d.Decode(decode.Record{Value: []byte(
		`disk,device=sda1,host=gw-7,os=linux free=52428800,mode="rw",ok=true,used_percent=41.25 1795183200000000000`)})
	require.Equal(t, []telemetry.Reading{want}, line.Readings)

	bare := telegraf
	bare.Metric, bare.TenantTag = "field", "os"
	got := decode.New(bare).Decode(decode.Record{Value: []byte(disk), ContentType: "application/json"})
	require.Empty(t, got.Bad)
	require.Equal(t, "linux", got.Readings[0].Tenant)
	require.Equal(t, "free", got.Readings[0].Fields[0].Metric)
}

func TestTelegrafJSONTimes(t *testing.T) {
	for text, want := range map[string]int64{
		"1795183200": 1795183200000, "0": 0, "-1": -1000, "99999999999": 99999999999000, "1795183200123": 1795183200123,
		"1795183200123456": 1795183200123, "1795183200123456789": 1795183200123,
		`"2026-11-20T10:00:00.5Z"`: 1795168800500,
	} {
		got := decode.New(telegraf).Decode(decode.Record{Value: []byte(strings.Replace(disk, "1795183200", text, 1))})
		require.Empty(t, got.Bad, text)
		require.Equal(t, want, got.Readings[0].Time, text)
	}
}

// A fault of such a metric is reported, and what only begins like one is a message as any other.
func TestWrongTelegrafJSON(t *testing.T) {
	for payload, want := range map[string]decode.Reason{
		strings.Replace(disk, `"host"`, `"machine"`, 1):              decode.Device,
		strings.Replace(disk, `"gw-7"`, `"a/b"`, 1):                  decode.Device,
		strings.Replace(disk, `"gw-7"`, `7`, 1):                      decode.Label,
		strings.Replace(disk, `true`, `[1]`, 1):                      decode.Value,
		strings.Replace(disk, `52428800`, `99999999999999999999`, 1): decode.Value,
		strings.Replace(disk, `1795183200`, `"noon"`, 1):             decode.Time,
		strings.Replace(disk, `1795183200`, `null`, 1):               decode.Time,
		`{"fields":{},"name":"x","tags":{"host":"a"},"timestamp":1}`: decode.Empty,
		`{"fields":1,"name":"x","tags":{"host":"a"},"timestamp":1}`:  decode.Value,
		`{"fields":{"a":1},"name":"x","tags":1,"timestamp":1}`:       decode.Label,
		`{"fields":{"a":1},"name":1,"name":"x","timestamp":1}`:       decode.Name,
		`{"fields":{"a":1},"name":"x","timestamp":1`:                 decode.Undecodable,
		`{"fields":{"a":1},"name":"x"}`:                              decode.Device,
	} {
		got := decode.New(telegraf).Decode(decode.Record{Value: []byte(payload)})
		require.Empty(t, got.Readings, payload)
		require.Len(t, got.Bad, 1, payload)
		require.Equal(t, want, got.Bad[0].Reason, payload)
	}
	message := `{"fields":["a"],"name":"x","timestamp":1,"tenant":"acme","device":"m1","ts":1,"values":{"a":1}}`
	got := decode.New(telegraf).Decode(decode.Record{Value: []byte(message)})
	require.Empty(t, got.Bad)
	require.Equal(t, "m1", got.Readings[0].Device)
}

// What is read of such a metric is what encoding/json reads.
func FuzzTelegrafJSON(f *testing.F) {
	f.Add([]byte(disk))
	f.Add([]byte(`{"fields":{"a":null,"b":-0,"\u0062":1e3,"c":{"float":"NaN"}},"tags":{"host":"x","y":"\n"},` +
		`"timestamp":1,"name":"\\"}`))
	d := decode.New(telegraf)
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := d.Decode(decode.Record{Value: payload, ContentType: "application/json"})
		var m struct {
			Fields, Values map[string]json.RawMessage
			Name           *string
			Tags           map[string]string
		}
		err := json.Unmarshal(payload, &m)
		if err != nil || m.Name == nil || m.Fields == nil || m.Values != nil || len(got.Readings) == 0 {
			return
		}
		for name, raw := range m.Fields {
			if string(raw) == "null" {
				delete(m.Fields, name)
			}
		}
		r := got.Readings[0]
		if r.Device != m.Tags["host"] {
			return // a message of our own, which names its device otherwise
		}
		require.Len(t, r.Fields, len(m.Fields))
		for _, field := range r.Fields {
			requireValue(t, m.Fields[strings.TrimPrefix(field.Metric, *m.Name+"_")], field.Value)
		}
	})
}
