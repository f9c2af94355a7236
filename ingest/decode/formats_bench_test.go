package decode_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/ingest/decode"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

// BenchmarkFormats reads in each format what ten values of a truck are there; where a format gathers many series in
// one record, as their senders do, it is a hundred series of ten devices. cpu-ns/value is the time of the process.
func BenchmarkFormats(b *testing.B) {
	names := []string{"latitude", "longitude", "elevation", "velocity", "heading", "grade", "fuel_consumption",
		"fuel_state", "current_load", "status"}
	numbers := []float64{82.70029, 41.67129, 120, 13.5, 328, 0, 25.3, 0.9, 2114, 5}

	m := &otlp{}
	var series []sent
	for i := range 10 {
		to := m.add(map[string]any{"host.name": fmt.Sprintf("truck-%04d", i), "os.type": "linux"})
		for j, name := range names {
			gauge(to, name, "1", numbers[j]).put("axle", "rear").put("side", "left")
			series = append(series, sent{
				labels: label("__name__", name, "axle", "rear", "instance", fmt.Sprintf("truck-%04d:9100", i), "job", "trucks",
					"side", "left"),
				samples: []prompb.Sample{{Value: numbers[j], Timestamp: noonMillis}},
			})
		}
	}
	proto, text := m.protobuf(), m.json()

	var fields, pack, flat strings.Builder
	value := map[string]any{"device": "truck-0042", "ts": int64(noonMillis)}
	fmt.Fprintf(&pack, `[{"bn":"truck-0042:","bt":1763640000`)
	for j, name := range names {
		fmt.Fprintf(&fields, `,{"name":%q,"type":"double"}`, name)
		fmt.Fprintf(&flat, `,%q:%v`, name, numbers[j])
		value[name] = numbers[j]
		if j > 0 {
			pack.WriteString("},{")
		} else {
			pack.WriteString(",")
		}
		fmt.Fprintf(&pack, `"n":%q,"v":%v`, name, numbers[j])
	}
	pack.WriteString("}]")
	schema := `{"type":"record","name":"Truck","fields":[{"name":"device","type":"string"},{"name":"ts","type":"long"}` + fields.String() + `]}`
	known := schemas{7: {Text: schema}, 8: {Type: "JSON"}}
	object := `{"device":"truck-0042","ts":1763640000000` + flat.String() + `}`

	for _, c := range []struct {
		name   string
		values int
		record decode.Record
	}{
		{"json", 10, decode.Record{Value: []byte(truck), ContentType: "application/json"}},
		{"json-flat", 10, decode.Record{Value: []byte(object), ContentType: flatType}},
		{"influx", 10, decode.Record{Value: []byte(truckLine), ContentType: "text/plain; format=influx"}},
		{"otlp_proto", 100, decode.Record{Value: proto}},
		{"otlp_json", 100, decode.Record{Value: text}},
		{"remote-write", 100, version1(b, series)},
		{"remote-write-2", 100, version2(b, series)},
		{"registry-avro", 10, registered(7, encode(b, schema, value))},
		{"registry-json", 10, registered(8, []byte(object))},
		{"senml", 10, decode.Record{Value: []byte(pack.String()), ContentType: senmlType}},
		{"senml-cbor", 10, decode.Record{Value: cborOf(b, pack.String()), ContentType: cborType}},
		{"iot-hub", 10, hub(`{`+flat.String()[1:]+`}`, "iothub-connection-device-id", "truck-0042",
			"iothub-enqueuedtime", string(amqpTime(noonMillis)), "content-type", string(amqp("application/json")))},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := decode.New(decode.Options{Tenant: "acme", Schemas: known, Lines: decode.Lines{DeviceTag: "name"}})
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				got := d.Decode(c.record)
				n := 0
				for _, r := range got.Readings {
					n += len(r.Fields)
				}
				if n != c.values {
					b.Fatal(n, got.Bad)
				}
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N*c.values), "cpu-ns/value")
			b.ReportMetric(float64(len(c.record.Value))/float64(c.values), "B/value")
		})
	}
}

// cpu is how long the process has computed.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
