package main_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// What the compose file runs are subcommands of ours, with flags that they have, and all roles are there.
func TestComposeRunsWhatThereIs(t *testing.T) {
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
		p := run(t, 30*time.Second, append(s.Command, "--print-config")...)
		require.Zero(t, p.code, "%s: %s", name, p.stderr.String())
	}
	require.Equal(t, map[string]bool{"emulator": true, "provision": true, "ingest": true, "query": true}, roles)
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
	soon(t, 30*time.Second, func() bool {
		_, body := get("/metrics")
		return sold.MatchString(body)
	}, "the throughput of this month's container is told")
	status, _ := get("/readyz")
	require.Equal(t, http.StatusOK, status)
	p.stop(syscall.SIGTERM)
}
