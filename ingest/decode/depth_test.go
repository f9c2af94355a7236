package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// In every format 100 objects, arrays and the like may stand in each other, and no 101.
func TestNestedAtMost100Deep(t *testing.T) {
	const wrapped = `{"resourceMetrics":[{"resource":{"attributes":[]},"scopeMetrics":[{"metrics":[{"name":"v","gauge":` +
		`{"dataPoints":[{"timeUnixNano":"1000000","asDouble":1,"attributes":[{"key":"a","value":%s}]}]}}]}]}]}`
	arrays := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	text := func(kind, format string, inside int, value func(int) string) func(int) decode.Record {
		return func(n int) decode.Record {
			return decode.Record{Value: fmt.Appendf(nil, format, value(n-inside)), ContentType: kind}
		}
	}
	otlp := func(n int) decode.Record {
		m, metrics := host(map[string]any{"host.name": "gw"})
		gauge(metrics, "v", "", 1).put("a", nested(n))
		return decode.Record{Value: m.protobuf()}
	}
	kinds := func(inner string) func(int) string {
		return func(n int) string {
			begin, end := `{"arrayValue":{"values":[`, `]}}`
			if inner == "kvlistValue" {
				begin, end = `{"kvlistValue":{"values":[{"key":"k","value":`, `}]}}`
			}
			return strings.Repeat(begin, n) + `{"stringValue":"x"}` + strings.Repeat(end, n)
		}
	}
	avroSchema := `{"type":"record","name":"R","fields":[{"name":"ts","type":"int"},{"name":"a","type":["null","R"]}]}`
	skipped := `{"type":"record","name":"R","fields":[{"name":"ts","type":"int"},{"name":"v","type":"int"},{"name":"a","type":{"type":"array",` +
		`"items":{"type":"record","name":"S","fields":[{"name":"s","type":["null","S"]}]}}}]}`
	registry := schemas{1: {Text: avroSchema}, 2: {Text: skipped}}
	for name, record := range map[string]func(n int) decode.Record{
		"message":            text("", `{"ts":5,"values":{"v":1},"x":%s}`, 1, arrays),
		"message, objects":   text("", `{"x":%s,"ts":5,"values":{"v":1}}`, 1, objects),
		"messages":           text("", `[{"ts":5,"values":{"v":1},"x":%s}]`, 2, arrays),
		"flat":               text(flatType, `{"ts":5,"v":%s}`, 1, objects),
		"flat, skipped":      text(flatType, `{"ts":5,"v":1,"x":{"y":%s}}`, 2, arrays),
		"flat in an array":   text(flatType, `[{"ts":5,"v":1,"x":%s}]`, 2, arrays),
		"hub's envelope":     text("", `{"Body":{"ts":5,"v":1,"x":%s}}`, 2, arrays),
		"hub's properties":   text("", `{"Properties":{"x":%s},"Body":{"ts":5,"v":1}}`, 2, arrays),
		"SenML":              text(senmlType, `[{"n":"d/x","v":1,"x":%s}]`, 2, arrays),
		"OTLP":               otlp,
		"OTLP in JSON":       text("", wrapped, 0, kinds("arrayValue")),
		"OTLP in JSON, maps": text("", wrapped, 0, kinds("kvlistValue")),
		"CBOR": func(n int) decode.Record {
			return decode.Record{Value: []byte("\x81\xa3\x00\x63d/x\x02\x01\x61x" + strings.Repeat("\x81", n-3) + "\x80"),
				ContentType: cborType}
		},
		"Avro": func(n int) decode.Record {
			return registered(1, []byte(strings.Repeat("\x02\x02", n-1)+"\x02\x00"))
		},
		"Avro, skipped": func(n int) decode.Record {
			return registered(2, []byte("\x02\x02\x02"+strings.Repeat("\x02", n-3)+"\x00\x00"))
		},
	} {
		d := decode.New(decode.Options{Tenant: "acme", Device: "m1", Schemas: registry,
			Object: decode.ObjectNames{Time: []string{"ts", "none"}}})
		for _, n := range []int{3, 50, 99, 100, 101, 100, 102, 5000} {
			r := record(n)
			r.Timestamp = 5
			got := d.Decode(r)
			if n > 100 {
				require.Empty(t, got.Readings, "%s: %d", name, n)
				require.Len(t, got.Bad, 1, "%s: %d", name, n)
				require.Equal(t, decode.Undecodable, got.Bad[0].Reason, "%s: %d", name, n)
				continue
			}
			require.Empty(t, got.Bad, "%s: %d", name, n)
			require.NotEmpty(t, got.Readings, "%s: %d", name, n)
		}
	}
}

// nested returns a text that stands in so many arrays.
func nested(n int) (v any) {
	v = "x"
	for range n {
		v = []any{v}
	}
	return v
}
