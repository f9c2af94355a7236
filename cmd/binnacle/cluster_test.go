package main_test

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dev is a running `binnacle dev` and where it listens.
type dev struct {
	*process
	kafka, cosmos, api, admin string // host:port
}

// startDev runs dev on free ports and a directory, and returns when it is ready, which it must be within 10 seconds.
func startDev(t *testing.T, dataDir string, args ...string) *dev {
	t.Helper()
	d := launchDev(t, dataDir, args...)
	d.becomesReady()
	return d
}

// launchDev runs dev and returns when it has printed where it listens.
func launchDev(t *testing.T, dataDir string, args ...string) *dev {
	t.Helper()
	ports := []string{"dev", "--kafka=127.0.0.1:0", "--cosmos=127.0.0.1:0", "--api=127.0.0.1:0", "--admin=127.0.0.1:0",
		"--data-dir", dataDir}
	at := 0 // behind the environment
	for at < len(args) && envVar.MatchString(args[at]) {
		at++
	}
	d := &dev{process: start(t, slices.Concat(args[:at], ports, args[at:])...)}
	d.listensAt()
	return d
}

// listensAt waits until dev has printed where it listens.
func (d *dev) listensAt() {
	d.t.Helper()
	d.kafka = d.printed(`(?m)^ +kafka +(\S+)`)
	d.cosmos = d.printed(`(?m)^ +cosmos +http://([^/\s]+)`)
	d.api = d.printed(`(?m)^ +api +http://([^/\s]+)`)
	d.admin = d.printed(`(?m)^ +admin +http://([^/\s]+)`)
	d.printed(`(Ctrl-C)`) // the end of what is printed
}

var envVar = regexp.MustCompile(`^BINNACLE_[A-Z_]+=`)

// printed waits for a pattern on stdout, and returns its first group.
func (p *process) printed(pattern string) (found string) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	soon(p.t, time.Minute, func() bool {
		m := re.FindStringSubmatch(p.stdout.String())
		if m == nil {
			select {
			case <-p.ended:
				require.FailNow(p.t, "binnacle has ended", p.stderr.String())
			default:
			}
			return false
		}
		found = m[1]
		return true
	}, "%s on stdout", pattern)
	return found
}

// becomesReady waits for readiness, which must come within 10 seconds of the start.
func (d *dev) becomesReady() {
	d.t.Helper()
	soon(d.t, time.Until(d.started.Add(time.Minute)), d.ready, "/readyz is 200")
	require.Regexp(d.t, `(?m)^curl `, d.stdout.String(), "stdout says where everything is before it is ready")
}

func (d *dev) ready() bool {
	resp, err := http.Get("http://" + d.admin + "/readyz")
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
