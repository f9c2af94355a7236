package main_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// storeHour stores an hour of two metrics of a device, as an ingester would have.
func storeHour(t *testing.T, cosmosAt string, day telemetry.Day, device string) {
	client, err := cosmos.New(cosmos.Config{Endpoint: "http://" + cosmosAt, Credential: cosmos.FixedKey(emulator.Key)})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.EnsureBase(t.Context()))
	directory := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()})
	view, err := directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	tenant, ok := view.Tenant("acme")
	require.True(t, ok)
	key := tenant.Placement.Key(device, day, 0)
	for _, name := range []string{key.Container, sharding.RollupsContainer(key.Container)} {
		require.NoError(t, client.Containers().Create(t.Context(), name, store.Throughput{RUs: 400}))
	}
	require.NoError(t, directory.AskMonth(t.Context(), key.Container, ""))
	g := chunk.Group{Columns: []chunk.Column{{Metric: "km_total", Kind: telemetry.Int},
		{Metric: "velocity", Kind: telemetry.Float}}}
	for i := range 360 {
		g.Times = append(g.Times, day.Start()+int64(i)*10_000)
		g.Columns[0].Bits = append(g.Columns[0].Bits, telemetry.IntValue(int64(i)).Bits())
		g.Columns[1].Bits = append(g.Columns[1].Bits, telemetry.FloatValue(float64(i%90)/10).Bits())
	}
	h := chunk.Header{ID: chunk.ID{Day: day, Stream: 1}, TenantShard: key.TenantShard, Device: device, Readings: 360,
		Through: 359, After: -1}
	doc, err := chunk.Encode(h, chunk.Frame{Groups: []chunk.Group{g}})
	require.NoError(t, err)
	_, err = client.Chunks().Create(t.Context(), key, h.ID.String(), doc)
	require.NoError(t, err)
}

// The role makes rollups of days with chunks by itself; operators list, drop and rebuild them, all or those
// days that lack a metric.
func TestRollups(t *testing.T) {
	t.Parallel()
	var ago atomic.Int64 // how far the store's clock is behind: chunks of just now are not built
	ago.Store(int64(time.Hour))
	emulated, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true,
		Now: func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) }})
	require.NoError(t, err)
	server := httptest.NewServer(emulated)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, emulated.Close())
	})
	cosmosAt := strings.TrimPrefix(server.URL, "http://")
	day := telemetry.DayOf(time.Now().UnixMilli()) - 3
	storeHour(t, cosmosAt, day, "truck-1")
	ago.Store(0)
	date := time.UnixMilli(day.Start()).UTC().Format(time.DateOnly)
	at := []string{"--cosmos=" + cosmosAt, "--tenant=acme", "--from=" + date, "--to=" + date}
	command := func(args ...string) string {
		p := run(t, time.Minute, append(append([]string{"rollups"}, args...), at...)...)
		require.Zero(t, p.code, p.stderr.String())
		return p.stdout.String()
	}
	row := func(metric, families string) *regexp.Regexp { // a manifest's rollups: documents, KB, RU, asOf
		return regexp.MustCompile(`(?m)^acme\S* +\d+ +` + metric + ` +` + families + `( +\d+){5} +20\S+Z +\d+ +\d+$`)
	}
	require.NotRegexp(t, row("velocity", `\S+`), command("list"))

	role := start(t, "rollups", "--cosmos="+cosmosAt, "--admin=127.0.0.1:0", "--rollup-hold=30m", "--rollup-every=100ms",
		"--rollup-metrics=1")
	admin := role.printed(`(?m)^ +admin +http://(\S+)`)
	soon(t, time.Minute, func() bool { return row("km_total", "LFSM").MatchString(command("list")) },
		"the day has rollups")
	require.Regexp(t, row("velocity", "none"), command("list"), "one metric may have rollups")
	require.NotZero(t, scraped(admin)["binnacle_rollups_request_units_total"])
	role.stop(syscall.SIGTERM)
	require.Zero(t, role.code)

	again := []string{"rebuild", "--rollup-hold=30m", "--rollup-metrics=2", "--metric=velocity"}
	require.Regexp(t, `(?m)^acme\S* +\d+ +24 `, command(again...))
	list := command("list")
	require.Regexp(t, row("km_total", "LFSM"), list)
	require.Regexp(t, row("velocity", "LFSM"), list)
	require.NotContains(t, command(again...), "acme", "no day lacks the metric")
	require.Contains(t, command("drop", "--dry-run"), "This drops rollups from "+date)
	require.Contains(t, command("list"), "acme")
	require.Contains(t, command("drop", "--confirm=acme"), "acme")
	require.NotContains(t, command("list"), "acme")
}
