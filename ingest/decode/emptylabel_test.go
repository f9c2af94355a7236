package decode_test

import (
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// A label with an empty value is none, in every format, so that a series has one identity. An empty tag stays: it takes
// away the value that the device had. Messages of a known form mean the same as others.
func TestEmptyLabelIsNone(t *testing.T) {
	const line = "text/plain; format=influx"
	b := telemetry.Labels{{Name: "b", Value: "x"}}
	model := telemetry.Labels{{Name: "model"}}
	for _, c := range []struct {
		kind, text   string
		labels, tags telemetry.Labels
	}{
		{"", `{"ts":1,"values":{"a":1},"labels":{"l":""}}`, nil, nil},
		{"", `{"ts":1,"values":{"a":1},"labels":{"l":"", "b":"x","z":"\u0000"}}`,
			telemetry.Labels{{Name: "b", Value: "x"}, {Name: "z", Value: "\x00"}}, nil},
		{"", `{"ts":1,"values":{"a":1},"labels":{"b":"x","l":"","l":""}}`, b, nil},
		{"", `{"ts":1,"values":{"a":1},"tags":{"model":""}}`, nil, model},
		{"", `{"ts":1,"values":{"a":1},"labels":{"model":""},"tags":{"model":""}}`, nil, model},
		{"", `{"ts":1,"values":{"a":1},"tags":{"model":""},"labels":{"model":""}}`, nil, model},
		{flatType, `{"ts":1,"site":"","model":"","v":1}`, nil, nil}, // an empty property is absent
		{flatType, `{"ts":1,"site":"","tags":{"model":""},"v":1}`, nil, model},
		{flatType, `{"ts":1,"site":"","labels":{"b":"x","l":""},"v":1}`, b, nil},
		{line, `m,zone=\ ,b=x v=1 5`, telemetry.Labels{{Name: "b", Value: "x"}, {Name: "zone", Value: " "}}, nil},
		{"", `{"SystemProperties":{"connectionDeviceId":"m1"},"Body":{"ts":1,"values":{"a":1},"labels":{"l":"","b":"x"}}}`, b, nil},
	} {
		d := decode.New(collisionOptions())
		for range 3 { // the later ones are of a known form
			got := d.Decode(decode.Record{Value: []byte(c.text), ContentType: c.kind, Timestamp: 9})
			require.Empty(t, got.Bad, "%s", c.text)
			require.Len(t, got.Readings, 1, "%s", c.text)
			require.Equal(t, c.labels, got.Readings[0].Labels, "%s", c.text)
			require.Equal(t, c.tags, got.Readings[0].Tags, "%s", c.text)
		}
	}
}

// Points of OTLP with an empty attribute and without it are of one series, in a record and across records.
func TestEmptyAttributeIsNone(t *testing.T) {
	m, metrics := host(map[string]any{"device": "m1", "service.name": "", "model": ""})
	gauge(metrics, "a", "", 1).put("cpu", "")
	gauge(metrics, "b", "", 2)
	got := both(t, otlpOptions, m)
	require.Empty(t, got.Bad)
	require.Len(t, got.Readings, 1, "the two are a row")
	require.Nil(t, got.Readings[0].Labels)
	model, ok := got.Readings[0].Tags.Get("model")
	require.True(t, ok)
	require.Empty(t, model)

	m, metrics = host(map[string]any{"device": "m1"})
	gauge(metrics, "a", "", 1).put("cpu", "")
	gauge(metrics, "a", "", 2)
	require.NotEmpty(t, both(t, otlpOptions, m).Bad, "two values of one series and instant")
}
