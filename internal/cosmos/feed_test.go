package cosmos_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// A mark goes on across a split of the container.
func TestFeedSurvivesSplit(t *testing.T) {
	server, c := openEmulator(t, emulator.Config{Unlimited: true}, nil)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: c.Documents(), Feed: c.Feed()})
	for i := range 6 {
		other := control.NewDirectory(control.DirectoryConfig{Documents: c.Documents()})
		tenant := fmt.Sprintf("t%d", i)
		_, err := other.Register(t.Context(), tenant)
		require.NoError(t, err)
		require.NoError(t, other.AskMonth(t.Context(), fmt.Sprintf("chunks-2026-0%d", i+1), ""))
		if i%2 == 1 {
			parts, err := server.Partitions(store.Database, store.ControlContainer)
			require.NoError(t, err)
			require.NoError(t, server.Split(store.Database, store.ControlContainer, parts[len(parts)-1].ID))
		}
		v, err := dir.Refresh(t.Context())
		require.NoError(t, err)
		require.Len(t, v.Tenants(), i+1)
		require.Len(t, v.Containers(), i+1)
	}
}

// What it costs to know the snapshot of tenants, modelled: a look at the feed costs the same however many tenants there
// are, and a change what its document does. docs/reference/cost.md has the figures.
func TestFeedCost(t *testing.T) {
	for _, c := range []struct {
		tenants         int
		all, idle, news float64 // RU of reading everything, of a look without news, and of one with a new tenant
	}{
		{1, 16.82, 1, 2}, {100, 18.24, 1, 2}, {2000, 45.52, 1, 2},
	} {
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		_, client := openEmulator(t, emulator.Config{Unlimited: true, Now: func() time.Time { return now }}, nil)
		registry := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()})
		follower := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Feed: client.Feed(),
			Now: func() time.Time { return now }})
		register := func(i int) {
			_, err := client.Documents().Create(t.Context(), store.Document{Kind: tenant.Kind,
				ID: fmt.Sprintf("tenant-%04d", i), Body: []byte(fmt.Sprintf(
					`{"created":1795183200000,"retentionSeconds":0,"epoch":{"from":0,"slots":[7,71,135,%d]}}`, 199+i%50))})
			require.NoError(t, err)
		}
		for i := range c.tenants {
			register(i)
		}
		now = now.Add(time.Hour)
		cost := func(d *control.Directory) float64 {
			meter := &store.Meter{}
			v, err := d.Refresh(store.WithMeter(t.Context(), meter))
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(v.Tenants()), c.tenants)
			return meter.Read().RUs
		}
		all := cost(registry)
		cost(follower)
		cost(follower) // the first look
		idle := cost(follower)
		register(c.tenants)
		news := cost(follower)
		t.Logf("%d tenants: everything %.2f RU, a look %.2f RU, a look with a new tenant %.2f RU", c.tenants, all, idle, news)
		require.InDelta(t, c.all, all, 0.1)
		require.InDelta(t, c.idle, idle, 0.1)
		require.InDelta(t, c.news, news, 0.1)
	}
}
