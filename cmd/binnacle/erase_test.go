package main_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/ops"
	"binnacle/internal/ops/erase"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// erase runs binnacle tenant erase for acme.
func (d *dev) erase(args ...string) *process {
	d.t.Helper()
	p := run(d.t, time.Minute, append([]string{"tenant", "erase", "acme", "--cosmos", d.cosmos, "--kafka", d.kafka,
		"--confirm=acme"}, args...)...)
	p.clean()
	return p
}

// certificateOverHTTP checks that the certificate of an order is answered once it is cleared, which takes minutes: here
// the test stores that.
func (d *dev) certificateOverHTTP(order string) {
	d.t.Helper()
	ask := func(path string) (status int, body string) {
		res, err := http.Get("http://" + d.admin + "/api/v1/tenants/acme/erasures/" + path)
		require.NoError(d.t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(d.t, err)
		return res.StatusCode, string(text)
	}
	status, body := ask("other/certificate")
	require.Equal(d.t, http.StatusNotFound, status, body)
	status, body = ask(order + "/certificate")
	require.Equal(d.t, http.StatusConflict, status, body)
	require.Contains(d.t, body, "its state is hidden")

	client, err := ops.AccountConfig{Cosmos: d.cosmos}.Connect(slog.New(slog.DiscardHandler))
	require.NoError(d.t, err)
	defer client.Close()
	orders := erasure.NewOrders(client.Documents(), time.Now)
	require.NoError(d.t, orders.EndSweep(d.t.Context(), order, "test", []erasure.Swept{{Chunks: 1, Rows: 50}}))
	require.NoError(d.t, orders.EndClearing(d.t.Context(), order, "test", nil))
	status, body = ask(order + "/certificate")
	require.Equal(d.t, http.StatusOK, status, body)
	c, isSigned, err := erase.DecodeCertificate([]byte(body), nil)
	require.NoError(d.t, err)
	require.False(d.t, isSigned)
	require.Equal(d.t, []string{order, "acme", "m1"}, []string{c.Order, c.Tenant, c.Device})
	require.NotEmpty(d.t, c.Chunks)
	require.NotEmpty(d.t, c.Remains)
}

// What is erased of a device is gone from queries and from chunks, and nothing else is; neither a kill nor the log
// brings it back, and the device reports again as a new one.
func TestEraseOfADevice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=0", "--hold=300ms")
	all := table{}
	begin := noon()
	for i := range int64(50) {
		for _, device := range []string{"m1", "m2"} {
			for _, day := range []int64{0, 1} {
				all[row{device: device, ts: begin - day*telemetry.DayMillis + i*1000}] = map[string]any{"v": float64(i)}
			}
		}
	}
	d.publishTable("acme", all)
	d.answers("acme", all, everything)
	d.stored("acme")
	d.publish(message("acme", row{device: "m1", ts: begin + 60_000}, map[string]any{"v": 60.0}),
		message("acme", row{device: "m2", ts: begin + 60_000}, map[string]any{"v": 60.0}))
	all[row{device: "m1", ts: begin + 60_000}] = map[string]any{"v": 60.0}
	all[row{device: "m2", ts: begin + 60_000}] = map[string]any{"v": 60.0}
	d.answers("acme", all, everything)

	yesterday := time.UnixMilli(begin).UTC().Format(time.DateOnly)
	p := d.erase("--device=m1", "--from", yesterday, "--dry-run", "--json")
	require.Zero(t, p.code, p.stderr.String())
	var plan struct{ Places []struct{ Chunks, Rows int } }
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &plan))
	require.Len(t, plan.Places, 1)
	require.GreaterOrEqual(t, plan.Places[0].Rows, 50)
	d.answers("acme", all, everything)

	p = d.erase("--device=m1", "--from", yesterday, "--json")
	require.Zero(t, p.code, p.stderr.String())
	var given []struct{ ID, State string }
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &given))
	require.Equal(t, "hidden", given[0].State)
	maps.DeleteFunc(all, func(r row, _ map[string]any) bool { return r.device == "m1" && r.ts >= begin })
	soon(t, time.Minute, func() bool {
		got, complete := d.everythingOf("acme")
		return complete && len(got) == len(all)
	}, "the readings are hidden")
	d.answers("acme", all, everything)
	soon(t, time.Minute, func() bool {
		return strings.Contains(d.stderr.String(), "erasure swept from chunks")
	}, "the chunks are swept")

	d.certificateOverHTTP(given[0].ID)

	// Of the device that was erased as a whole the catalog knows nothing any more.
	p = d.erase("--device=m2", "--json")
	require.Zero(t, p.code, p.stderr.String())
	maps.DeleteFunc(all, func(r row, _ map[string]any) bool { return r.device == "m2" })
	soon(t, time.Minute, func() bool {
		got, complete := d.everythingOf("acme")
		return complete && len(got) == len(all) && !strings.Contains(d.body("acme", "/api/v1/devices"), `"m2"`)
	}, "the device is hidden")
	again := row{device: "m2", ts: begin + 5000}
	d.publish(message("acme", again, map[string]any{"w": 7.0}))
	all[again] = map[string]any{"w": 7.0}
	d.answers("acme", all, everything)
	soon(t, time.Minute, func() bool {
		var list struct {
			Devices []struct{ First, Last int64 }
		}
		require.NoError(t, json.Unmarshal([]byte(d.body("acme", "/api/v1/devices?prefix=m2")), &list))
		return len(list.Devices) == 1 && list.Devices[0].First == again.ts && list.Devices[0].Last == again.ts
	}, "it is new")

	// The log is read again from its start, since nothing was journaled of what was not stored.
	d.kill()
	d = startDev(t, dir, "--fleet=0", "--hold=300ms")
	d.answers("acme", all, everything)
	again = row{device: "m1", ts: begin + 5000}
	d.publish(message("acme", again, map[string]any{"v": 7.0}))
	all[again] = map[string]any{"v": 7.0}
	d.answers("acme", all, everything)
	d.stored("acme")
	d.answers("acme", all, everything)
	code, found := d.audit(begin)
	require.Zero(t, code, found)

	p = run(t, time.Minute, "tenant", "erasures", "--cosmos", d.cosmos, "--json")
	require.Contains(t, p.stdout.String(), given[0].ID)
}

// An account that is restored from a backup of before an order has the readings again, until its orders are restored.
func TestOrdersOfRestoredAccount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDev(t, dir, "--fleet=0", "--hold=300ms")
	all := table{{device: "m1", ts: noon()}: {"v": 1.0}, {device: "m2", ts: noon()}: {"v": 2.0}}
	d.publishTable("acme", all)
	d.answers("acme", all, everything)
	d.stored("acme")
	d.stop(syscall.SIGINT)
	backup := t.TempDir()
	require.NoError(t, os.CopyFS(backup, os.DirFS(filepath.Join(dir, "cosmos"))))
	d = startDev(t, dir, "--fleet=0", "--hold=300ms")
	require.Zero(t, d.erase("--device=m1").code)
	left := maps.Clone(all)
	maps.DeleteFunc(left, func(r row, _ map[string]any) bool { return r.device == "m1" })
	hidden := func() bool {
		got, complete := d.everythingOf("acme")
		return complete && len(got) == len(left)
	}
	soon(t, time.Minute, hidden, "the readings are hidden")
	d.stop(syscall.SIGINT)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "cosmos")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "cosmos"), os.DirFS(backup)))

	d = startDev(t, dir, "--fleet=0", "--hold=300ms")
	d.answers("acme", all, everything)
	restore := func(args ...string) string {
		p := run(t, time.Minute, append([]string{"erase", "restore", "--cosmos", d.cosmos, "--kafka", d.kafka}, args...)...)
		require.Zero(t, p.code, p.stderr.String())
		return p.stdout.String()
	}
	require.Contains(t, restore("--dry-run"), "m1")
	d.answers("acme", all, everything)
	require.Contains(t, restore(), "m1")
	soon(t, time.Minute, hidden, "the readings are hidden again")
	d.answers("acme", left, everything)
	require.NotContains(t, restore(), "m1", "the account has the order")
}

// An erasure is refused that is not meant, or that can't be kept.
func TestEraseIsRefused(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0")
	one := table{{device: "m1", ts: noon()}: {"v": 1.0}}
	d.publishTable("acme", one)
	d.answers("acme", one, everything)
	for want, args := range map[string][]string{
		"all devices of acme has published of all days: repeat with --confirm acme": nil,
		"the device m1 of acme has published of the days up to 2026-11-01":          {"--device=m1", "--to=2026-11-02"},
		"nothing is changed":           {"--device=m1", "--confirm=globex"},
		"--to is the day after":        {"--device=m1", "--from=2026-11-02", "--to=2026-11-02"},
		"is neither a day such as":     {"--device=m1", "--from=yesterday"},
		"whole days are erased":        {"--device=m1", "--to=-1d"},
		"describe the consumer group":  {"--device=m1", "--confirm=acme", "--kafka=127.0.0.1:1"},
		"read metadata of the cluster": {"--device=m1", "--dry-run", "--kafka=127.0.0.1:1"},
	} {
		args = append([]string{"tenant", "erase", "acme", "--cosmos", d.cosmos}, args...)
		if !slices.Contains(args, "--kafka=127.0.0.1:1") {
			args = append(args, "--kafka="+d.kafka)
		}
		p := run(t, time.Minute, args...)
		require.NotZero(t, p.code, want)
		require.Contains(t, p.stderr.String(), want)
	}
	d.answers("acme", one, everything)
}
