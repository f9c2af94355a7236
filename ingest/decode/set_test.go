package decode_test

import (
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// Names that are set count in every format, whatever a message says: nothing, something else, or what is no name.
func TestSetNamesOverrideTheMessage(t *testing.T) {
	const flat, otlp = "application/json; format=flat", `{"resourceMetrics":[{"resource":{"attributes":[` +
		`{"key":"tenant","value":{"stringValue":"NO NAME"}},{"key":"device","value":{"stringValue":"a/b"}}]},` +
		`"scopeMetrics":[{"metrics":[{"name":"v","gauge":{"dataPoints":[{"timeUnixNano":"1000000","asDouble":1}]}}]}]}]}`
	hub := []decode.Header{
		{Key: "iothub-connection-device-id", Value: []byte("other")}, {Key: "tenant", Value: []byte("NO NAME")},
	}
	record := func(kind, value string, headers ...decode.Header) decode.Record {
		return decode.Record{Value: []byte(value), ContentType: kind, Headers: headers}
	}
	for name, c := range map[string]decode.Record{
		"JSON without":    record("", `{"ts":1,"values":{"v":1}}`),
		"JSON":            record("", `{"tenant":"NO NAME","device":"a/b","ts":1,"values":{"v":1}}`),
		"flat JSON":       record(flat, `{"tenantId":"NO NAME","deviceId":"a/b","ts":1,"v":1}`),
		"line protocol":   record("", `m,tenant=NO\ NAME,device=a/b v=1 1000000`),
		"OTLP":            record("", otlp),
		"SenML":           record("application/senml+json", `[{"bn":"a b#","n":"/v","bt":1795183200,"v":1}]`),
		"through a hub":   record(flat, `{"v":1}`, hub...),
		"against a hub's": record(flat, `{"deviceId":"another","v":1}`, hub...),
	} {
		d := decode.New(decode.Options{Lines: decode.Lines{DeviceTag: "device", TenantTag: "tenant"},
			Set: decode.Names{Tenant: "acme", Device: "m1"}})
		got := d.Decode(c)
		require.Empty(t, got.Bad, name)
		require.Len(t, got.Readings, 1, name)
		require.Equal(t, "acme", got.Readings[0].Tenant, name)
		require.Equal(t, "m1", got.Readings[0].Device, name)

		d = decode.New(decode.Options{Lines: decode.Lines{DeviceTag: "device", TenantTag: "tenant"}})
		require.NotEmpty(t, d.Decode(c).Bad, name)
	}
}
