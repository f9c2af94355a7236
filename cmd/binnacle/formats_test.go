package main_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// What Telegraf and the OpenTelemetry Collector write with their defaults, to the topics of their own and without a
// content type, is answered, with dev started as their guides say.
func TestTelegrafAndCollectorGuides(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for topic, c := range map[string]struct {
		record  func(t *testing.T) []byte
		device  string
		metrics []string
	}{
		"telegraf": {func(*testing.T) []byte {
			return fmt.Appendf(nil, "disk,device=sda1,fstype=ext4,host=gw-7,mode=rw,path=/ free=52428800i,used_percent=41.2 "+
				"%d\n", now.UnixNano())
		}, "gw-7", []string{"disk_free", "disk_used_percent"}},
		"otlp_metrics": {func(t *testing.T) []byte { return collected(t, now) }, "gw-8",
			[]string{"system.cpu.time"}},
	} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			d := startDev(t, t.TempDir(), guideFlags(t, clientsPage, topic)...)
			w := writer(d.kafka, topic)
			require.NoError(t, w.WriteMessages(context.Background(), kafka.Message{Value: c.record(t)}))
			require.NoError(t, w.Close())
			soon(t, time.Minute, func() bool { return len(d.everything("demo")) > 0 }, "the readings are answered")
			for r, values := range d.everything("demo") {
				require.Equal(t, c.device, r.device)
				require.Equal(t, now.UnixMilli(), r.ts)
				var metrics []string
				for _, m := range c.metrics {
					if _, ok := values[m]; ok {
						metrics = append(metrics, m)
					}
				}
				require.Equal(t, c.metrics, metrics)
			}
			require.Empty(t, d.records(topic+".dlq"))
		})
	}
}

// collected is a metric of a host, as the Collector's Kafka exporter writes it.
func collected(t *testing.T, now time.Time) []byte {
	m := pmetric.NewMetrics()
	r := m.ResourceMetrics().AppendEmpty()
	r.Resource().Attributes().PutStr("host.name", "gw-8")
	r.Resource().Attributes().PutStr("os.type", "linux")
	x := r.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	x.SetName("system.cpu.time")
	x.SetUnit("s")
	sum := x.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	for _, state := range []string{"idle", "user"} {
		p := sum.DataPoints().AppendEmpty()
		p.SetTimestamp(pcommon.NewTimestampFromTime(now))
		p.SetDoubleValue(1.5)
		p.Attributes().PutStr("state", state)
	}
	b, err := new(pmetric.ProtoMarshaler).MarshalMetrics(m)
	require.NoError(t, err)
	return b
}

const clientsPage = "start/clients.md"

// guideFlags are the flags of a page's first command that starts dev and has a word.
func guideFlags(t *testing.T, page, word string) []string {
	text, err := os.ReadFile("../../docs/" + page)
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^binnacle dev (.*` + word + `.*)$`).FindSubmatch(text)
	require.NotNil(t, m)
	return strings.Fields(string(m[1]))
}
