package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"
	"binnacle/internal/text/report"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

var (
	peersDevices = flag.Int("peers.devices", 0, "devices whose readings are consumed; 0: TestIngestBesidePeers is skipped")
	peersRows    = flag.Int("peers.rows", 9000, "readings of each device, a second apart, ten values each")
	peersBin     = flag.String("peers.bin", "", "folder with telegraf and victoria-metrics; empty: binnacle alone")
	peersBefore  = flag.String("peers.before", "", "another build of binnacle, whose ingester takes turns with this one's")
	peersTurns   = flag.Int("peers.turns", 2, "how often each consumer has its turn")
	peersProfile = flag.String("peers.profile", "", "folder for CPU profiles of the first 5 s of each of binnacle's turns")
)

// TestIngestBesidePeers is a benchmark: the same readings, one a record and ten values a reading, lie in Kafka before
// the clock starts, in JSON and in line protocol. What consumes them, what serves them and what stores them are
// processes of their own, so that CPU is the consumer's alone, fetching and unpacking included. Beside it runs a fixed
// piece of work, which shows the speed of the machine meanwhile.
func TestIngestBesidePeers(t *testing.T) {
	if *peersDevices == 0 {
		t.Skip("a benchmark: see make bench-peers")
	}
	p := &peers{t: t, values: float64(*peersDevices * *peersRows * 10)}
	kafkaAt := freePort(t)
	p.kafka = kafkaAt
	broker := start(t, "broker", "--kafka="+kafkaAt, "--data-dir="+t.TempDir(), "--kafka-mb=0",
		"--topics=json,lines,json.journal,lines.journal,json.dlq,lines.dlq")
	broker.printed(`(?m)^ +kafka +(\S+)`)
	p.publish("json", func(b []byte, r telemetry.Reading) []byte { return decode.AppendJSON(b, r) })
	p.publish("lines", appendLine)

	var out bytes.Buffer
	rows := [][]string{{"consumer", "records", "M values/s", "CPU us/value", "store's CPU us/value", "B/value", "RSS MB",
		"reference CPU ms"}}
	p.row = func(cells ...string) {
		rows = append(rows, append(cells, fmt.Sprintf("%.0f", reference())))
		t.Log(rows[len(rows)-1])
	}
	for range *peersTurns {
		for _, of := range [][]string{{"json", "12h"}, {"lines", "12h"}, {"json", "off"}} {
			if *peersBefore != "" {
				p.binnacle(*peersBefore, of[0], of[1])
			}
			p.binnacle(program, of[0], of[1])
		}
		if *peersBin != "" {
			p.telegraf("lines")
		}
	}
	require.NoError(t, report.Grid(&out, rows))
	t.Logf("%d devices, %d rows of ten values each, %.1f M values, 4 partitions\n%s", *peersDevices, *peersRows,
		p.values/1e6, out.String())
}

type peers struct {
	t      *testing.T
	kafka  string
	values float64
	runs   int
	row    func(cells ...string)
}

// publish fills a topic in the order of time.
func (p *peers) publish(topic string, encode func([]byte, telemetry.Reading) []byte) {
	newConvoy(*peersDevices).publish(p.t, p.kafka, topic, *peersRows, encode)
}

// convoy is trucks that each have a reading of ten values a second.
type convoy struct {
	trucks []*fleet.Truck
	now    time.Time
}

func newConvoy(devices int) *convoy {
	c := &convoy{make([]*fleet.Truck, devices), time.UnixMilli(noon()).UTC()}
	for i := range c.trucks {
		c.trucks[i] = fleet.NewTruck(1, i, c.now)
	}
	return c
}

// publish publishes the next readings of all trucks in the order of time.
func (c *convoy) publish(t *testing.T, broker, topic string, rows int, encode func([]byte, telemetry.Reading) []byte) {
	w := &kafka.Writer{
		Addr: kafka.TCP(broker), Topic: topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		BatchSize: 5000, BatchTimeout: time.Millisecond, BatchBytes: 900_000, Compression: kafka.Lz4,
	}
	var queue []kafka.Message
	for i := range rows {
		for _, truck := range c.trucks {
			r := telemetry.Reading{Tenant: "acme", Device: truck.ID(), Time: c.now.UnixMilli(), Fields: truck.Next(c.now)}
			queue = append(queue, kafka.Message{Key: []byte("acme/" + r.Device), Value: encode(nil, r), Time: c.now})
		}
		c.now = c.now.Add(time.Second)
		if len(queue) >= 20_000 || i == rows-1 {
			require.NoError(t, w.WriteMessages(context.Background(), queue...))
			queue = queue[:0]
		}
	}
	require.NoError(t, w.Close())
}

// appendLine appends a reading of floats and ints as a line of line protocol.
func appendLine(b []byte, r telemetry.Reading) []byte {
	b = fmt.Appendf(b, "readings,device=%s,tenant=%s ", r.Device, r.Tenant)
	for i, f := range r.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, f.Metric...), '=')
		if f.Value.Kind() == telemetry.Int {
			b = append(strconv.AppendInt(b, f.Value.Int(), 10), 'i')
		} else {
			b = strconv.AppendFloat(b, f.Value.Float(), 'f', -1, 64)
		}
	}
	return strconv.AppendInt(append(b, ' '), r.Time*1_000_000, 10)
}

// binnacle has an ingester of a build consume a topic, with a hold, or off: without a journal, so that all is stored
// when it ends.
func (p *peers) binnacle(build, topic, hold string) {
	t := p.t
	p.runs++
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir="+t.TempDir(), "--unlimited")
	storeAt := "--cosmos=" + emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	provision := start(t, "provision", "--every=1s", "--kafka="+p.kafka, storeAt, "--journal-of="+topic)
	args := ingestOf(t, p.kafka, storeAt, topic, fmt.Sprintf("run%d", p.runs))
	how := "binnacle, journal"
	if hold == "off" {
		args, how = append(args, "--journal=off", "--hold=12h"), "binnacle, all stored"
	}
	if build != program {
		how += ", before"
	}
	soon(t, time.Minute, func() bool { return run(t, time.Minute, append(args, "--check")...).code == 0 },
		"the store is ready")
	begun := time.Now()
	ingester := startProgram(t, nil, build, args...)
	admin := ingester.printed(`(?m)^ +admin +http://(\S+)`)
	if *peersProfile != "" {
		go profiled(admin, filepath.Join(*peersProfile, fmt.Sprintf("%s-%s-%d", topic, hold, p.runs)))
	}
	hasRead(t, admin, int(p.values/10))
	took := time.Since(begun)
	require.NoError(t, ingester.cmd.Process.Signal(syscall.SIGTERM))
	var m map[string]float64
	for {
		if now := scraped(admin); len(now) > 0 {
			m = now
		}
		select {
		case <-ingester.ended:
		case <-time.After(looks / 4):
			continue
		}
		break
	}
	require.Zero(t, ingester.code)
	density := "-"
	if stored := m["binnacle_ingest_stored_values_total"]; stored > 0 {
		density = fmt.Sprintf("%.2f", m["binnacle_ingest_chunk_fill_ratio"]*36*1024/stored)
	}
	if hold == "off" {
		took = time.Since(begun)
	}
	store := cpuOf(emulator)
	p.row(how, topic, fmt.Sprintf("%.2f", p.values/took.Seconds()/1e6), fmt.Sprintf("%.3f", cpuOf(ingester)/p.values*1e6),
		fmt.Sprintf("%.3f", store/p.values*1e6), density, fmt.Sprintf("%.0f", rssOf(ingester)))
	provision.stop(syscall.SIGTERM)
	emulator.stop(syscall.SIGTERM)
}

// ingestOf is how an ingester of its own is started.
func ingestOf(t *testing.T, broker, store, topic, group string) []string {
	t.Setenv("BINNACLE_SESSION_TIMEOUT", "45s")
	t.Setenv("BINNACLE_DRAIN_BUDGET", "20s")
	return []string{"ingest", "--kafka=" + broker, store, "--topic=" + topic, "--group=" + group, "--register",
		"--admin=127.0.0.1:0", "--heads-listen=127.0.0.1:0", "--heads-secret-file=" + file(t, "secret", "open sesame\n"),
		"--data-dir=" + t.TempDir()}
}

// telegraf has Telegraf consume a topic of lines, as its tuned settings do it best, and write to VictoriaMetrics.
func (p *peers) telegraf(topic string) {
	t := p.t
	p.runs++
	data := t.TempDir()
	vmAt := freePort(t)
	vm := startProgram(t, nil, filepath.Join(*peersBin, "victoria-metrics"), "-storageDataPath="+data,
		"-httpListenAddr="+vmAt, "-retentionPeriod=100y", "-loggerLevel=ERROR")
	soon(t, time.Minute, func() bool { return len(scraped(vmAt)) > 0 }, "VictoriaMetrics answers")
	config := file(t, "telegraf.conf", fmt.Sprintf(`
[agent]
  interval = "1s"
  flush_interval = "1s"
  metric_batch_size = 10000
  metric_buffer_limit = 200000
  omit_hostname = true
  quiet = true
[[inputs.kafka_consumer]]
  brokers = [%q]
  topics = [%q]
  consumer_group = "telegraf%d"
  offset = "oldest"
  kafka_version = "2.6.0"
  max_undelivered_messages = 100000
  data_format = "influx"
[[outputs.influxdb]]
  urls = ["http://%s"]
  skip_database_creation = true
`, p.kafka, topic, p.runs, vmAt))
	begun := time.Now()
	agent := startProgram(t, nil, filepath.Join(*peersBin, "telegraf"), "--config", config)
	soon(t, 10*time.Minute, func() bool { return scraped(vmAt)["vm_rows_inserted_total"] >= p.values },
		"Telegraf has delivered everything")
	took := time.Since(begun)
	agent.stop(syscall.SIGTERM)
	vm.stop(syscall.SIGTERM)
	p.row("Telegraf", topic, fmt.Sprintf("%.2f", p.values/took.Seconds()/1e6),
		fmt.Sprintf("%.3f", cpuOf(agent)/p.values*1e6),
		fmt.Sprintf("%.3f", cpuOf(vm)/p.values*1e6), fmt.Sprintf("%.2f", sizeOf(t, data)/p.values),
		fmt.Sprintf("%.0f", rssOf(agent)))
}

// scraped is the metrics of a process, each summed over its labels, a histogram's by its sum; nothing if it is not
// there.
func scraped(at string) map[string]float64 {
	response, err := http.Get("http://" + at + "/metrics")
	if err != nil {
		return nil
	}
	defer response.Body.Close() //nolint:errcheck // what was read counts
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil
	}
	sums := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			sums[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() +
				m.GetHistogram().GetSampleSum()
		}
	}
	return sums
}

// cpuOf is the seconds of CPU that a process has taken, of a running one as Linux reports it.
func cpuOf(p *process) float64 {
	select {
	case <-p.ended:
		return (p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()).Seconds()
	default:
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the third field is the first here
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// rssOf is the most memory that a process which has ended had, in MB.
func rssOf(p *process) float64 {
	return float64(p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024 / 1e6
}

func sizeOf(t *testing.T, dir string) (bytes float64) {
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += float64(info.Size())
		}
		return err
	}))
	return bytes
}

// reference is the CPU, in ms, of a fixed piece of work now: 256 MB hashed.
func reference() float64 {
	cpu := func() float64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	begun, block, h := cpu(), make([]byte, 1<<20), sha256.New()
	for range 256 {
		h.Write(block)
	}
	h.Sum(nil)
	return cpu() - begun
}
