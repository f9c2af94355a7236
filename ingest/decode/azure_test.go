package decode_test

import (
	"encoding/base64"
	"encoding/binary"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// amqp is a property as Event Hubs passes it from AMQP to Kafka.
func amqp(text string) []byte { return append([]byte{0xA1, byte(len(text))}, text...) }

func amqpTime(millis int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{0x83}, uint64(millis))
}

func hub(value string, headers ...string) decode.Record {
	r := decode.Record{Value: []byte(value), Timestamp: 1763640009000}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, decode.Header{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

// A message of a device names neither tenant nor device nor time: IoT Hub does, in plain text or as AMQP writes it.
func TestHubEnvelopeDeviceAndTime(t *testing.T) {
	want := telemetry.Reading{
		Tenant: "acme", Device: "m1", Time: 1763640000123,
		Fields: []telemetry.Field{
			{Metric: "ok", Value: telemetry.BoolValue(true)},
			{Metric: "pressure_bar", Value: telemetry.FloatValue(1.5)},
			{Metric: "temperature", Value: telemetry.FloatValue(73.9)},
		},
	}
	const body = `{"temperature":73.9,"pressure":{"bar":1.5},"ok":true,"list":[1,2]}`
	d := decode.New(decode.Options{Tenant: "acme"})
	for _, r := range []decode.Record{
		hub(body, "iothub-connection-device-id", "m1", "iothub-enqueuedtime", "2025-11-20T12:00:00.1239Z"),
		hub(body, "iothub-connection-device-id", string(amqp("m1")), "iothub-enqueuedtime", string(amqpTime(1763640000123)),
			"iothub-message-source", string(amqp("Telemetry"))),
		hub(body, "iothub-connection-device-id", "m1", "iothub-enqueuedtime", "1", "iothub-creation-time-utc",
			"2025-11-20T12:00:00.123Z"),
		hub(`{"temperature":73.9,"pressure":{"bar":1.5},"ok":true,"ts":1763640000123}`, "iothub-connection-device-id", "m1"),
		hub(`{"values":{"temperature":73.9,"pressure_bar":1.5,"ok":true},"time":5}`,
			"iothub-connection-device-id", "m1", "iothub-enqueuedtime", "1763640000123"),
		hub(`{"EnqueuedTimeUtc":"2025-11-20T12:00:00.123Z","Properties":{"connectionDeviceId":"forged"},
			"SystemProperties":{"connectionDeviceId":"m1","contentType":"application/json","n":1},"Body":` + body + `}`),
		hub(`{"systemProperties":{"iothub-connection-device-id":"m1","iothub-enqueuedtime":"2025-11-20T12:00:00.123Z"},"properties":{},
			"body":"`+base64.StdEncoding.EncodeToString([]byte(body))+`"}`, "content-type", ""),
		hub(`{"SystemProperties":{"connectionDeviceId":"m1","enqueuedTime":"2025-11-20T12:00:00.123Z"},"Body":` + body + `}`),
	} {
		got := d.Decode(r)
		require.Empty(t, got.Bad, "%s", r.Value)
		require.Equal(t, []telemetry.Reading{want}, got.Readings, "%s", r.Value)
	}
	r := hub(body, "iothub-connection-device-id", "m1")
	require.Equal(t, r.Timestamp, d.Decode(r).Readings[0].Time, "no time but the record's")
}

// The body may be in any format; module and tenant are properties.
func TestHubBodies(t *testing.T) {
	d := decode.New(decode.Options{Lines: decode.Lines{DeviceTag: "device"}})
	r := hub("engine rpm=1500i 1763640000000000000\n", "iothub-connection-device-id", "m1", "tenant", "acme",
		"iothub-connection-module-id", "motor")
	r.ContentType = string(amqp("text/plain; format=influx"))
	got := d.Decode(r)
	require.Empty(t, got.Bad)
	require.Equal(t, []telemetry.Reading{{
		Tenant: "acme", Device: "m1", Time: 1763640000000,
		Fields: []telemetry.Field{{Metric: "engine_rpm", Value: telemetry.IntValue(1500)}},
		Labels: telemetry.Labels{{Name: "module", Value: "motor"}},
	}}, got.Readings)
}

// IoT Hub has authenticated the sender of a message, but not the device that the body names.
func TestHubDeviceNamesOnlyItself(t *testing.T) {
	r := hub(`{"device":"m2","temperature":1}`, "iothub-connection-device-id", "m1")
	got := decode.New(decode.Options{Tenant: "acme"}).Decode(r)
	require.Empty(t, got.Readings)
	require.Equal(t, decode.Device, got.Bad[0].Reason)
	require.Contains(t, got.Bad[0].Detail, "m2")

	got = decode.New(decode.Options{Tenant: "acme", Gateways: true}).Decode(r)
	require.Equal(t, "m2", got.Readings[0].Device)
}

func TestBadEnvelopes(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "acme"})
	for _, c := range []struct {
		record decode.Record
		want   decode.Reason
	}{
		{hub(`{"a":1}`, "iothub-connection-device-id", "a/b"), decode.Device},
		{hub(`{"a":1}`, "iothub-connection-device-id", "m1", "iothub-message-source", "twinChangeEvents"),
			decode.ContentType},
		{hub(`{"a":1}`, "iothub-connection-device-id", "m1", "tenant", "A"), decode.Tenant},
		{hub(`{"Body":"%%%"}`), decode.Undecodable},
		{hub(`{"Body":{"Body":{"a":1}}}`), decode.Undecodable},
		{hub(`{"Body":{"a":1}`), decode.Undecodable},
		{hub(`{"Body":{"a":1}} x`), decode.Undecodable},
		{hub(`{"Properties":{}}`), decode.Empty},
		{hub(`{"Body":{"a":1}}`), decode.Device},
		{hub(`{"SystemProperties":5}`), decode.Undecodable},
	} {
		got := d.Decode(c.record)
		require.Empty(t, got.Readings, "%s", c.record.Value)
		require.Len(t, got.Bad, 1, "%s", c.record.Value)
		require.Equal(t, c.want, got.Bad[0].Reason, "%s: %s", c.record.Value, got.Bad[0].Detail)
	}
}
