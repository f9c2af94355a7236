package main_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// What Telegraf and the OpenTelemetry Collector write with their defaults, to the topics of their own and without a
// content type, is answered, with dev started as their guides say.
func TestTelegrafAndCollectorGuides(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for topic, c := range map[string]struct {
		record  func() []byte
		device  string
		metrics []string
	}{
		"telegraf": {func() []byte {
			return fmt.Appendf(nil, "disk,device=sda1,fstype=ext4,host=gw-7,mode=rw,path=/ free=52428800i,used_percent=41.2 "+
				"%d\n", now.UnixNano())
		}, "gw-7", []string{"disk_free", "disk_used_percent"}},
		"otlp_metrics": {func() []byte { return collected(now) }, "gw-8",
			[]string{"system.cpu.time"}},
	} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			d := startDev(t, t.TempDir(), guideFlags(t, clientsPage, topic)...)
			w := writer(d.kafka, topic)
			require.NoError(t, w.WriteMessages(context.Background(), kafka.Message{Value: c.record()}))
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
func collected(now time.Time) []byte {
	message := func(number protowire.Number, parts ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), bytes.Join(parts, nil))
	}
	text := func(number protowire.Number, s string) []byte { return message(number, []byte(s)) }
	fixed := func(number protowire.Number, v uint64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), v)
	}
	attribute := func(number protowire.Number, name, value string) []byte {
		return message(number, text(1, name), message(2, text(1, value)))
	}
	var sum [][]byte
	for _, state := range []string{"idle", "user"} {
		sum = append(sum, message(1, attribute(7, "state", state), fixed(3, uint64(now.UnixNano())),
			fixed(4, math.Float64bits(1.5))))
	}
	sum = append(sum, []byte{2 << 3, 2, 3 << 3, 1}) // cumulative and monotonic
	metric := message(2, text(1, "system.cpu.time"), text(3, "s"), message(7, sum...))
	return message(1, message(1, attribute(1, "host.name", "gw-8"), attribute(1, "os.type", "linux")), message(2, metric))
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
