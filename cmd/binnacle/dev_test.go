package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// command is a curl of the form that dev prints: one simple command that a newcomer may copy.
var command = regexp.MustCompile(`^curl -H 'X-Scope-OrgID: acme' '(http://[^']+)'$`)

// What dev says on stdout works, readings are fresh, and both signals end it well. Started again it answers what it
// answered before.
func TestDevFromStartToStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDev(t, dir)

	require.Contains(t, d.stdout.String(), "  page    http://"+d.api+"/#tenant=acme\n")
	page, err := http.Get("http://" + d.api + "/")
	require.NoError(t, err)
	page.Body.Close()
	require.Equal(t, 200, page.StatusCode, "the page needs no credential")
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")

	tries := 0
	for line := range strings.Lines(d.stdout.String()) {
		if !strings.HasPrefix(line, "curl") {
			continue
		}
		line = strings.TrimSpace(line)
		m := command.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		tries++
		d.get("acme", strings.TrimPrefix(m[1], "http://"+d.api)).Body.Close()
		if _, err := exec.LookPath("curl"); err != nil {
			continue
		}
		status, err := exec.Command("sh", "-c", line+` -s -o /dev/null -w '%{http_code}'`).Output()
		require.NoError(t, err, line)
		require.Equal(t, "200", string(status), line)
	}
	require.GreaterOrEqual(t, tries, 3)

	soon(t, time.Until(d.started.Add(time.Minute)), func() bool {
		fresh := false
		d.ask("acme", "device=truck-0000&metric=velocity&from=-1s&strict=true", func(r row, values map[string]any) {
			require.Equal(t, "truck-0000", r.device)
			require.Contains(t, values, "velocity")
			fresh = true
		})
		return fresh
	}, "a reading newer than a second")

	d.agree(t)

	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		before := map[string]table{"acme": d.everything("acme"), "globex": d.everything("globex")}
		require.NotEmpty(t, before["acme"])
		require.NotEmpty(t, before["globex"])
		d.stop(signal)
		d.clean()
		d = startDev(t, dir, "--fleet=0")
		for tenant, want := range before {
			after := d.everything(tenant)
			for r, values := range want {
				require.Equal(t, values, after[r], "%s %v", tenant, r)
			}
		}
	}
}

// agree asks for the same values in all ways that there are: as readings, as aggregates and as the latest ones. What
// they have cost is explained.
func (d *dev) agree(t *testing.T) {
	t.Helper()
	const series = "device=truck-0000&metric=velocity&from=0"
	values := map[int64]float64{}
	last := int64(0)
	d.ask("acme", series+"&format=ndjson", func(r row, v map[string]any) {
		value, err := strconv.ParseFloat(fmt.Sprint(v["velocity"]), 64)
		require.NoError(t, err)
		values[r.ts] = value
		last = max(last, r.ts)
	})
	of := fmt.Sprintf("%s&to=%d", series, last+1) // more comes in meanwhile
	require.NotEmpty(t, values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	var answer struct {
		Aggregates []struct {
			Count     int
			Sum, Last float64
		}
		Latest []struct {
			TS    int64
			Value float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(d.body("acme", "/api/v1/aggregates?"+of)), &answer))
	require.Len(t, answer.Aggregates, 1)
	require.Equal(t, len(values), answer.Aggregates[0].Count)
	require.InDelta(t, sum, answer.Aggregates[0].Sum, 1e-6)
	require.InDelta(t, values[last], answer.Aggregates[0].Last, 0)
	require.NoError(t, json.Unmarshal([]byte(d.body("acme", "/api/v1/latest?"+of)), &answer))
	require.Len(t, answer.Latest, 1)
	require.Equal(t, last, answer.Latest[0].TS)
	require.InDelta(t, values[last], answer.Latest[0].Value, 0)

	for _, q := range []string{"avg by (fleet) (velocity)", "/api/v1/aggregates?" + of} {
		out := run(t, time.Minute, "explain", "--api="+d.api, "--tenant=acme", q)
		require.Zero(t, out.code, out.stderr.String())
		require.Contains(t, out.stdout.String(), "chunks-2")
		require.Contains(t, out.stdout.String(), "velocity")
	}
}

// everything is what is answered now; nothing may be answered twice.
func (d *dev) everything(tenant string) table {
	d.t.Helper()
	all := table{}
	d.ask(tenant, everything+"&format=ndjson", func(r row, values map[string]any) {
		require.NotContains(d.t, all, r, "answered twice")
		all[r] = values
	})
	return all
}

// The twenty trucks of the default fleet report ten metrics a second each, half of them for each tenant.
func TestFleetIsQueryable(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir())
	devices := func(tenant string) int { return strings.Count(d.body(tenant, "/api/v1/devices"), `"device":`) }
	soon(t, time.Minute, func() bool { return devices("acme") == 10 && devices("globex") == 10 },
		"ten trucks of each tenant")
	for _, metric := range []string{"latitude", "longitude", "elevation", "velocity", "heading", "grade",
		"fuel_consumption", "fuel_state", "current_load", "status"} {
		require.Contains(t, d.body("acme", "/api/v1/metrics"), `{"metric":"`+metric+`","types":["float"],"units":[],"devices":10}`)
	}
	require.Equal(t, 0, devices("stranger"))
}

func (d *dev) body(tenant, path string) string {
	d.t.Helper()
	resp := d.get(tenant, path)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(d.t, err)
	return string(b)
}

// The admin endpoint serves health, metrics and profiles.
func TestAdmin(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=2")
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=1"} {
		resp, err := http.Get("http://" + d.admin + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		if path == "/metrics" {
			require.Contains(t, string(body), "binnacle_")
		}
	}
}

// A web page can have a name that leads to this machine: all listeners of dev refuse callers that come by such a name.
func TestDevRefusesForeignHosts(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--trusted-hosts=binnacle.lan")
	status := func(host, url string) int {
		r, err := http.NewRequest(http.MethodGet, "http://"+url, nil)
		require.NoError(t, err)
		r.Host = host
		r.Header.Set("X-Scope-OrgID", "acme")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	for _, url := range []string{d.api + "/api/v1/devices", d.api + "/prometheus/api/v1/labels", d.cosmos + "/_emulator",
		d.admin + "/api/v1/rejected", d.admin + "/api/v1/bins", d.admin + "/api/v1/ingesters", d.admin + "/api/v1/limits",
		d.admin + "/api/v1/partitions?container=catalog", d.admin + "/debug/pprof/cmdline"} {
		for _, host := range []string{"localhost:7070", "127.0.0.1", "[::1]:7070", "binnacle.lan:7070"} {
			require.Equal(t, http.StatusOK, status(host, url), "%s as %s", url, host)
		}
		require.Equal(t, http.StatusForbidden, status("evil.example:7070", url), url)
	}
	require.Equal(t, http.StatusNotFound, status("localhost", d.api+"/api/v1/partitions"), "it names all tenants")
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		require.Equal(t, http.StatusOK, status("evil.example", d.admin+path), "open to everyone: %s", path)
	}
}

// A signal that comes while it starts is no failure, at whatever moment it comes.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for wait := range 15 {
		p := start(t, append(free(""), "--data-dir", dir)...)
		time.Sleep(time.Duration(10*wait) * time.Millisecond) // the moment of the signal is the test's subject
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.wait(10 * time.Second)
		if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() { // it came before main
			require.Zero(t, p.code, p.stderr.String())
		}
	}
	startDev(t, dir)
}
