package erase_test

import (
	"context"
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
