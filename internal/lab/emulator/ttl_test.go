package emulator_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// stored is how many items a container holds, expired or not.
func stored(t testing.TB, s *emulator.Server, container string) (items, bytes int64) {
	t.Helper()
	parts, err := s.Partitions("db", container)
	require.NoError(t, err)
	for _, p := range parts {
		items += p.Items
		bytes += p.Bytes
	}
	return items, bytes
}

func TestTimeToLive(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 3, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	put := func(id string, ttl int) {
		body := encode(t, chunk{ID: id, TenantShard: "s", Device: "d", TTL: ttl})
		_, err := co.UpsertItem(ctx, key("s", "d"), body, nil)
		require.NoError(t, err)
	}
	visible := func() []string {
		rows, _, _ := query(t, co, key("s", "d"), `SELECT VALUE c.id FROM c ORDER BY c.id`, 0)
		all, _, _ := query(t, co, azcosmos.NewPartitionKey(), `SELECT VALUE c.id FROM c`, 0)
		require.ElementsMatch(t, rows, all)
		return rows
	}
	put("forever", 0)
	put("hour", 3600)
	put("minute", 60)
	put("never", -1)
	require.Len(t, visible(), 4)

	now.advance(59 * time.Second)
	put("hour", 3600) // every write restarts the clock
	require.Len(t, visible(), 4)
	now.advance(time.Second)
	require.Equal(t, []string{`"forever"`, `"hour"`, `"never"`}, visible())
	_, err := co.ReadItem(ctx, key("s", "d"), "minute", nil)
	require.Equal(t, 404, code(err))
	_, err = co.DeleteItem(ctx, key("s", "d"), "minute", nil)
	require.Equal(t, 404, code(err))
	items, _ := stored(t, s, "chunks")
	require.EqualValues(t, 4, items, "expired items stay until they are removed")

	removed, err := s.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	items, _ = stored(t, s, "chunks")
	require.EqualValues(t, 3, items)

	now.advance(59*time.Minute + 58*time.Second)
	require.Len(t, visible(), 3)
	now.advance(2 * time.Second)
	require.Len(t, visible(), 2)
	put("hour", 0) // an expired item does not stand in the way
	now.advance(31 * 24 * time.Hour)
	require.Len(t, visible(), 3)
}

func TestSweepRemovesManyAndChargesNothing(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, PhysicalPartitions: 5, Unlimited: true})
	co := create(t, client(t, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	for i := range 600 {
		shard := fmt.Sprint("s", i%7)
		c := chunk{ID: fmt.Sprint(i), TenantShard: shard, Device: "d", TTL: 10 + 10*(i%2)}
		_, err := co.CreateItem(ctx, key(shard, "d"), encode(t, c), nil)
		require.NoError(t, err)
	}
	s.ResetStats()
	for _, want := range []int{0, 300, 300, 0} {
		removed, err := s.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, want, removed)
		now.advance(10 * time.Second)
	}
	items, bytes := stored(t, s, "chunks")
	require.Zero(t, items)
	require.Zero(t, bytes)
	parts, err := s.Partitions("db", "chunks")
	require.NoError(t, err)
	for _, p := range parts {
		require.Zero(t, p.RUs)
	}
}

func TestDefaultTimeToLive(t *testing.T) {
	now := newClock()
	s := open(t, emulator.Config{Now: now.now, Unlimited: true})
	c := client(t, s)
	ctx := context.Background()
	pk := key("s", "d")
	for i, x := range []struct {
		container *int32
		item      int
		lives     bool
	}{
		{nil, 0, true}, {nil, 1, true}, // off: the item's own is ignored
		{ptr(-1), 0, true}, {ptr(-1), 1, false}, {ptr(-1), -1, true},
		{ptr(1), 0, false}, {ptr(1), -1, true}, {ptr(1), 60, true}, {ptr(60), 1, false},
	} {
		props := hierarchical(fmt.Sprint("c", i))
		props.DefaultTimeToLive = x.container
		co := create(t, c, props, 400)
		_, err := co.CreateItem(ctx, pk, encode(t, chunk{ID: "a", TenantShard: "s", Device: "d", TTL: x.item}), nil)
		require.NoError(t, err)
		now.advance(2 * time.Second)
		_, err = co.ReadItem(ctx, pk, "a", nil)
		require.Equal(t, !x.lives, code(err) == 404, "%+v", x)
	}

	// A new default applies to the items that are there, and back.
	props := hierarchical("changing")
	props.DefaultTimeToLive = ptr(-1)
	co := create(t, c, props, 400)
	_, err := co.CreateItem(ctx, pk, encode(t, chunk{ID: "a", TenantShard: "s", Device: "d"}), nil)
	require.NoError(t, err)
	_, err = s.Sweep(ctx)
	require.NoError(t, err)
	now.advance(time.Minute)
	props.DefaultTimeToLive = ptr(30)
	_, err = co.Replace(ctx, props, nil)
	require.NoError(t, err)
	_, err = co.ReadItem(ctx, pk, "a", nil)
	require.Equal(t, 404, code(err))
	_, err = s.Sweep(ctx)
	require.NoError(t, err)
	items, _ := stored(t, s, "changing")
	require.Zero(t, items)
}

func ptr(v int32) *int32 { return &v }

func TestRunSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true, SweepEvery: time.Minute})
		require.NoError(t, err)
		co := create(t, client(t, s), hierarchical("chunks"), 400)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		_, err = co.CreateItem(ctx, key("s", "d"), encode(t, chunk{ID: "a", TenantShard: "s", Device: "d", TTL: 90}), nil)
		require.NoError(t, err)
		time.Sleep(61 * time.Second)
		items, _ := stored(t, s, "chunks")
		require.EqualValues(t, 1, items)
		time.Sleep(60 * time.Second)
		items, _ = stored(t, s, "chunks")
		require.Zero(t, items)
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, s.Close())
	})
}
