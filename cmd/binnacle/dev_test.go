package main_test

import (
	"io"
	"net/http"
	"os/exec"
	"regexp"
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

	soon(t, time.Until(d.started.Add(10*time.Second)), func() bool {
		fresh := false
		d.ask("acme", "device=truck-0000&metric=velocity&from=-1s", func(r row, values map[string]any) {
			require.Equal(t, "truck-0000", r.device)
			require.Contains(t, values, "velocity")
			fresh = true
		})
		return fresh
	}, "a reading newer than a second")

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
func TestTheFleet(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir())
	devices := func(tenant string) int { return strings.Count(d.body(tenant, "/api/v1/devices"), `"device":`) }
	soon(t, 10*time.Second, func() bool { return devices("acme") == 10 && devices("globex") == 10 },
		"ten trucks of each tenant")
	for _, metric := range []string{"latitude", "longitude", "elevation", "velocity", "heading", "grade",
		"fuel_consumption", "fuel_state", "current_load", "status"} {
		require.Contains(t, d.body("acme", "/api/v1/metrics"), `{"metric":"`+metric+`","types":["float"],"devices":10}`)
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

// The admin endpoint tells health, metrics and profiles.
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

// A signal that comes while it starts is no failure, at whatever moment it comes.
func TestStoppedWhileItStarts(t *testing.T) {
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
