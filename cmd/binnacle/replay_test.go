package main_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// shared is a file of real readings, which stand beside the project where there are any.
func shared(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../../shared/data", name))
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not there", path)
	}
	return path
}

// replay publishes a file, and checks what the summary says.
func (d *dev) replay(file string, flags []string, summary ...string) {
	d.t.Helper()
	p := run(d.t, time.Minute, append([]string{"replay", file, "--kafka", d.kafka}, flags...)...)
	require.Zero(d.t, p.code, p.stderr.String())
	lines := strings.Join(strings.Fields(p.stdout.String()), " ")
	for _, s := range summary {
		require.Contains(d.t, lines, s)
	}
	p.clean()
}

var machineFlags = []string{"--tenant", "acme", "--device", "m1", "--time-column", "timestamp"}

// machine is what machine_temperature.csv holds.
func machine(t *testing.T) (file string, want table) {
	t.Helper()
	file = shared(t, "machine_temperature.csv")
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	want = table{}
	for _, cells := range lines[1:] {
		at, err := time.Parse(time.DateTime, cells[0])
		require.NoError(t, err)
		v, err := strconv.ParseFloat(cells[1], 64)
		require.NoError(t, err)
		want.set(row{device: "m1", ts: at.UnixMilli()}, "value", v)
	}
	require.Len(t, want, 22_683)
	return file, want
}

// Three months of a machine's temperature, to the last bit: from memory, from the store, and after a restart.
func TestReplayMachineTemperature(t *testing.T) {
	t.Parallel()
	file, want := machine(t)
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=0", "--hold=5s")
	d.replay(file, machineFlags, "records 22695", "readings 22695", "values 22695", "bad lines 0")
	s := d.answers("acme", want, "device=m1&from=0&to=now&strict=true&format=csv")
	require.Positive(t, s.HeadRows)
	d.stored("acme")
	for _, f := range formats {
		s := d.answers("acme", want, "device=m1&from=2013-12-01T00:00:00Z&to=2014-03-01T00:00:00Z&strict=true&"+f)
		require.Equal(t, 3, s.Containers)
		require.Zero(t, s.HeadRows)
	}
	d.stop(syscall.SIGTERM)
	d = startDev(t, dir, "--fleet=0")
	d.answers("acme", want, "device=m1&metric=value&from=0&strict=true&format=csv")
	require.Empty(t, d.deadLetters())
}

// Kill -9 in the middle of a replay, a restart, and the replay again.
func TestReplayAfterAKill(t *testing.T) {
	t.Parallel()
	file, want := machine(t)
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=0", "--hold=300ms")
	half := start(t, append([]string{"replay", file, "--kafka", d.kafka, "--rate", "4000"}, machineFlags...)...)
	soon(t, time.Minute, func() bool { return d.logEnd() > 4_000 }, "the middle of the file")
	d.kill()
	half.kill()
	d = startDev(t, dir, "--fleet=0", "--hold=300ms")
	published := d.logEnd()
	require.Less(t, published, int64(len(want)))
	d.replay(file, machineFlags, "readings 22695")
	d.answersInAllFormats("acme", want)
	d.stored("acme")
	d.answersInAllFormats("acme", want)
}

// logEnd is how many records were published.
func (d *dev) logEnd() (n int64) {
	d.t.Helper()
	for _, id := range partitions(d.t, d.kafka, "telemetry") {
		leader, err := kafka.DialLeader(context.Background(), "tcp", d.kafka, "telemetry", id)
		require.NoError(d.t, err)
		end, err := leader.ReadLastOffset()
		require.NoError(d.t, err)
		require.NoError(d.t, leader.Close())
		n += end
	}
	return n
}

// influx reads line protocol as TSBS writes it, without quotes and escapes. It is what a tenant's readings must be,
// and how many lines name no device.
func influx(t *testing.T, file, deviceTag string, tags ...string) (want table, strangers int) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	want = table{}
	for lines := bufio.NewScanner(unzipped); lines.Scan(); {
		parts := strings.Split(lines.Text(), " ")
		if len(parts) != 3 || strings.Contains(lines.Text(), `\`) {
			require.FailNow(t, "not as TSBS writes it", lines.Text())
		}
		head := strings.Split(parts[0], ",")
		nanos, err := strconv.ParseInt(parts[2], 10, 64)
		require.NoError(t, err)
		r, labels := row{ts: nanos / 1e6}, map[string]string{}
		for _, tag := range head[1:] {
			name, value, _ := strings.Cut(tag, "=")
			if name == deviceTag {
				r.device = value
			} else {
				labels[name] = value
			}
		}
		for _, tag := range tags {
			delete(labels, tag)
		}
		if r.labels = labelled(labels); r.device == "" {
			strangers++
			continue
		}
		for _, field := range strings.Split(parts[1], ",") {
			name, text, _ := strings.Cut(field, "=")
			v, err := strconv.ParseFloat(strings.TrimSuffix(text, "i"), 64)
			if err != nil {
				require.NoError(t, err, lines.Text())
			}
			want.set(r, head[0]+"_"+name, v)
		}
	}
	return want, strangers
}

func TestReplayTSBSCPU(t *testing.T) {
	t.Parallel()
	needsFull(t) // TestTSBS of package replay reads the file, TestReplayMachineTemperature takes one all the way
	file := shared(t, "tsbs-cpu-10x3h.lp.gz")
	want, strangers := influx(t, file, "hostname")
	require.Len(t, want, 10_800)
	require.Zero(t, strangers)
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=2s")
	d.replay(file, []string{"--tenant=acme", "--lp-device-tag=hostname"}, "records 10800", "readings 10800",
		"values 108000", "bad lines 0")
	d.answers("acme", want, everything+"&format=csv")
	d.answers("acme", want, everything+"&limit=1000000")
	d.stored("acme")
	d.answersInAllFormats("acme", want)
	require.Empty(t, d.deadLetters())
}

func TestReplayTSBSIoT(t *testing.T) {
	t.Parallel()
	needsFull(t) // TestReplayTSBSCPU reads the format
	file := shared(t, "tsbs-iot-20x6h.lp.gz")
	want, strangers := influx(t, file, "name", "fleet", "driver", "model")
	require.Equal(t, 67, strangers)
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=3s")
	d.replay(file, []string{"--tenant=acme", "--lp-device-tag=name", "--lp-tags=fleet,driver,model", "--allow-refused"},
		"records 77798", "readings 77798", "bad lines 67")
	d.answers("acme", want, everything+"&format=csv")
	d.answers("acme", want, everything+"&limit=1000000")
	d.stored("acme")
	d.answers("acme", want, everything+"&format=csv&order=desc")
	d.answers("acme", want, everything+"&limit=1000000")
	require.Empty(t, d.deadLetters())
}

// Lines that hold no reading of a device are counted and named; all others are answered.
func TestReplayBadLines(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0")
	ts := noon()
	good := func(i int64, v string) string {
		return fmt.Sprintf(`{"tenant":"acme","device":"m1","ts":%d,"values":{"v":%s}}`, ts+i, v) + "\n"
	}
	messages := file(t, "messages.ndjson", good(0, "1.5")+"no json\n"+good(1,
		`{"float":"-Inf"}`)+fmt.Sprintf(`{"tenant":"acme","ts":%d,"values":{"v":1}}`, ts)+"\n\n"+good(2,
		"9007199254740993")+"{\n")
	refusing := run(t, time.Minute, "replay", messages, "--kafka", d.kafka)
	require.Equal(t, 1, refusing.code)
	require.Contains(t, refusing.stderr.String(),
		"lines that can't be read, and are not published: 3; the first is line 2: it is not a JSON object")
	require.Contains(t, refusing.stderr.String(), "--allow-refused")
	d.replay(messages, []string{"--allow-refused"}, "records 3", "readings 3", "values 3", "bad lines 3 line 2, 4, 7")
	sheet := file(t, "sheet.csv", "time;name;a;b;c\n"+
		"2026-01-02 03:04:05;x1;1.50;true;NaN\n"+
		"2026-01-02 03:04:06;x1;;false;some text\n"+
		"yesterday;x1;1;true;2\n"+
		"2026-01-02 03:04:07;x2;+Inf;;-0\n")
	d.replay(sheet, []string{"--tenant", "acme", "--device-column", "name", "--allow-refused"},
		"records 3", "readings 3", "values 7",
		"bad lines 1 line 4")

	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli()
	want := table{
		{device: "m1", ts: ts}:        {"v": 1.5},
		{device: "m1", ts: ts + 1}:    {"v": math.Inf(-1)},
		{device: "m1", ts: ts + 2}:    {"v": int64(9007199254740993)},
		{device: "x1", ts: at}:        {"a": 1.5, "b": true, "c": math.NaN()},
		{device: "x1", ts: at + 1000}: {"b": false, "c": "some text"},
		{device: "x2", ts: at + 2000}: {"a": math.Inf(1), "c": math.Copysign(0, -1)},
	}
	d.answersInAllFormats("acme", want)
	require.Empty(t, d.deadLetters())
}

// The file's end is now, and so its last reading is fresh.
func TestReplayShiftedToNow(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0")
	sheet := file(t, "old.csv.gz", zipped("time,v\n2001-01-01T00:00:00Z,1\n2001-01-01T00:00:10Z,2\n"))
	before := time.Now().UnixMilli()
	d.replay(sheet, []string{"--shift-to", "now", "--tenant", "acme", "--device", "m1"}, "readings 2")
	var times []int64
	d.ask("acme", "from=-1m&strict=true", func(r row, _ map[string]any) { times = append(times, r.ts) })
	require.Len(t, times, 2)
	require.EqualValues(t, 10_000, times[1]-times[0])
	require.GreaterOrEqual(t, times[1], before)
	require.LessOrEqual(t, times[1], time.Now().UnixMilli())
}

func zipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}
