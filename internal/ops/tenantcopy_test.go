package ops_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/stream"

	"github.com/stretchr/testify/require"
)

// copyAccount is an account at an address, with a tenant's container.
func copyAccount(t *testing.T, now time.Time) (client *cosmos.Client, addr string) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	at := httptest.NewServer(server)
	t.Cleanup(func() {
		at.Close()
		require.NoError(t, server.Close())
	})
	client, err = ops.AccountConfig{Cosmos: at.URL}.Connect(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureBase(t.Context()))
	require.NoError(t, client.Containers().Create(t.Context(), now.Format("chunks-2006-01"), store.Throughput{RUs: 4000}))
	return client, at.URL
}

// A dry run to an account without a database says what would be copied, and what is missing; a copy is refused at once.
func TestCopyTenantToEmptyAccount(t *testing.T) {
	from, fromAddr := copyAccount(t, time.Now().UTC())
	_, err := control.NewDirectory(control.DirectoryConfig{Documents: from.Documents()}).Register(t.Context(), "acme")
	require.NoError(t, err)
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	empty := httptest.NewServer(server)
	t.Cleanup(func() {
		empty.Close()
		require.NoError(t, server.Close())
	})
	run := func(from, to string, dry bool) (out, log bytes.Buffer, err error) {
		cfg := ops.CopyConfig{Tenant: "acme", Account: ops.AccountConfig{Cosmos: from},
			Target: ops.AccountConfig{Cosmos: to}, RUs: 1e6, DryRun: dry}
		err = cfg.Run(t.Context(), ops.Env{Stdout: &out, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		return out, log, err
	}
	out, log, err := run(fromAddr, empty.URL, true)
	require.NoError(t, err)
	require.Contains(t, out.String(), "would be copied: 0 of 0 chunks")
	require.Contains(t, log.String(), "the target has no database of Binnacle")
	_, _, err = run(fromAddr, empty.URL, false)
	require.ErrorContains(t, err, "provision")
	_, _, err = run(empty.URL, fromAddr, true)
	require.ErrorContains(t, err, "the source "+empty.URL+" has no database of Binnacle")
}

// A tenant is copied between two accounts, through the true adapter, and both know of it. An account is not copied to
// itself.
func TestCopyTenant(t *testing.T) {
	now := time.Now().UTC()
	from, fromAddr := copyAccount(t, now)
	to, toAddr := copyAccount(t, now)
	streams := stream.NewStreams(from.Documents())
	stream, err := streams.Find(t.Context(), "c1", "telemetry", 1)
	require.NoError(t, err)
	local := ingest.NewLocal(ingest.Config{Config: worker.Config{Register: true, Hold: time.Millisecond},
		Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)},
		ingest.Stores{Chunks: from.Chunks(), Catalog: from.Catalog(), Streams: streams,
			DeadLetters: struct{ ingest.DeadLetterWriter }{},
			Directory:   control.NewDirectory(control.DirectoryConfig{Documents: from.Documents()})},
		worker.Assignment{Stream: stream.Number})
	for i := range 40 {
		value := fmt.Appendf(nil, `{"tenant":"acme","device":"truck-%d","ts":%d,"values":{"v":%d.5,"state":"<on>"}}`, i%3,
			now.UnixMilli(), i)
		require.NoError(t, local.Take(t.Context(), admit.Record{Offset: int64(i), Time: now.UnixMilli(), Value: value}))
		if i%10 == 9 {
			now = now.Add(time.Second)
			require.NoError(t, local.Step(t.Context()))
		}
	}
	copyTenant := func(change func(*ops.CopyConfig)) (out struct {
		Copied, Chunks, Devices int
		Equal                   bool
	}, err error) {
		cfg := ops.CopyConfig{Tenant: "acme", Account: ops.AccountConfig{Cosmos: fromAddr},
			Target: ops.AccountConfig{Cosmos: toAddr}, RUs: 1e6, JSON: true,
			Settle: time.Nanosecond}
		if change != nil {
			change(&cfg)
		}
		var text bytes.Buffer
		err = cfg.Run(t.Context(), ops.Env{Stdout: &text, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			require.NoError(t, json.Unmarshal(text.Bytes(), &out))
		}
		return out, err
	}
	planned, err := copyTenant(func(c *ops.CopyConfig) { c.DryRun = true })
	require.NoError(t, err)
	require.Positive(t, planned.Copied)
	first, err := copyTenant(nil)
	require.NoError(t, err)
	require.Equal(t, []any{planned.Copied, planned.Chunks, 3, true}, []any{first.Copied, first.Chunks, first.Devices,
		first.Equal})
	again, err := copyTenant(nil)
	require.NoError(t, err)
	require.Zero(t, again.Copied)
	require.True(t, again.Equal)
	_, err = copyTenant(func(c *ops.CopyConfig) { c.Target.Cosmos = fromAddr + "/" })
	require.ErrorContains(t, err, "another address of the source")
	for _, client := range []*cosmos.Client{from, to} {
		all, err := control.NewActions(client.Documents(), "", nil, time.Now).List(t.Context(), time.Time{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(all), 2)
		for _, a := range all[:2] {
			require.Equal(t, []string{"tenant copy", "acme", control.OutcomeDone}, []string{a.Verb, a.Tenant, a.Outcome})
		}
	}
}
