package emulator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// Session tokens of one physical partition never go back, whatever is asked: the sequence number of a
// read is that of the partition, not of the item.
func TestSessionTokens(t *testing.T) {
	dir := t.TempDir()
	s := open(t, emulator.Config{DataDir: dir, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx, pk := context.Background(), key("s", "d")
	last := 0
	follow := func(token string) {
		t.Helper()
		var id, version, lsn int
		_, err := fmt.Sscanf(token, "%d:%d#%d", &id, &version, &lsn)
		require.NoError(t, err, token)
		require.GreaterOrEqual(t, lsn, last, token)
		last = lsn
	}
	for i := range 10 {
		made, err := co.CreateItem(ctx, pk, small(t, fmt.Sprint(i), 1), nil)
		require.NoError(t, err)
		before := last
		follow(*made.SessionToken)
		require.Greater(t, last, before, "a write moves on")
		first, err := co.ReadItem(ctx, pk, "0", nil)
		require.NoError(t, err)
		follow(*first.SessionToken)
		require.Equal(t, *made.SessionToken, *first.SessionToken)
	}
	b := co.NewTransactionalBatch(pk)
	b.UpsertItem(small(t, "0", 2), nil)
	resp, err := co.ExecuteTransactionalBatch(ctx, b, nil)
	require.NoError(t, err)
	follow(resp.SessionToken)
	require.NoError(t, s.Close())

	again := open(t, emulator.Config{DataDir: dir, Unlimited: true})
	db, err := client(t, again).NewDatabase("db")
	require.NoError(t, err)
	co, err = db.NewContainer("chunks")
	require.NoError(t, err)
	got, err := co.ReadItem(ctx, pk, "1", nil)
	require.NoError(t, err)
	follow(*got.SessionToken)
}
