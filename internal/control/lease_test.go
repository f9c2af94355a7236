package control_test

import (
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/control/controltest"

	"github.com/stretchr/testify/require"
)

func TestLeaseHasOneHolder(t *testing.T) {
	docs := controltest.NewDocuments(t)
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
