package decode_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func page(t *testing.T, name string) string {
	text, err := os.ReadFile("../../docs/" + name)
	require.NoError(t, err)
	return string(text)
}

// section is what stands below a heading of a page, up to the next.
func section(t *testing.T, page, heading string) string {
	_, rest, ok := strings.Cut(page, "\n## "+heading+"\n")
	require.True(t, ok, heading)
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// blocks are the examples of a text in one language.
func blocks(text, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// The table of reasons in the format page and the list in the code are the same.
func TestReasonsAreDocumented(t *testing.T) {
	table := regexp.MustCompile(`(?s)\| reason \| meaning \|\n.*?\n\n`).FindString(page(t, "reference/payloads.md"))
	var documented []decode.Reason
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, decode.Reason(row[1]))
	}
	require.Equal(t, decode.Reasons(), documented)
}

// Every format has its row, and what the table says to be its content type is read as nothing else.
func TestFormatsAreDocumented(t *testing.T) {
	text := section(t, page(t, "reference/payloads.md"), "Formats")
	for _, f := range decode.Formats() {
		require.Contains(t, text, fmt.Sprintf("| `%s` |", f))
	}
	d := decode.New(decode.Options{})
	for _, m := range regexp.MustCompile("`((?:application|text)/[^`]*)`").FindAllStringSubmatch(text, -1) {
		got := d.Decode(decode.Record{Value: []byte("x"), ContentType: strings.ReplaceAll(m[1], "; precision=", "")})
		for _, b := range got.Bad {
			require.NotEqual(t, decode.ContentType, b.Reason, m[1])
		}
	}
}

// The page's examples are read as the page says.
func TestDocumentedExamples(t *testing.T) {
	text := page(t, "reference/payloads.md")
	example := func(heading string, n int) []byte { return []byte(blocks(section(t, text, heading), "json")[n]) }

	got := decodeJSON(t, string(example("JSON", 0)))
	require.Empty(t, got.Bad)
	require.Len(t, got.Readings[0].Fields, 5)
	require.EqualValues(t, 9007199254740993, got.Readings[0].Fields[2].Value.Int())

	d := decode.New(decode.Options{Tenant: "acme"})
	got = d.Decode(decode.Record{Value: example("Flat JSON", 0), ContentType: flatType})
	require.Empty(t, got.Bad)
	require.Equal(t, "m1", got.Readings[0].Device)
	var metrics []string
	for _, f := range got.Readings[0].Fields {
		metrics = append(metrics, f.Metric)
	}
	require.Equal(t, []string{"ok", "pressure_in", "pressure_out", "temperature"}, metrics)

	got = d.Decode(hub(string(example("Azure IoT Hub", 0)), "iothub-connection-device-id", "m1"))
	require.Empty(t, got.Bad)
	require.Len(t, got.Readings[0].Fields, 3)
	got = decode.New(decode.Options{}).Decode(decode.Record{Value: example("Azure IoT Hub", 1)})
	require.Empty(t, got.Bad)
	require.Equal(t, "acme m1 1795168800123", fmt.Sprint(got.Readings[0].Tenant, " ", got.Readings[0].Device, " ",
		got.Readings[0].Time))

	got = d.Decode(decode.Record{Value: example("SenML", 0), ContentType: senmlType})
	require.Empty(t, got.Bad)
	require.Len(t, got.Readings, 2)
	require.Equal(t, "urn:dev:ow:10e2073a01080063", got.Readings[0].Device)
}

// The lines of the guide become what its table says.
func TestTelegrafGuide(t *testing.T) {
	text := page(t, "start/clients.md")
	d := decode.New(decode.Options{Tenant: "demo", Lines: decode.Lines{DeviceTag: "device",
		TenantTag: "tenant"}}.ForTopic("telegraf"))
	got := d.Decode(decode.Record{Value: []byte(blocks(text, "influx")[0]), Timestamp: 1})
	require.Empty(t, got.Bad)
	var rows []string
	for i, r := range got.Readings {
		var metrics, labels []string
		for _, f := range r.Fields {
			metrics = append(metrics, "`"+f.Metric+"`")
		}
		for _, l := range r.Labels {
			labels = append(labels, "`"+l.Name+"="+l.Value+"`")
		}
		row := fmt.Sprintf("| %s | `%s` | `%s` | %s | %s |", strconv.Itoa(got.Index[i]), r.Tenant, r.Device,
			strings.Join(metrics, ", "), strings.Join(labels, ", "))
		rows = append(rows, strings.ReplaceAll(row, "|  |", "| |"))
	}
	require.Len(t, rows, 3)
	require.Contains(t, text, strings.Join(rows, "\n"))

	d = decode.New(decode.Options{Lines: decode.Lines{DeviceTag: "device", TenantTag: "tenant"}}.ForTopic("telegraf"))
	require.Equal(t, decode.Tenant, d.Decode(decode.Record{Value: []byte("mem,host=gw-7 a=1")}).Bad[0].Reason,
		"no tenant, and no default")
	elsewhere := decode.Options{Tenant: "demo", Lines: decode.Lines{DeviceTag: "serial"}}.ForTopic("telegraf")
	require.Equal(t, "serial", elsewhere.DeviceTag, "a tag that is set counts")
}

// The configuration of the guide is YAML that leads metrics to Kafka, and its list of attributes is the one that
// counts.
func TestOpenTelemetryGuide(t *testing.T) {
	text := page(t, "start/clients.md")
	var c struct {
		Exporters map[string]any
		Service   struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	for i, block := range blocks(text, "yaml") {
		var any map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(block), &any), i)
	}
	require.NoError(t, yaml.Unmarshal([]byte(blocks(text, "yaml")[0]), &c))
	require.Contains(t, c.Service.Pipelines["metrics"].Exporters, "kafka")
	require.Contains(t, c.Exporters, "kafka")

	names := strings.Split(strings.TrimSpace(blocks(text, "text")[0]), ", ")
	for i := range names {
		attributes := map[string]any{}
		for _, n := range names[i:] {
			attributes[n] = "is-" + n
		}
		m, metrics := host(attributes)
		gauge(metrics, "system.cpu.time", "s", 1)
		got := both(t, decode.Options{Tenant: "demo"}.ForTopic("otlp_metrics"), m)
		require.Equal(t, "is-"+names[i], got.Readings[0].Device)
	}
	m, metrics := host(nil)
	gauge(metrics, "system.cpu.time", "s", 1)
	got := both(t, decode.Options{Tenant: "demo"}, m)
	require.Equal(t, decode.Device, got.Bad[0].Reason)
	detail, err := json.Marshal(names)
	require.NoError(t, err)
	require.Contains(t, strings.ReplaceAll(got.Bad[0].Detail, " ", ","), strings.Trim(string(detail), "[]"))
}
