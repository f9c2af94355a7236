package control_test

import (
	"errors"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func TestLeaseHasOneHolder(t *testing.T) {
	docs := storetest.NewDocuments(t)
	now := time.Unix(1_795_176_000, 0)
	clock := func() time.Time { return now }
	a, b := control.NewLeases(docs, "a", clock), control.NewLeases(docs, "b", clock)
	take := func(l *control.Leases, want bool) {
		t.Helper()
		held, err := l.Take(t.Context(), "rollups.acme~cg", time.Minute)
		require.NoError(t, err)
		require.Equal(t, want, held)
	}
	take(a, true)
	take(b, false)
	now = now.Add(50 * time.Second)
	take(a, true)
	now = now.Add(50 * time.Second)
	take(b, false)
	now = now.Add(10 * time.Second)
	take(b, true)
	take(a, false)
	held, err := a.Take(t.Context(), "rollups.acme~4r", time.Minute)
	require.NoError(t, err)
	require.True(t, held, "another lease")
}

// A lease of a process whose clock was a year ahead ends like any other, after it was seen for so long.
func TestLeaseOfWrongClockEnds(t *testing.T) {
	docs := storetest.NewDocuments(t)
	now := time.Unix(1_795_176_000, 0)
	wrong := control.NewLeases(docs, "wrong", func() time.Time { return now.AddDate(1, 0, 0) })
	right := control.NewLeases(docs, "right", func() time.Time { return now })
	held, err := wrong.Take(t.Context(), "provision", time.Minute)
	require.NoError(t, err)
	require.True(t, held)
	for n := range 4 {
		if n == 2 { // it is alive
			held, err = wrong.Take(t.Context(), "provision", time.Minute)
			require.NoError(t, err)
			require.True(t, held)
		}
		held, err = right.Take(t.Context(), "provision", time.Minute)
		require.NoError(t, err)
		require.False(t, held)
		now = now.Add(30 * time.Second)
	}
	held, err = right.Take(t.Context(), "provision", time.Minute)
	require.NoError(t, err)
	require.True(t, held)
}

// By a wrong clock nothing is decided that cannot be undone.
func TestWrongClockDecidesNothing(t *testing.T) {
	docs, ctx := storetest.NewDocuments(t), t.Context()
	var wrong error
	now := func() time.Time { return noon }
	check := func() error { return wrong }
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: now, Check: check})
	_, err := d.Register(ctx, "acme")
	require.NoError(t, err)
	require.NoError(t, d.AskMonth(ctx, "chunks-2026-11", ""))
	orders := erasure.NewOrders(docs, now).OnlyWhile(check)
	leases := control.NewLeases(docs, "a", now).OnlyWhile(check)

	wrong = errors.New("the clock is wrong")
	docs.Fault = func(op, kind, _ string) *storetest.Fault {
		require.Contains(t, []string{storetest.OpRead, storetest.OpList}, op, kind)
		return nil
	}
	day := telemetry.DayOf(noon.UnixMilli())
	for what, decide := range map[string]func() error{
		"epoch": func() error {
			return d.AddEpoch(ctx, "acme", sharding.Epoch{From: day + 2, Slots: sharding.FirstEpoch("acme", 2).Slots})
		},
		"period": func() error { return d.SetPeriod(ctx, sharding.PeriodEpoch{Period: sharding.Week}) },
		"month": func() error {
			_, err := d.Mark(ctx, d.Snapshot().Month("chunks-2026-11"), control.MonthExpired)
			return err
		},
		"erasure": func() error {
			_, err := orders.Announce(ctx, erasure.Order{Tenant: "acme", From: day - 1, To: day})
			return err
		},
		"lease": func() error { _, err := leases.Take(ctx, "provision", time.Minute); return err },
	} {
		require.ErrorIs(t, decide(), wrong, what)
	}
	_, err = d.Refresh(ctx)
	require.NoError(t, err, "reading goes on")
}
