package erase_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"

	"github.com/stretchr/testify/require"
)

// cluster is erase.Log, with the ends of its topics.
type cluster map[string]map[int32]int64

func (cluster) ClusterID(context.Context) (string, error) { return "c1", nil }

func (c cluster) LogEnds(_ context.Context, topic string) (map[int32]int64, error) {
	return c[topic], nil
}

// An order covers each log up to its end, and all of the logs that are gone: of topics, of partitions that are read as
// another stream by now, and of clusters that the operator names.
func TestPositionsOfStreams(t *testing.T) {
	docs := storetest.NewDocuments(t)
	streams, ctx := stream.NewStreams(docs), t.Context()
	first, err := streams.Find(ctx, "c1", "telemetry", 2)
	require.NoError(t, err)
	gone, err := streams.Find(ctx, "c1", "old", 2)
	require.NoError(t, err)
	second, err := streams.Next(ctx, first, 2)
	require.NoError(t, err)
	for _, m := range []struct {
		stream    uint32
		partition int32
	}{{first.Number, 0}, {first.Number, 1}, {second.Number, 1}} { // partition 1 is read as the second
		require.NoError(t, streams.Advance(ctx, m.stream, m.partition, stream.Mark{Offset: 3}))
	}
	log := cluster{"telemetry": {0: 10, 1: 20}}
	all := int64(1<<53 - 1)
	want := []erasure.Position{
		{Stream: second.Number, Partition: 0, Through: 9}, {Stream: second.Number, Partition: 1, Through: 19},
		{Stream: first.Number, Partition: 0, Through: 9}, {Stream: first.Number, Partition: 1, Through: all},
		{Stream: gone.Number, Partition: erasure.EveryPartition, Through: all},
	}
	got, err := erase.Positions(ctx, streams, log)
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
	o := (&erasure.Order{}).Acknowledged(got)
	require.EqualValues(t, all, o.Through(gone.Number, 7))
	_, known := o.Position(erasure.Partition{Stream: first.Number, Partition: 2})
	require.False(t, known, "a partition that the topic gets later")

	other, err := streams.Find(ctx, "c2", "telemetry", 2)
	require.NoError(t, err)
	_, err = erase.Positions(ctx, streams, log)
	require.ErrorContains(t, err, "--gone-cluster c2")
	got, err = erase.Positions(ctx, streams, log, "c2")
	require.NoError(t, err)
	require.ElementsMatch(t,
		append(want, erasure.Position{Stream: other.Number, Partition: erasure.EveryPartition, Through: all}), got)
}

// timed is a cluster that notes when it was asked.
type timed struct {
	cluster
	asked *time.Time
}

func (c timed) LogEnds(ctx context.Context, topic string) (map[int32]int64, error) {
	*c.asked = time.Now()
	return c.cluster.LogEnds(ctx, topic)
}

// Until each replica shows the announcement a worker may cut under orders that lack it: the positions lie above that.
func TestPositionsAwaitReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, asked := storetest.NewDocuments(t), time.Time{}
		streams := stream.NewStreams(docs)
		_, err := streams.Find(t.Context(), "c1", "telemetry", 1)
		require.NoError(t, err)
		g := erase.Giver{Orders: erasure.NewOrders(docs, time.Now), Streams: streams, Log: timed{cluster{}, &asked},
			Keep: func(context.Context, *erasure.Order) error { return nil }, Logger: slog.New(slog.DiscardHandler)}
		announced := time.Now()
		_, err = g.Give(t.Context(), erasure.Order{Tenant: "acme", Device: "d", From: 20_000, To: 20_001, By: "test"})
		require.NoError(t, err)
		require.GreaterOrEqual(t, asked.Sub(announced), 3*time.Second)
	})
}

// The catalog has forgotten the devices of an order about all days exactly if the order holds: whatever fails, however
// long a step takes, and wherever the command dies, whose order is void then or is acknowledged for it.
func TestWhatAVoidOrderNamesStaysInTheCatalog(t *testing.T) {
	type given struct {
		*world
		pages *storetest.Catalog
		round func() // makes a round of a sweeper once a minute is over
		die   func()
	}
	nothing := func(*given) error { return nil }
	storetest.NewCatalog(t).AddPage("acme") // the encoder of pages is made for all, once: in no bubble
	for name, c := range map[string]struct {
		keep, forget func(*given) error
		holds        bool
	}{
		"nothing fails":       {nothing, nothing, true},
		"it can't be kept":    {func(*given) error { return errors.New("no broker") }, nothing, false},
		"it is kept late":     {func(g *given) error { g.round(); return nil }, nothing, false},
		"it is kept at last":  {func(g *given) error { g.die(); return nil }, nothing, false},
		"the catalog is slow": {nothing, func(g *given) error { g.round(); return nil }, true},
		"the catalog fails": {nothing, func(g *given) error {
			g.pages.Fault = nil
			return errors.New("busy")
		}, true},
		"the catalog is not asked":       {nothing, func(g *given) error { g.die(); return errors.New("dead") }, true},
		"the catalog has just forgotten": {nothing, func(g *given) error { g.die(); return nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := given{world: newWorld(t), pages: storetest.NewCatalog(t)}
				g.pages.AddPage("acme", storetest.Entry("m0", nil, "v"))
				sweeper := erase.NewSweeper(erase.Config{Chunks: g.memory, Rollups: g.rollups, Now: g.now, Orders: g.orders,
					Catalog: g.pages, Snapshot: g.directory.Refresh, By: "test", RUs: 1e9})
				g.round = func() {
					g.pages.Fault = nil
					time.Sleep(2 * time.Minute)
					require.NoError(t, sweeper.Round(t.Context()))
				}
				ctx, end := context.WithCancel(t.Context())
				g.die = func() { // no call of the command arrives from now on
					dead := func(string, string, string) *storetest.Fault { return &storetest.Fault{Err: context.Canceled} }
					g.docs.Fault, g.pages.Fault = dead, dead
					end()
				}
				g.pages.Fault = func(op, _, _ string) *storetest.Fault {
					if err := c.forget(&g); err != nil {
						return &storetest.Fault{Err: err}
					}
					return nil
				}
				giver := erase.Giver{Orders: g.orders, Streams: stream.NewStreams(g.docs), Log: cluster{}, Catalog: g.pages,
					Keep: func(context.Context, *erasure.Order) error { return c.keep(&g) },
					Drop: func(context.Context, string) error { return nil }, Logger: slog.New(slog.DiscardHandler)}
				o, err := giver.Give(ctx, erasure.Order{Tenant: "acme", Device: "m0", To: erasure.EveryDay, By: "test"})
				if ctx.Err() == nil {
					require.Equal(t, c.holds, err == nil, "%v", err)
				}
				end()
				g.docs.Fault, g.pages.Fault = nil, nil
				g.round()
				v, err := g.directory.Refresh(t.Context())
				require.NoError(t, err)
				is := v.Erasures("acme").Find(o.ID)
				require.Equal(t, c.holds, is != nil && is.IsAcknowledged())
				_, isListed := g.pages.Entry("acme", "m0")
				require.Equal(t, c.holds, !isListed)
			})
		})
	}
}
