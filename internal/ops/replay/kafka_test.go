package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/journal"
	"binnacle/ingest/write"
	kafkaclient "binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/ops/replay"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

const partitions = 4

func openBroker(t testing.TB, dir, addr string) *broker.Broker {
	t.Helper()
	b, err := broker.Open(broker.Config{DataDir: dir, Addr: addr, Partitions: partitions,
		Topics: []string{"telemetry"}})
	require.NoError(t, err)
	return b
}

// readAll reads what a topic holds, partition by partition.
func readAll(t *testing.T, addr string) [][]kafka.Message {
	t.Helper()
	all := make([][]kafka.Message, partitions)
	for p := range all {
		conn, err := kafka.DialLeader(t.Context(), "tcp", addr, "telemetry", p)
		require.NoError(t, err)
		first, last, err := conn.ReadOffsets()
		require.NoError(t, err)
		batch := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 64 << 20, MaxWait: 50 * time.Millisecond})
		for first+int64(len(all[p])) < last {
			m, err := batch.ReadMessage()
			if errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "short") {
				_ = batch.Close()
				_, err = conn.Seek(first+int64(len(all[p])), kafka.SeekAbsolute)
				require.NoError(t, err)
				batch = conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 64 << 20, MaxWait: 50 * time.Millisecond})
				continue
			}
			require.NoError(t, err)
			all[p] = append(all[p], m)
		}
		_ = batch.Close()
		require.NoError(t, conn.Close())
	}
	return all
}

func TestThroughKafka(t *testing.T) {
	embedded := openBroker(t, t.TempDir(), "127.0.0.1:0")
	defer embedded.Close()
	const devices, rows = 7, 21_000
	var text strings.Builder
	text.WriteString("time,id,n\n")
	for i := range rows {
		text.WriteString(time.UnixMilli(int64(i)).UTC().Format(time.RFC3339Nano) + ",d" + strconv.Itoa(i%devices) + "," +
			strconv.Itoa(i) + "\n")
	}
	cfg := config(writeFile(t, "x.csv.gz", text.String()))
	cfg.DeviceColumn, cfg.Kafka.Brokers = "id", []string{embedded.Addr()}
	s, err := replay.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, rows, s.Records)

	next, n := map[string]int64{}, 0
	d := decode.New(decode.Options{})
	for p, messages := range readAll(t, embedded.Addr()) {
		for _, m := range messages {
			require.Equal(t, []kafka.Header{{Key: "content-type", Value: []byte("application/json")}}, m.Headers)
			require.Equal(t, kafka.Murmur2Balancer{}.Balance(m, 0, 1, 2, 3), p)
			require.Equal(t, now.UnixMilli(), m.Time.UnixMilli())
			got := d.Decode(decode.Record{Value: m.Value, ContentType: string(m.Headers[0].Value)})
			require.Empty(t, got.Bad)
			key := string(m.Key)
			if _, ok := next[key]; !ok {
				i, err := strconv.Atoi(strings.TrimPrefix(key, "acme/d"))
				require.NoError(t, err)
				next[key] = int64(i)
			}
			require.Equal(t, next[key], got.Readings[0].Time)
			require.Equal(t, float64(next[key]), got.Readings[0].Fields[0].Value.Float())
			next[key] += devices
			n++
		}
	}
	require.Equal(t, rows, n)
}

// What ingesters refuse of a replay's own records makes it fail, with the reason, once they have decided on all of
// them: by commits, and by what commits say of the journal. Records of others, and repeats of dead letters, do not
// count.
func TestRefusals(t *testing.T) {
	o := newDeadLetterRig(t)
	o.publishRecord(0, kafkaclient.Message{Value: []byte("of another producer")})
	topic := o.client.Topic("telemetry")
	decided := make(chan error)
	go func() { // an ingester
		decided <- func() error {
			var all []write.DeadLetter
			for p := range 2 {
				for end := int64(0); end < 10; {
					var err error
					if _, end, err = topic.Bounds(t.Context(), p); err != nil {
						return err
					}
				}
			}
			for p := range 2 {
				for _, r := range o.records("telemetry", p) {
					if r.Offset%3 > 0 {
						continue
					}
					l := write.DeadLetter{Topic: "telemetry", Partition: int32(p),
						Record: admit.Record{Offset: r.Offset, Time: r.Time, Key: r.Key, Value: r.Value},
						Bad:    decode.Bad{Index: whole, Reason: decode.Past, Detail: "event time lies too far back"}}
					all = append(all, l, l)
				}
			}
			dead := ingest.NewTopicDeadLetterWriter(o.client.Topic("telemetry.dlq"))
			if err := dead.Publish(t.Context(), all); err != nil {
				return err
			}
			for p := range 2 {
				_, end, err := topic.Bounds(t.Context(), p)
				c := kafkaclient.Commit{Group: "binnacle", Generation: kafkaclient.NoGeneration, Partition: p,
					Offset: end}
				if p == 1 {
					c.Offset, c.Metadata = 0, journal.Commit{F: end, To: 1}.Metadata()
				}
				if err = errors.Join(err, topic.Commit(t.Context(), c)); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	text := "time,id,n\n"
	for i := range 40 {
		text += fmt.Sprintf("%d,d%d,1\n", 1767225600+i, i)
	}
	cfg := config(writeFile(t, "x.csv", text))
	cfg.DeviceColumn, cfg.Kafka, cfg.Group = "id", o.cfg.Kafka, "binnacle"
	s, err := replay.Run(t.Context(), cfg)
	require.NoError(t, <-decided)
	require.Equal(t, 40, s.Records)
	want := 0
	for p := range 2 {
		for _, r := range o.records("telemetry", p) {
			if r.Offset%3 == 0 && string(r.Value) != "of another producer" {
				want++
			}
		}
	}
	require.Positive(t, want)
	require.Equal(t, replay.Refusals{Records: want, ByReason: map[decode.Reason]int{decode.Past: want},
		First: "event time lies too far back"}, s.Refusals)
	require.ErrorContains(t, err, fmt.Sprintf("%d of 40 records were refused and are dead letters: past %[1]d. "+
		"The first: event time lies too far back; readings of long ago are accepted with --backfill", want))
	require.ErrorContains(t, err, "--allow-refused")
	cfg.AllowRefused = true
	cfg.File = writeFile(t, "y.csv", "time,n\n2026-01-01,1\nyesterday,1\n")
	cfg.Device, cfg.DeviceColumn, cfg.Group = "m1", "", ""
	s, err = replay.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, 1, s.BadLines)
	cfg.AllowRefused = false
	_, err = replay.Run(t.Context(), cfg)
	require.ErrorContains(t, err, "lines that can't be read, and are not published: 1; the first is line 3: \"yester")
}

// The broker goes away in the middle and comes back: nothing is lost, and what is stored twice is stored
// in whole batches, so that the last copy of every reading is in order.
func TestBrokerRestart(t *testing.T) {
	dir := t.TempDir()
	embedded := openBroker(t, dir, "127.0.0.1:0")
	addr := embedded.Addr()
	const rows = 60_000
	var text strings.Builder
	text.WriteString("time,n\n")
	for i := range rows {
		text.WriteString(time.UnixMilli(int64(i)).UTC().Format(time.RFC3339Nano) + "," + strconv.Itoa(i) + "\n")
	}
	cfg := config(writeFile(t, "x.csv", text.String()))
	cfg.Kafka.Brokers = []string{addr}
	var attempts atomic.Int64
	cfg.Now = func() time.Time { // the publisher asks before every attempt to produce a batch
		switch attempts.Add(1) {
		case 2:
			_ = embedded.Close()
		case 4:
			embedded = openBroker(t, dir, addr)
		}
		return now
	}
	s, err := replay.Run(t.Context(), cfg)
	require.NoError(t, err)
	defer embedded.Close()
	require.Equal(t, rows, s.Records)
	next := int64(0)
	d := decode.New(decode.Options{})
	for _, messages := range readAll(t, addr) {
		for _, m := range messages {
			at := d.Decode(decode.Record{Value: m.Value}).Readings[0].Time
			require.LessOrEqual(t, at, next)
			next = at + 1
		}
	}
	require.EqualValues(t, rows, next)
	require.Greater(t, attempts.Load(), int64(4))
}

func TestNoBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg := config(writeFile(t, "x.csv", "time,a\n2026-01-01,1\n"))
	cfg.Kafka.Brokers = []string{l.Addr().String()}
	require.NoError(t, l.Close())
	_, err = replay.Run(t.Context(), cfg)
	require.ErrorContains(t, err, cfg.Kafka.Brokers[0])

	embedded := openBroker(t, t.TempDir(), "127.0.0.1:0")
	defer embedded.Close()
	cfg.Kafka.Brokers, cfg.Topic = []string{embedded.Addr()}, "nowhere"
	_, err = replay.Run(t.Context(), cfg)
	require.ErrorContains(t, err, "nowhere")
	require.ErrorContains(t, err, cfg.Kafka.Brokers[0])
}

// The files beside the repository, where they are. What they hold is described in their README.
const data = "../../../../shared/data"

func dataFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(data, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not here", path)
	}
	return path
}

func TestMachineTemperature(t *testing.T) {
	cfg := config(dataFile(t, "machine_temperature.csv"))
	cfg.TimeColumn = "timestamp"
	s, _, values := run(t, cfg)
	require.Equal(t, replay.Summary{File: cfg.File, Format: replay.CSV, Records: 22695, Readings: 22695, Values: 22695}, s)
	require.Equal(t, `{"tenant":"acme","device":"m1","ts":1386018900000,"values":{"value":73.96732207}}`, values[0])

	instants := map[int64]bool{}
	d := decode.New(decode.Options{})
	text, err := os.ReadFile(cfg.File)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	for i, v := range values {
		got := d.Decode(decode.Record{Value: []byte(v)})
		require.Empty(t, got.Bad)
		_, cell, _ := strings.Cut(strings.TrimSpace(lines[i]), ",")
		want, err := strconv.ParseFloat(cell, 64)
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(want), got.Readings[0].Fields[0].Value.Bits())
		instants[got.Readings[0].Time] = true
	}
	require.Len(t, instants, 22683)
}

func TestTSBS(t *testing.T) {
	for _, c := range []struct {
		file, tag string
		want      replay.Summary
	}{
		{"tsbs-cpu-10x3h.lp.gz", "hostname", replay.Summary{Records: 10800, Readings: 10800, Values: 108000}},
		{"tsbs-iot-20x6h.lp.gz", "name", replay.Summary{Records: 77798, Readings: 77798, Values: 614871, BadLines: 67}},
	} {
		cfg := config(dataFile(t, c.file))
		cfg.Device, cfg.Messages.DeviceTag = "", c.tag
		cfg.Messages.Tags = []string{"fleet", "driver", "model", "device_version"}
		k := newTopic(t, partitions)
		s, err := replay.RunTo(context.Background(), cfg, k)
		require.NoError(t, err)
		s.FirstBad, s.BadLineNumbers = "", nil
		c.want.File, c.want.Format = cfg.File, replay.LineProtocol
		require.Equal(t, c.want, s)
	}
}

func BenchmarkNarrowTable(b *testing.B) {
	embedded := openBroker(b, b.TempDir(), "127.0.0.1:0")
	defer embedded.Close()
	const rows = 500_000
	var text strings.Builder
	text.WriteString("time,id,temperature\n")
	for i := range rows {
		text.WriteString(time.UnixMilli(int64(i)*1000).UTC().Format(time.DateTime) + ",d" + strconv.Itoa(i%50) + "," +
			strconv.Itoa(i%1000) + ".25\n")
	}
	path := filepath.Join(b.TempDir(), "x.csv")
	require.NoError(b, os.WriteFile(path, []byte(text.String()), 0o600))
	cfg := config(path)
	cfg.DeviceColumn, cfg.Kafka.Brokers = "id", []string{embedded.Addr()}
	for b.Loop() {
		s, err := replay.Run(context.Background(), cfg)
		require.NoError(b, err)
		require.Equal(b, rows, s.Records)
	}
	b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "readings/s")
}
