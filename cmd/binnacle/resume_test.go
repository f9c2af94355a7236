package main_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/text/report"

	"github.com/stretchr/testify/require"
)

var (
	resumeDevices = flag.Int("resume.devices", 0, "devices with ten values a second each; 0: TestResume is skipped")
	resumeProfile = flag.String("resume.profile", "", "file for a CPU profile of the first 5 s, .on and .off")
	resumeMinutes = flag.Int("resume.minutes", 30, "minutes of readings that are waiting when the ingester starts again")
)

// TestResume is a benchmark: an ingester that has read some minutes is killed, more minutes of readings come in, and
// another one starts. It ends when that one has read all there is, with what was held from the journal before, and
// then when it has stored it.
func TestResume(t *testing.T) {
	if *resumeDevices == 0 {
		t.Skip("a benchmark: see make bench-resume")
	}
	rows := [][]string{{"bins", "caught up s", "as fast as it came in", "the same by CPU", "CPU us/value", "RU meanwhile",
		"RU of storing all, per million values", "reference CPU ms"}}
	for _, journal := range []string{"on", "off"} {
		rows = append(rows, resume(t, journal))
	}
	var out bytes.Buffer
	require.NoError(t, report.Grid(&out, rows))
	t.Logf("%d minutes of %d devices, %.1f M values, 4 partitions, request units modelled\n%s", *resumeMinutes,
		*resumeDevices, float64(*resumeDevices*10*60**resumeMinutes)/1e6, out.String())
}

func resume(t *testing.T, journal string) []string {
	kafkaAt := freePort(t)
	broker := start(t, "broker", "--kafka="+kafkaAt, "--data-dir="+t.TempDir(), "--kafka-mb=0",
		"--topics=json,json.journal,json.dlq")
	broker.printed(`(?m)^ +kafka +(\S+)`)
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir="+t.TempDir(), "--unlimited")
	storeAt := "--cosmos=" + emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	provision := start(t, "provision", "--every=1s", "--kafka="+kafkaAt, storeAt, "--journal-of=json")
	args := append(ingestOf(t, kafkaAt, storeAt, "json", "resume"), "--hold=12h", "--journal="+journal)
	soon(t, time.Minute, func() bool { return run(t, time.Minute, append(args, "--check")...).code == 0 },
		"the store is ready")

	c, each := newConvoy(*resumeDevices), 60**resumeMinutes
	before := max(each/10, 1)
	c.publish(t, kafkaAt, "json", before, decode.AppendJSON)
	first := start(t, args...)
	hasRead(t, first.printed(`(?m)^ +admin +http://(\S+)`), before**resumeDevices)
	first.kill()
	over := time.Now().Add(46 * time.Second) // the group has forgotten it then
	c.publish(t, kafkaAt, "json", each, decode.AppendJSON)
	time.Sleep(time.Until(over))

	begun := time.Now()
	second := start(t, args...)
	admin := second.printed(`(?m)^ +admin +http://(\S+)`)
	if *resumeProfile != "" {
		go profiled(admin, *resumeProfile+"."+journal)
	}
	m := hasRead(t, admin, each**resumeDevices)
	took, cpu := time.Since(begun), cpuOf(second)
	values, meanwhile := float64(each**resumeDevices*10), m["binnacle_cosmos_request_units_total"]
	speed := func(seconds float64) string { return fmt.Sprintf("%.1f times", float64(each)/seconds) }
	scaled := float64(*resumeDevices) / 10_000 // of the 100,000 values a second that the goal speaks of
	require.NoError(t, second.cmd.Process.Signal(syscall.SIGTERM))
	stored := "-"
	for ended := false; !ended; {
		select {
		case <-second.ended:
			ended = true
		case <-time.After(looks / 4):
			if now := scraped(admin); len(now) > 0 {
				m = now
			}
		}
	}
	if n := m["binnacle_ingest_stored_values_total"]; n > 0 {
		stored = fmt.Sprintf("%.0f", m["binnacle_cosmos_request_units_total"]/n*1e6)
	}
	provision.stop(syscall.SIGTERM)
	bins := map[string]string{"on": "in the journal", "off": "read again"}[journal]
	return []string{bins, fmt.Sprintf("%.1f", took.Seconds()), speed(took.Seconds() / scaled), speed(cpu / scaled),
		fmt.Sprintf("%.3f", cpu/values*1e6), fmt.Sprintf("%.0f", meanwhile), stored, fmt.Sprintf("%.0f", reference())}
}

// profiled keeps a profile of a process' next seconds.
func profiled(admin, path string) {
	resp, err := http.Get("http://" + admin + "/debug/pprof/profile?seconds=5")
	if err != nil {
		return
	}
	defer resp.Body.Close() //nolint:errcheck // what was read counts
	if profile, err := io.ReadAll(resp.Body); err == nil {
		_ = os.WriteFile(path, profile, 0o600) // without it there is no profile
	}
}

// hasRead waits until an ingester has taken that many readings or more and no record is left, and returns its metrics.
func hasRead(t *testing.T, admin string, readings int) (m map[string]float64) {
	soon(t, 20*time.Minute, func() bool {
		time.Sleep(looks)
		m = scraped(admin)
		require.Zero(t, m["binnacle_ingest_dead_letters_total"])
		taken := m["binnacle_ingest_readings_total"] + m["binnacle_ingest_resumed_readings_total"]
		return taken >= float64(readings) && m["binnacle_ingest_lag_records"] == 0
	}, "all records are read")
	return m
}

// looks is how often benchmarks look at a process' metrics: to tell them takes it a millisecond of CPU.
const looks = 200 * time.Millisecond
