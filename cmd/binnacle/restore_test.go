package main_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// restored is a broker and a store, of which an older copy is restored.
type restored struct {
	t        *testing.T
	dir      string
	kafka    string
	emulator *process
	cosmos   string
}

func (r *restored) open() {
	r.emulator = start(r.t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", filepath.Join(r.dir, "cosmos"))
	r.cosmos = r.emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
}

// serve runs all roles while f publishes and asks, then stops them.
func (r *restored) serve(f func(d *dev), args ...string) {
	r.t.Helper()
	p := start(r.t, append([]string{"serve", "--kafka=" + r.kafka, "--cosmos=" + r.cosmos, "--register",
		"--api=127.0.0.1:0", "--admin=127.0.0.1:0", "--heads-listen=127.0.0.1:0", "--trusted-proxies=127.0.0.1"}, args...)...)
	f(&dev{process: p, kafka: r.kafka, cosmos: r.cosmos, api: p.printed(`(?m)^ +api +http://(\S+)`)})
	p.stop(syscall.SIGTERM)
}

// back puts the store back to a copy.
func (r *restored) back(copied string) {
	r.emulator.stop(syscall.SIGTERM)
	require.NoError(r.t, os.RemoveAll(filepath.Join(r.dir, "cosmos")))
	require.NoError(r.t, os.CopyFS(filepath.Join(r.dir, "cosmos"), os.DirFS(copied)))
	r.open()
}

// A store that was restored to an older state lacks what Kafka still has, and the group has committed it. The audit
// names it and sets the group back: ingesters then store it at its own positions, and nothing is published again. Once
// they have gone on without that, the audit refuses to set the group back.
func TestRestoredStoreIsMendedFromTheLog(t *testing.T) {
	t.Parallel()
	needsFull(t)
	r := &restored{t: t, dir: t.TempDir()}
	broker := start(t, "broker", "--kafka=127.0.0.1:0", "--data-dir", filepath.Join(r.dir, "kafka"), "--partitions=2")
	r.kafka = broker.printed(`(?m)^ +kafka +(\S+)`)
	r.open()
	all := table{}
	publish := func(d *dev, tenant string, rows table) {
		d.publishTable(tenant, rows)
		if tenant == "acme" {
			all = both(all, rows)
		}
		d.answers(tenant, table{}, everything+"&device=none")
	}
	begin := noon()
	rows := func(device string, from, n int64) table {
		out := table{}
		for i := from; i < from+n; i++ {
			out[row{device: device, ts: begin + i*1000}] = map[string]any{"v": float64(i)}
		}
		return out
	}
	r.serve(func(d *dev) { publish(d, "acme", both(rows("m1", 0, 50), rows("m2", 0, 50))) }, "--journal=off")
	r.emulator.stop(syscall.SIGTERM)
	copied := filepath.Join(r.dir, "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(filepath.Join(r.dir, "cosmos"))))
	r.open()
	r.serve(func(d *dev) { publish(d, "acme", both(rows("m1", 50, 50), rows("m3", 0, 50))) }, "--hold=1h")
	r.serve(func(d *dev) { publish(d, "globex", rows("g1", 0, 50)) }, "--journal=off")
	audit := func(args ...string) (int, string) {
		d := &dev{process: &process{t: t}, kafka: r.kafka, cosmos: r.cosmos}
		return d.audit(begin, append([]string{"--log"}, args...)...)
	}
	code, lines := audit()
	require.Zero(t, code, lines)

	r.back(copied)
	code, lines = audit("--set-back")
	require.Equal(t, 1, code)
	require.Contains(t, lines, "lost      acme/m1")
	require.Contains(t, lines, "lost      acme/m3")
	require.Contains(t, lines, "lost      globex/g1")
	require.Regexp(t, `(?m)^set back telemetry/\d +from \d+ to \d+$`, lines)
	records := lines
	r.serve(func(d *dev) {
		d.answers("acme", all, everything)
		d.answers("globex", rows("g1", 0, 50), everything)
	}, "--journal=off")
	code, lines = audit()
	require.Zero(t, code, lines)
	pattern := `(?m)^records of the log +250$`
	require.Regexp(t, pattern, records)
	require.Regexp(t, pattern, lines, "nothing was published again")

	r.back(copied)
	r.serve(func(d *dev) { publish(d, "acme", rows("m1", 100, 10)) }, "--journal=off")
	code, lines = audit("--set-back")
	require.Equal(t, 1, code)
	require.Contains(t, lines, "lost      acme/m1")
	require.NotContains(t, lines, "set back")
}
