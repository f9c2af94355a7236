package main_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var producersBin = flag.String("producers.bin", "", "folder with telegraf and collector; empty: tests skip")

// Telegraf, with dev started as the guide says and configured by the guide's words, and by its fewest, writes to a
// file what it writes to Kafka: the same is answered, in every format of answers, and by PromQL.
func TestTelegrafPublishes(t *testing.T) {
	program := producer(t, "telegraf")
	config := guideBlock(t, clientsPage, "toml")
	for name, change := range map[string]*strings.Replacer{
		"as the guide says":     strings.NewReplacer(),
		"without a routing tag": strings.NewReplacer(`  routing_tag = "host"`+"\n", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDev(t, t.TempDir(), guideFlags(t, clientsPage, "telegraf")...)
			wrote := filepath.Join(t.TempDir(), "metrics")
			agent := startProgram(t, nil, program, "--config", file(t, "guide.conf", d.listens(change.Replace(config))),
				"--config", file(t, "test.conf", fmt.Sprintf(`
[agent]
  interval = "1s"
  flush_interval = "1s"
  hostname = "gw-7"
[[outputs.file]]
  files = [%q]
  data_format = "json"
  json_timestamp_units = "1ms"
`, wrote)))
			soon(t, time.Minute, func() bool { return len(d.instants("demo", "cpu_usage_idle")) >= 3 }, "Telegraf publishes")
			agent.stop(syscall.SIGTERM)
			d.agrees(telegrafWrote(t, wrote), "gw-7", "mem_used_percent")
			require.Empty(t, d.records("telegraf.dlq"))
		})
	}
}

// The Collector does the same with what it measures of its host and with what programs send to it.
func TestTheCollectorPublishes(t *testing.T) {
	program := producer(t, "collector")
	config := guideBlock(t, clientsPage, "yaml")
	for name, change := range map[string]*strings.Replacer{
		"as the guide says": strings.NewReplacer(),
		"without a key":     strings.NewReplacer("    partition_metrics_by_resource_attributes: true\n", ""),
		"in JSON":           strings.NewReplacer("    partition_", "    metrics: {encoding: otlp_json}\n    partition_"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDev(t, t.TempDir(), guideFlags(t, clientsPage, "otlp_metrics")...)
			wrote, listens := filepath.Join(t.TempDir(), "metrics"), freePort(t)
			collector := startProgram(t, []string{"HOSTNAME=gw-8"}, program,
				"--config", file(t, "guide.yaml", d.listens(change.Replace(config))),
				"--config", file(t, "test.yaml", fmt.Sprintf(`
receivers:
  hostmetrics: {collection_interval: 1s, initial_delay: 0s}
  otlp: {protocols: {http: {endpoint: %q}}}
exporters:
  file: {path: %q}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [hostmetrics, otlp], exporters: [kafka, file]}}
`, listens, wrote)))
			soon(t, time.Minute, func() bool { return len(d.instants("demo", "system.memory.usage")) >= 3 },
				"the Collector publishes")
			resp, err := http.Post("http://"+listens+"/v1/metrics", "application/json",
				strings.NewReader(strings.ReplaceAll(pumped, "NOW", fmt.Sprint(time.Now().UnixNano()))))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
			soon(t, time.Minute, func() bool { return len(d.instants("demo", "strokes_count")) > 0 }, "what it is sent, too")
			collector.stop(syscall.SIGTERM)

			want := collectorWrote(t, wrote)
			d.agrees(want, "gw-8", `{"system.memory.usage",state="used"}`)
			pump := slices.DeleteFunc(slices.Collect(maps.Keys(want)), func(r row) bool { return r.device != "pump-7" })
			require.Len(t, pump, 2)
			require.Empty(t, d.records("otlp_metrics.dlq"))
		})
	}
}

// producer is the path of a program of others; without one the test is skipped.
func producer(t *testing.T, name string) string {
	if *producersBin == "" {
		t.Skip("it needs programs of others: see make producers-it")
	}
	return filepath.Join(*producersBin, name)
}

// guideBlock is a guide's first block of code in a language.
func guideBlock(t *testing.T, page, language string) string {
	text, err := os.ReadFile("../../docs/" + page)
	require.NoError(t, err)
	m := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```").FindSubmatch(text)
	require.NotNil(t, m)
	return string(m[1])
}

// listens puts the broker's address where a configuration has that of the guide.
func (d *dev) listens(config string) string {
	require.Contains(d.t, config, `"127.0.0.1:9092"`)
	return strings.ReplaceAll(config, `"127.0.0.1:9092"`, strconv.Quote(d.kafka))
}

// instants returns when a metric has a value. It asks strictly: other answers say that they are incomplete while the
// tenant of what was just published is registered.
func (d *dev) instants(tenant, metric string) []int64 {
	at := map[int64]bool{}
	d.ask(tenant, everything+"&metric="+metric+"&format=ndjson", func(r row, _ map[string]any) { at[r.ts] = true })
	return slices.Collect(maps.Keys(at))
}

// agrees checks that dev answers with what was written, soon, and each of the values that a selector has of a device
// by PromQL at its instant.
func (d *dev) agrees(want table, device, selector string) {
	d.t.Helper()
	soon(d.t, time.Minute, func() bool { return len(d.everything("demo")) >= len(want) }, "everything is answered")
	for _, format := range []string{"limit=10000000", "format=ndjson&order=desc", "format=csv&layout=long"} {
		d.answers("demo", want, everything+"&"+format)
	}
	metric := regexp.MustCompile(`[a-z_][a-z_.]*`).FindString(selector)
	checked := 0
	for r, values := range want {
		if r.device != device || values[metric] == nil ||
			strings.Contains(selector, "state") && !strings.Contains(r.labels, `"state":"used"`) {
			continue
		}
		var answer struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Value  [2]any
				}
			}
		}
		require.NoError(d.t, json.Unmarshal([]byte(d.body("demo", "/prometheus/api/v1/query?query="+
			url.QueryEscape(selector)+"&time="+strconv.FormatFloat(float64(r.ts)/1000, 'f', 3, 64))), &answer))
		require.Len(d.t, answer.Data.Result, 1)
		require.Equal(d.t, device, answer.Data.Result[0].Metric["device"])
		got, err := strconv.ParseFloat(answer.Data.Result[0].Value[1].(string), 64)
		require.NoError(d.t, err)
		require.InDelta(d.t, values[metric], got, 0)
		checked++
	}
	require.GreaterOrEqual(d.t, checked, 3)
}

// telegrafWrote reads what Telegraf's output "file" has written in JSON.
func telegrafWrote(t *testing.T, path string) table {
	want := table{}
	eachLine(t, path, func(line []byte) {
		var m struct {
			Fields    map[string]any
			Name      string
			Tags      map[string]string
			Timestamp int64
		}
		require.NoError(t, json.Unmarshal(line, &m))
		r := row{device: m.Tags["host"], ts: m.Timestamp}
		delete(m.Tags, "host")
		r.labels = labelled(m.Tags)
		for name, v := range m.Fields {
			want.set(r, m.Name+"_"+name, v)
		}
	})
	return want
}

// collectorWrote reads what the Collector's exporter "file" has written.
func collectorWrote(t *testing.T, path string) table {
	want := table{}
	eachLine(t, path, func(line []byte) {
		var m struct {
			ResourceMetrics []struct {
				Resource     struct{ Attributes otlpAttributes }
				ScopeMetrics []struct{ Metrics []otlpMetric }
			}
		}
		require.NoError(t, json.Unmarshal(line, &m))
		for _, resource := range m.ResourceMetrics {
			device, labels := described(resource.Resource.Attributes)
			for _, scope := range resource.ScopeMetrics {
				for _, x := range scope.Metrics {
					x.points(want, device, labels)
				}
			}
		}
	})
	return want
}

// otlpAttributes are attributes in OTLP's JSON. Those of a host and of the program are texts, numbers and bools.
type otlpAttributes []struct {
	Key   string
	Value struct {
		StringValue *string
		IntValue    *string
		BoolValue   *bool
	}
}

// texts are the attributes as labels have them.
func (a otlpAttributes) texts() map[string]string {
	all := map[string]string{}
	for _, x := range a {
		switch v := x.Value; {
		case v.StringValue != nil:
			all[x.Key] = *v.StringValue
		case v.IntValue != nil:
			all[x.Key] = *v.IntValue
		case v.BoolValue != nil:
			all[x.Key] = strconv.FormatBool(*v.BoolValue)
		}
	}
	return all
}

// otlpMetric is a gauge, a sum or a histogram in OTLP's JSON.
type otlpMetric struct {
	Name                  string
	Gauge, Sum, Histogram struct {
		AggregationTemporality int
		DataPoints             []struct {
			Attributes   otlpAttributes
			TimeUnixNano int64  `json:",string"`
			AsInt        *int64 `json:",string"`
			AsDouble     float64
			Count        int64 `json:",string"`
			Sum          float64
		}
	}
}

// described is the device that a resource's attributes tell, and the labels of its series.
func described(attributes otlpAttributes) (device string, labels map[string]string) {
	labels, all := map[string]string{}, attributes.texts()
	for _, name := range []string{"service.name", "service.instance.id"} {
		if v, ok := all[name]; ok {
			labels[name] = v
		}
	}
	for _, name := range []string{"service.instance.id", "host.name"} {
		if v, ok := all[name]; ok {
			delete(labels, name)
			return v, labels
		}
	}
	return "", labels
}

// points adds a metric's points to a table.
func (x otlpMetric) points(want table, device string, labels map[string]string) {
	const delta = 1
	for _, p := range slices.Concat(x.Gauge.DataPoints, x.Sum.DataPoints, x.Histogram.DataPoints) {
		own := maps.Clone(labels)
		maps.Copy(own, p.Attributes.texts())
		if x.Sum.AggregationTemporality == delta {
			own["temporality"] = "delta"
		}
		r := row{device: device, ts: p.TimeUnixNano / 1e6, labels: labelled(own)}
		switch {
		case len(x.Histogram.DataPoints) > 0:
			want.set(r, x.Name+"_count", p.Count)
			want.set(r, x.Name+"_sum", p.Sum)
		case p.AsInt != nil:
			want.set(r, x.Name, *p.AsInt)
		default:
			want.set(r, x.Name, p.AsDouble)
		}
	}
}

// pumped is what a program measures of itself at NOW: a gauge and a histogram, and a sum of what came since its last
// report.
const pumped = `{"resourceMetrics":[{"resource":{"attributes":[
 {"key":"service.name","value":{"stringValue":"pump"}},
 {"key":"service.instance.id","value":{"stringValue":"pump-7"}},
 {"key":"host.name","value":{"stringValue":"cellar"}}]},
 "scopeMetrics":[{"metrics":[
  {"name":"pressure","gauge":{"dataPoints":[{"timeUnixNano":"NOW","asDouble":0.3333333333333333}]}},
  {"name":"strokes","histogram":{"aggregationTemporality":2,"dataPoints":[{"timeUnixNano":"NOW","count":"3","sum":0.3,
   "explicitBounds":[0.1],"bucketCounts":["1","2"]}]}},
  {"name":"leaks","sum":{"aggregationTemporality":1,"dataPoints":[{"timeUnixNano":"NOW","asInt":"2"}]}}]}]}]}`

// eachLine calls f for each line of a file.
func eachLine(t *testing.T, path string, f func(line []byte)) {
	in, err := os.Open(path)
	require.NoError(t, err)
	defer in.Close() //nolint:errcheck // it was read
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		f(lines.Bytes())
	}
	require.NoError(t, lines.Err())
}
