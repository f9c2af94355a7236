package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"binnacle/ingest/decode"

	"github.com/fxamacker/cbor/v2"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// naming is a message of each format that names a tenant, or none where that is empty, and the schemas that they need.
func naming(t *testing.T, tenant string) (map[string]decode.Record, schemas) {
	record := func(kind, value string, headers ...decode.Header) decode.Record {
		return decode.Record{Value: []byte(value), ContentType: kind, Headers: headers, Timestamp: 1795183200000}
	}
	says := func(format string) string {
		if tenant == "" {
			return ""
		}
		return fmt.Sprintf(format, tenant)
	}
	const flat = "application/json; format=flat"
	m, list := host(map[string]any{"device": "m1"})
	labels := []string{"__name__", "v", "instance", "m1"}
	schema, value := `{"type":"record","name":"R","fields":[{"name":"deviceId","type":"string"},`+
		`{"name":"ts","type":"long"},{"name":"v","type":"double"}]}`,
		map[string]any{"deviceId": "m1", "ts": int64(noonMillis), "v": 1.0}
	if tenant != "" {
		m.resources[0].attributes["tenant"] = tenant
		labels = append(labels, "tenant", tenant)
		schema = strings.Replace(schema, `"fields":[`, `"fields":[{"name":"tenant_id","type":"string"},`, 1)
		value["tenant_id"] = tenant
	}
	gauge(list, "v", "1", 1)
	written := []sent{{labels: label(labels...), samples: []prompb.Sample{{Value: 1, Timestamp: noonMillis}}}}
	pack, err := cbor.Marshal([]map[int]any{{-2: "m1", 0: "/v", 6: 1795183200, 2: 1}})
	require.NoError(t, err)
	own := []decode.Header{{Key: "iothub-connection-device-id", Value: []byte("m1")}}
	if tenant != "" {
		own = append(own, decode.Header{Key: "tenant", Value: []byte(tenant)})
	}
	out := map[string]decode.Record{
		"JSON":          record("", `{`+says(`"tenant":%q,`)+`"device":"m1","ts":1,"values":{"v":1}}`),
		"flat JSON":     record(flat, `{`+says(`"tenantId":%q,`)+`"deviceId":"m1","ts":1,"v":1}`),
		"line protocol": record("", `m`+says(`,tenant=%s`)+`,device=m1 v=1 1000000`),
		"OTLP": record("", `{"resourceMetrics":[{"resource":{"attributes":[`+
			says(`{"key":"tenant","value":{"stringValue":%q}},`)+`{"key":"device","value":{"stringValue":"m1"}}]},`+
			`"scopeMetrics":[{"metrics":[{"name":"v","gauge":{"dataPoints":[{"timeUnixNano":"1000000","asDouble":1}]}}]}]}]}`),
		"OTLP protobuf":            record("", string(m.protobuf())),
		"remote write 1.0":         version1(t, written),
		"remote write 2.0":         version2(t, written),
		"Avro":                     registered(1, encode(t, schema, value)),
		"headers of a hub":         record(flat, `{"v":1}`, own...),
		"body in a hub's envelope": record(flat, `{`+says(`"tenant":%q,`)+`"v":1}`, own[0]),
		"JSON of a hub": record("", `{"EnqueuedTimeUtc":"2026-11-20T10:00:00Z","Properties":{`+
			says(`"tenant":%q`)+`},"SystemProperties":{"connectionDeviceId":"m1"},"Body":{"v":1}}`),
	}
	if tenant == "" { // they can't name one
		out["SenML"] = record("application/senml+json", `[{"bn":"m1","n":"/v","bt":1795183200,"v":1}]`)
		out["SenML in CBOR"] = record("application/senml+cbor", string(pack))
	}
	return out, schemas{1: {Text: schema}}
}

// In a topic that belongs to a tenant a message of any format is the tenant's: it need not say so, and may name no
// other.
func TestTopicBoundToATenant(t *testing.T) {
	options := decode.Options{Lines: decode.Lines{DeviceTag: "device", TenantTag: "tenant"}, Tenant: "default",
		Bound: "acme"}
	for _, tenant := range []string{"acme", ""} {
		var all map[string]decode.Record
		all, options.Schemas = naming(t, tenant)
		for name, record := range all {
			got := decode.New(options).Decode(record)
			require.Empty(t, got.Bad, name)
			require.Len(t, got.Readings, 1, name)
			require.Equal(t, "acme", got.Readings[0].Tenant, name)
			require.Equal(t, "m1", got.Readings[0].Device, name)
		}
	}
	all, known := naming(t, "globex")
	options.Schemas = known
	for name, record := range all {
		got := decode.New(options).Decode(record)
		require.Empty(t, got.Readings, name)
		require.Len(t, got.Bad, 1, name)
		require.Equal(t, decode.OtherTenant, got.Bad[0].Reason, "%s: %s", name, got.Bad[0].Detail)
		require.Contains(t, got.Bad[0].Detail, `names the tenant "globex", but the topic belongs to "acme"`, name)

		free := options
		free.Bound = ""
		got = decode.New(free).Decode(record)
		require.Len(t, got.Readings, 1, name)
		require.Equal(t, "globex", got.Readings[0].Tenant, name)

		mended := options
		mended.Set.Tenant = "acme"
		got = decode.New(mended).Decode(record)
		require.Empty(t, got.Bad, name)
		require.Equal(t, "acme", got.Readings[0].Tenant, name)
		mended.Set.Tenant = "initech" // would be refused again
		require.Equal(t, decode.OtherTenant, decode.New(mended).Decode(record).Bad[0].Reason, name)
	}
}
