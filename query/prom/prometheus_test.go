package prom_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/tenant/access"

	"github.com/stretchr/testify/require"
)

// programs is a directory with the programs prometheus and promtool; tests that need them are skipped without it.
const programs = "BINNACLE_PROMETHEUS"

// program is the path of one of them.
func program(t *testing.T, name string) string {
	dir := os.Getenv(programs)
	if dir == "" {
		t.Skipf("%s does not say where prometheus and promtool are: make prometheus-it", programs)
	}
	return filepath.Join(dir, name)
}

// as is the server for a client that can't name its tenant, and the kinds of what it answered.
func (s server) as(t *testing.T, tenant string) (url string, answered func() []string) {
	var mu sync.Mutex
	var kinds []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(access.TenantHeader, tenant)
		s.Config.Handler.ServeHTTP(w, r)
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, w.Header().Get("Content-Type"))
	}))
	t.Cleanup(front.Close)
	return front.URL + "/prometheus", func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, kinds...)
	}
}

// An unmodified Prometheus that has a tenant as its remote_read answers as we do.
func TestRemoteReadByPrometheus(t *testing.T) {
	binary := program(t, "prometheus")
	s := newServer(t, nil)
	s.fill(t)
	ours, answered := s.as(t, "acme")
	theirs := startPrometheus(t, binary, ours+"/api/v1/read")
	for _, text := range []string{
		"temp", `sum by (device) (max_over_time(temp[10m]))`, `rate(temp{device="m1",axis="none"}[5m])`, `{device="m2"}`,
		`count_over_time(running[1h])`,
	} {
		ask := url.Values{"query": {text}, "time": {fmt.Sprint(noon.Unix())}}.Encode()
		require.JSONEq(t, string(get(t, ours+"/api/v1/query?"+ask)), string(get(t, theirs+"/api/v1/query?"+ask)), text)
	}
	const kind = "application/x-protobuf"
	for _, k := range answered() {
		require.Contains(t, []string{kind, "application/json"}, k)
	}
	require.Contains(t, answered(), kind)
}

func TestPromtoolQueries(t *testing.T) {
	binary := program(t, "promtool")
	s := newServer(t, nil)
	s.fill(t)
	ours, _ := s.as(t, "acme")
	for _, c := range []struct {
		asked []string
		want  string
	}{
		{[]string{"instant", "--time=2026-11-20T12:00:00Z", ours, "max by (device) (temp)"},
			"{device=\"m1\"} => 23 @[1795176000]\n{device=\"m2\"} => 30 @[1795176000]\n"},
		{[]string{"range", "--start=1795175880", "--end=1795176000", "--step=1m", ours, `temp{device="m2"}`},
			"temp{device=\"m2\"} =>\n30 @[1795175940]\n30 @[1795176000]\n"},
		{[]string{"series", "--match=running", "--start=1795172400", "--end=1795176000", ours},
			"{__name__=\"running\", device=\"m2\"}\n"},
		{[]string{"labels", "--start=1795172400", "--end=1795176000", ours, "device"}, "m1\nm2\n"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"query"}, c.asked...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, c.want, string(out), c.asked)
	}
}

// startPrometheus runs the program, with nothing of its own, until the test ends.
func startPrometheus(t *testing.T, binary, reads string) (url string) {
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Appendf(nil, "remote_read:\n  - {url: %q, read_recent: true}\n", reads)
	require.NoError(t, os.WriteFile(config, text, 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	var log strings.Builder
	p := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	p.Stdout, p.Stderr = &log, &log
	require.NoError(t, p.Start())
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	for range 600 {
		resp, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				http.DefaultClient.CloseIdleConnections()
				return "http://" + address
			}
		}
		select {
		case err := <-ended:
			ended <- err
			require.Fail(t, "prometheus has ended", log.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	require.Fail(t, "prometheus is not ready")
	return ""
}

// get is the data of an answer.
func get(t *testing.T, url string) json.RawMessage {
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var out response
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
	require.Equal(t, "success", out.Status, out.Error)
	return out.Data
}
