package main_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// What the compose file runs are subcommands of ours, with flags that they have, and all roles are there.
func TestComposeUsesExistingCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/compose/compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image   string
			Command []string
			Secrets []string
		}
		Secrets map[string]any
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	roles := map[string]bool{}
	for name, s := range file.Services {
		for _, secret := range s.Secrets {
			require.Contains(t, file.Secrets, secret, name)
		}
		if s.Image != "binnacle:local" {
			continue
		}
		roles[s.Command[0]] = true
		p := run(t, time.Minute, append(s.Command, "--print-config")...)
		require.Zero(t, p.code, "%s: %s", name, p.stderr.String())
	}
	require.Equal(t, map[string]bool{"emulator": true, "provision": true, "ingest": true, "query": true,
		"rollups": true}, roles)
}

// The chart gives each role a file that it takes, whatever the values are. Package check/deploy holds that the golden
// files are what the chart makes.
func TestChartSettingsAreFlags(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/check/golden/*.yaml")
	require.NoError(t, err)
	require.Greater(t, len(files), 4)
	for _, name := range files {
		golden, err := os.Open(name)
		require.NoError(t, err)
		roles := 0
		for manifests := yaml.NewDecoder(golden); ; {
			var m map[string]any
			err := manifests.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			data, ok := m["data"].(map[string]any)
			if m["kind"] != "ConfigMap" || !ok || data["binnacle.yaml"] == nil {
				continue
			}
			roles++
			text, err := yaml.Marshal(data["binnacle.yaml"])
			require.NoError(t, err)
			role, _, _ := strings.Cut(string(text), ":")
			settings := file(t, "binnacle.yaml", string(text))
			code, stdout, stderr := inProcess(t, role, "--config", settings, "--print-config")
			require.Zero(t, code, "%s, %s: %s", name, role, stderr)
			require.Regexp(t, "(?m)^"+role+":\n", stdout)
			require.Contains(t, stdout, "0.0.0.0:7071")
		}
		require.NoError(t, golden.Close())
		require.Equal(t, 4, roles, name)
	}
}

// A provision that runs on says of itself what the others do, with what it has provisioned.
func TestProvisionShowsItsMetrics(t *testing.T) {
	t.Parallel()
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", t.TempDir())
	addr := emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	p := start(t, "provision", "--cosmos", addr, "--admin=127.0.0.1:0")
	at := p.printed(`(?m)^ +admin +(\S+)`)
	get := func(path string) (int, string) {
		resp, err := http.Get(at + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	sold := regexp.MustCompile(`(?m)^binnacle_provision_request_units_per_second\{tier="hot"\} [1-9]`)
	soon(t, time.Minute, func() bool {
		_, body := get("/metrics")
		return sold.MatchString(body)
	}, "the throughput of this month's container is shown")
	status, _ := get("/readyz")
	require.Equal(t, http.StatusOK, status)
	p.stop(syscall.SIGTERM)
}
