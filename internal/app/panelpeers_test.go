//go:build linux

package app_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/report"
	"binnacle/query"
	"binnacle/query/prom"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"
)

var panelStarts = flag.Int("panels.starts", 1, "how often a process is started and asked; the median counts as cold")

var panelPeers = flag.String("panels.peers", "", "programs of TestPanelsBesidePeers, by commas; empty: it is skipped")

// TestPanelsBesidePeers is a benchmark: the same samples in an embedded Cosmos DB with rollups, in VictoriaMetrics and
// in Prometheus, and the same questions.
func TestPanelsBesidePeers(t *testing.T) {
	if *panelPeers == "" {
		t.Skip("a benchmark: see make bench-query")
	}
	p := newPanels(t, *panelDevices, *panelDays, plain())
	p.besidePeers(t, p.questions(), nil)
}

// besidePeers asks all of them, and prints a table. Cold is what a process is asked first, the median of some starts;
// warm what the last one is asked again, the mean of five times. CPU is that of the process that answers: of binnacle
// that is the test's own, with the embedded Cosmos DB and the client. compare, if it is not nil, gets every cold
// answer, binnacle's before those of others; then a Prometheus with closed ranges is asked, so that it can have the
// same.
func (p *panels) besidePeers(t *testing.T, panels []panel,
	compare func(who string, panel panel, body string)) [][]string {
	p.fill(t, p.first, p.day-1, time.Minute, 1, min(2, len(p.names)))
	p.fill(t, p.day, p.day, p.interval, p.chunks, len(p.names))
	p.now = p.now.Add(time.Hour)
	_, sealed := p.seal(t, p.first, p.day)
	p.now = p.now.Add(time.Hour)
	t.Logf("%d devices, %.1f M values; binnacle: %.2f B/value in chunks, %.2f in rollups, base64 and JSON included",
		p.devices, float64(p.values)/1e6, float64(p.bytes)/float64(p.values), float64(sealed)/float64(p.values))
	rows := [][]string{{"", "who", "CPU-ms cold", "warm", "wall ms cold", "warm", "RU cold", "MB", "series", "source"}}
	measure := func(who string, panel panel,
		begin func() (base string, cpu func() time.Duration, memory func() float64, end func())) {
		row, series, source, rus, held := []string{panel.name, who}, 0, "", "", 0.0
		var cold, warm [2][]time.Duration // CPU and wall
		for range *panelStarts {
			base, cpu, memory, end := begin()
			resting := memory()
			warm = [2][]time.Duration{}
			for n := range 1 + 5 {
				before := cpu()
				body, header, _, wall := ask(t, base, panel)
				used := cpu() - before
				took := &warm
				if n == 0 {
					took, source, rus = &cold, header.Get(query.SourceHeader), header.Get(query.SpentHeader)
					held = memory() - resting
					if compare != nil {
						compare(who, panel, body)
					}
				}
				took[0], took[1] = append(took[0], used), append(took[1], wall)
				series = lengthOf(t, body)
			}
			end()
		}
		for k := range 2 {
			slices.Sort(cold[k])
			sum := time.Duration(0)
			for _, d := range warm[k] {
				sum += d
			}
			for _, d := range []time.Duration{cold[k][len(cold[k])/2], sum / time.Duration(len(warm[k]))} {
				row = append(row, strconv.FormatFloat(d.Seconds()*1e3, 'f', 1, 64))
			}
		}
		rows = append(rows, append(row, rus, strconv.FormatFloat(held, 'f', 0, 64), strconv.Itoa(series), source))
	}
	for _, panel := range panels {
		if why := p.refusal(t, panel); why != "" {
			rows = append(rows, []string{panel.name, "binnacle", "NaN", "NaN", "", "", "", "", "", why})
			continue
		}
		measure("binnacle", panel, func() (string, func() time.Duration, func() float64, func()) {
			s := p.server(t, true)
			primed := panel
			primed.text, primed.step = "nothing", time.Hour // the devices' tags are known from now on
			ask(t, s.URL+prom.Prefix, primed)
			return s.URL + prom.Prefix, func() time.Duration { return rusage(t) }, liveMB, s.Close
		})
	}
	for _, program := range filepath.SplitList(*panelPeers) {
		if program == "" {
			continue
		}
		peer := &panelPeer{t: t, program: program, data: t.TempDir(), prometheus: filepath.Base(program) == "prometheus"}
		if peer.prometheus {
			version, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput()
			require.NoError(t, err)
			peer.closed = bytes.Contains(version, []byte("version 2."))
		}
		peer.start()
		began := peer.cpu()
		peer.load(p)
		took := peer.cpu() - began
		peer.stop()
		t.Logf("%s: loaded in %.1f CPU-s, %.2f B/value on disk, its log included", filepath.Base(program),
			took.Seconds(), peer.size()/float64(p.values))
		for _, panel := range panels {
			if compare != nil && peer.closed {
				panel = panel.closed(t)
				peer.lookback = panel.lookback // which it takes of no request
			}
			measure(filepath.Base(program), panel, func() (string, func() time.Duration, func() float64, func()) {
				peer.start()
				return "http://" + peer.at, peer.cpu, peer.residentMB, peer.stop
			})
		}
	}
	slices.SortStableFunc(rows[1:], func(a, b []string) int {
		place := func(row []string) int {
			return slices.IndexFunc(panels, func(p panel) bool { return p.name == row[0] })
		}
		return place(a) - place(b)
	})
	var out bytes.Buffer
	require.NoError(t, report.Grid(&out, rows))
	t.Logf("load average %s\n%s", load(), out.String())
	return rows[1:]
}

// refusal returns why a query process with its limits by default does not answer a panel; empty if it does, or has
// other limits.
func (p *panels) refusal(t *testing.T, panel panel) string {
	if !p.defaults {
		return ""
	}
	s := p.server(t, true)
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+prom.Prefix+panel.path(), nil)
	require.NoError(t, err)
	r.Header.Set("X-Scope-OrgID", "acme")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	return string(body)
}

// liveMB returns the memory of all that is reachable, in MB.
func liveMB() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// questions are those of the table.
func (p *panels) questions() []panel {
	day, long := p.day.Start(), p.first.Start()
	end := day + int64(p.hours)*time.Hour.Milliseconds()
	last := end - p.interval.Milliseconds()
	hours := fmt.Sprintf(", %d h", p.hours)
	out := []panel{
		{name: "one device raw" + hours, text: `metric_1{device="truck-0003"}`, from: day, to: last, step: p.interval},
		{name: "avg by fleet" + hours, text: "avg by (fleet) (metric_1)", from: day, to: end, step: 5 * time.Minute},
		{name: "avg of averages" + hours, text: "avg by (fleet) (avg_over_time(metric_1[5m]))", from: day, to: end,
			step: 5 * time.Minute},
		{name: "rate by fleet" + hours, text: "sum by (fleet) (rate(km_total[5m]))", from: day, to: end,
			step: 5 * time.Minute},
		{name: "topk" + hours, text: "topk(5, max_over_time(metric_1[1h]))", from: day, to: end, step: 5 * time.Minute},
		{name: "latest of all", text: "metric_1", from: day, to: last, step: 0},
		{name: "label values", text: "label/device/values", from: day, to: end, step: 0},
	}
	if p.first < p.day {
		name := fmt.Sprintf("%d d", p.day-p.first+1)
		out = append(out,
			panel{name: "avg by fleet, " + name, text: "avg by (fleet) (metric_1)", from: long, to: end,
				step: 30 * time.Minute},
			panel{name: "rate by fleet, " + name, text: "sum by (fleet) (rate(km_total[1h]))", from: long, to: end,
				step: 30 * time.Minute})
	}
	return out
}

// lengthOf is how many series, or values of a label, an answer has.
func lengthOf(t *testing.T, body string) int {
	var a struct{ Data json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(body), &a))
	var list []json.RawMessage
	if json.Unmarshal(a.Data, &list) != nil {
		var data struct{ Result []json.RawMessage }
		require.NoError(t, json.Unmarshal(a.Data, &data))
		list = data.Result
	}
	return len(list)
}

// series is what a series of a device is called.
func (p *panels) series(metric string, device int) map[string]string {
	labels := p.tags(device)
	labels["__name__"], labels["device"] = metric, deviceOf(device)
	return labels
}

func load() string {
	b, _ := os.ReadFile("/proc/loadavg") // what is not known is empty
	first, _, _ := bytes.Cut(b, []byte(" "))
	return string(first)
}

// panelPeer is another system as a process.
type panelPeer struct {
	t             *testing.T
	program, data string
	prometheus    bool
	closed        bool   // a Prometheus before 3.0
	lookback      string // of Prometheus, unless it is its default
	at            string
	cmd           *exec.Cmd
}

func (p *panelPeer) start() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.at = l.Addr().String()
	require.NoError(p.t, l.Close())
	args := []string{"-storageDataPath=" + p.data, "-httpListenAddr=" + p.at, "-retentionPeriod=100y",
		"-loggerLevel=ERROR", "-search.maxPointsPerTimeseries=100000",
		"-search.resetRollupResultCacheOnStartup"} // else it has the answers of its former start
	ready := "/health"
	if p.prometheus {
		config := filepath.Join(p.data, "empty.yml")
		require.NoError(p.t, os.WriteFile(config, nil, 0o600))
		args = []string{"--config.file=" + config, "--storage.tsdb.path=" + p.data, "--web.listen-address=" + p.at,
			"--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=100y", "--log.level=error",
			"--query.max-samples=500000000"}
		if p.lookback != "" {
			args = append(args, "--query.lookback-delta="+p.lookback)
		}
		ready = "/-/ready"
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	p.cmd = exec.CommandContext(ctx, p.program, args...)
	p.cmd.Stderr = os.Stderr
	require.NoError(p.t, p.cmd.Start())
	require.Eventually(p.t, func() bool {
		resp, err := http.Get("http://" + p.at + ready)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 5*time.Minute, 20*time.Millisecond)
}

func (p *panelPeer) stop() {
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	_ = p.cmd.Wait() // how it ends is its own affair
}

// cpu is what the threads of the process have taken so far. What /proc/PID/stat has is in steps of 10 ms.
func (p *panelPeer) cpu() (sum time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	require.NotEmpty(p.t, threads)
	for _, thread := range threads {
		b, err := os.ReadFile(thread)
		require.NoError(p.t, err)
		var ran time.Duration
		_, err = fmt.Sscan(string(b), &ran)
		require.NoError(p.t, err)
		sum += ran
	}
	return sum
}

// residentMB returns the resident memory of the process, in MB.
func (p *panelPeer) residentMB() float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	_, rest, _ := bytes.Cut(b, []byte("VmRSS:"))
	var kb float64
	_, err = fmt.Sscan(string(rest), &kb)
	require.NoError(p.t, err)
	return kb / 1e3
}

func (p *panelPeer) size() (bytes float64) {
	require.NoError(p.t, filepath.WalkDir(p.data, func(_ string, d fs.DirEntry, err error) error {
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

func (p *panelPeer) post(path, encoding string, body []byte) {
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.at+path, bytes.NewReader(body))
	require.NoError(p.t, err)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
		r.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
		r.Header.Set("Content-Type", "application/x-protobuf")
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	_ = resp.Body.Close()
	require.Equal(p.t, 2, resp.StatusCode/100, string(text))
}

// load writes the samples of a fleet, in the order of time, some half an hour of all devices together.
func (p *panelPeer) load(of *panels) {
	write := p.postLines
	if p.prometheus {
		write = p.postWrite
	}
	for day := of.first; day <= of.day; day++ {
		step, metrics, per, millis := int64(60_000), min(2, len(of.names)), 30, int(telemetry.DayMillis)
		if day == of.day {
			step, metrics = of.interval.Milliseconds(), len(of.names)
			millis = of.hours * int(time.Hour.Milliseconds())
			// A chunk holds half an hour, and less above 1,000 devices: at most 500 hours of all of them are in memory.
			per = max(1, int(min(1_800_000, 1_800_000_000/int64(of.devices))/step))
		}
		for from := 0; from < millis/int(step); from += per {
			for m := range metrics {
				var kind [kinds][]float64
				var times []int64
				for i := range per {
					times = append(times, day.Start()+int64(from+i)*step)
					for k := range kinds {
						kind[k] = append(kind[k], of.at(m, k, times[i]))
					}
				}
				write(of, of.names[m], times, kind)
			}
		}
	}
	if !p.prometheus {
		p.post("/internal/force_flush", "", nil)
	}
}

// postLines writes to VictoriaMetrics, a line a series.
func (p *panelPeer) postLines(of *panels, metric string, times []int64, kind [kinds][]float64) {
	var rest [kinds][]byte
	for k := range kinds {
		values, err := json.Marshal(kind[k])
		require.NoError(p.t, err)
		at, err := json.Marshal(times)
		require.NoError(p.t, err)
		rest[k] = fmt.Appendf(nil, `"values":%s,"timestamps":%s}`, values, at)
	}
	var body []byte
	for d := range of.devices {
		named, err := json.Marshal(of.series(metric, d))
		require.NoError(p.t, err)
		body = fmt.Appendf(body, `{"metric":%s,%s`+"\n", named, rest[d%kinds])
	}
	p.post("/api/v1/import", "", body)
}

// postWrite writes to Prometheus by its remote write, version 1: WriteRequest{1: TimeSeries{1: Label{1: name, 2:
// value}, 2: Sample{1: value, 2: timestamp}}}.
func (p *panelPeer) postWrite(of *panels, metric string, times []int64, kind [kinds][]float64) {
	field := func(dst []byte, number byte, b []byte) []byte {
		return append(binary.AppendUvarint(append(dst, number<<3|2), uint64(len(b))), b...)
	}
	var samples [kinds][]byte
	for k := range kinds {
		for i, v := range kind[k] {
			s := binary.LittleEndian.AppendUint64([]byte{1<<3 | 1}, math.Float64bits(v))
			s = binary.AppendUvarint(append(s, 2<<3), uint64(times[i]))
			samples[k] = field(samples[k], 2, s)
		}
	}
	var body []byte
	flush := func() {
		p.post("/api/v1/write", "snappy", s2.EncodeSnappy(nil, body))
		body = body[:0]
	}
	for d := range of.devices {
		var one []byte
		series := of.series(metric, d)
		for _, name := range slices.Sorted(maps.Keys(series)) {
			one = field(one, 1, field(field(nil, 1, []byte(name)), 2, []byte(series[name])))
		}
		if body = field(body, 1, append(one, samples[d%kinds]...)); len(body) > 4<<20 {
			flush()
		}
	}
	flush()
}
