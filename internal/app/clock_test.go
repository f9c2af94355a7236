package app_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/internal/app"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// accountAt is an account at an address, by a clock that is ahead of the machine's.
func accountAt(t *testing.T, ahead time.Duration) (client *cosmos.Client, addr string) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true,
		Now: func() time.Time { return time.Now().Add(ahead) }})
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
	return client, at.URL
}

// Commands that decide what cannot be undone end with an error that names both times, and change nothing, while the
// clocks of this machine and of an account differ.
func TestCommandsByAWrongClock(t *testing.T) {
	right, rightAddr := accountAt(t, 0)
	keep := "30d"
	for _, ahead := range []time.Duration{-400 * 24 * time.Hour, 5 * time.Hour} {
		client, addr := accountAt(t, ahead)
		at := ops.AccountConfig{Cosmos: addr}
		for _, c := range []*cosmos.Client{client, right} {
			_, err := control.NewDirectory(control.DirectoryConfig{Documents: c.Documents()}).Register(t.Context(), "acme")
			require.NoError(t, err)
		}
		before, err := client.Containers().List(t.Context())
		require.NoError(t, err)
		for what, run := range map[string]func(context.Context, ops.Env) error{
			"provision": app.ProvisionConfig{Account: at, Policy: app.PolicyConfig{HotRUs: 4000, WarmRUs: 1000,
				ColdRUs: 400, ErasureRUs: 1}, Shape: app.ShapeConfig{SharedRUs: 400}, Once: true}.Run,
			"retention": ops.OnAccount[ops.SetTenant]{Account: at, Config: ops.SetTenant{Tenant: "acme", Retention: &keep,
				Confirmation: ops.Confirmation{Confirm: "acme"}}}.Run,
			"rollups drop": ops.OnAccount[ops.DropRollups]{Account: at, Config: ops.DropRollups{
				Confirmation: ops.Confirmation{Confirm: "all"}}}.Run,
			"copy from": ops.CopyConfig{Tenant: "acme", Account: at, Target: ops.AccountConfig{Cosmos: rightAddr},
				RUs: 400}.Run,
			"copy to": ops.CopyConfig{Tenant: "acme", Account: ops.AccountConfig{Cosmos: rightAddr}, Target: at,
				RUs: 400}.Run,
		} {
			err := run(t.Context(), ops.Env{Stdout: &bytes.Buffer{}, Logger: slog.New(slog.DiscardHandler)})
			var wrong *store.ClockError
			require.ErrorAs(t, err, &wrong, what)
			require.ErrorContains(t, err, wrong.Own.UTC().Format(time.RFC3339))
			require.ErrorContains(t, err, wrong.Service.UTC().Format(time.RFC3339))
			require.InDelta(t, ahead.Seconds(), wrong.Service.Sub(wrong.Own).Seconds(), 2, what)
		}
		after, err := client.Containers().List(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, before, after)
		v, err := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()}).Refresh(t.Context())
		require.NoError(t, err)
		require.Empty(t, v.Containers())
	}
}
