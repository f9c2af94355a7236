package erase

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/stream"
)

// Log is the cluster that readings are published to.
type Log interface {
	// ClusterID returns the id of the cluster.
	ClusterID(ctx context.Context) (string, error)
	// LogEnds returns the offsets behind the last record of each partition of a topic, none for a topic that is gone.
	LogEnds(ctx context.Context, topic string) (map[int32]int64, error)
}

// everyOffset is the position of an order in a log that has no reader any more: above any offset, and a number that
// the service stores exactly.
const everyOffset = 1<<53 - 1

// Positions returns the positions of an order that is announced (rule E-R1): the last offset of every partition and
// stream. Everything is covered in logs that are gone, in streams of gone clusters, and in copied streams.
func Positions(ctx context.Context, streams *stream.Streams, log Log, gone ...string) ([]erasure.Position, error) {
	cluster, err := log.ClusterID(ctx)
	if err != nil {
		return nil, err
	}
	all, err := streams.All(ctx)
	if err != nil {
		return nil, err
	}
	out, done := []erasure.Position(nil), make(map[[2]string]bool)
	for _, s := range all {
		name := [2]string{s.Cluster, s.Topic}
		if done[name] {
			continue
		}
		done[name] = true
		isGone := s.IsCopied() || slices.Contains(gone, s.Cluster)
		if s.Cluster != cluster && !isGone {
			return nil, fmt.Errorf("topic %s was read from the Kafka cluster %s, and this is %s: whether somebody still "+
				"publishes there can't be seen from here. Connect to it, or give --gone-cluster %[2]s if it is gone",
				s.Topic, s.Cluster, cluster)
		}
		of := topicStreams{streams: streams, all: stream.Incarnations(all, s.Cluster, s.Topic)}
		if !isGone {
			if of.ends, err = log.LogEnds(ctx, s.Topic); err != nil {
				return nil, err
			}
		}
		positions, err := of.positions(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, positions...)
	}
	return out, nil
}

// topicStreams are the streams of a topic, the newest first, and where its partitions end.
type topicStreams struct {
	streams *stream.Streams
	all     []stream.Stream
	ends    map[int32]int64
}

// positions returns the positions in each stream. The stream that a partition is read as, and any newer one, end
// where the log does; the log of an older one is gone.
func (t *topicStreams) positions(ctx context.Context) (out []erasure.Position, err error) {
	partitions := slices.Sorted(maps.Keys(t.ends))
	live := make([]uint32, len(partitions))
	for i, p := range partitions {
		s, _, _, err := t.streams.OfStreams(ctx, t.all, len(t.ends), p)
		if err != nil {
			return nil, err
		}
		live[i] = s.Number
	}
	for _, s := range t.all {
		if !slices.ContainsFunc(live, func(n uint32) bool { return s.Number >= n }) {
			out = append(out, erasure.Position{Stream: s.Number, Partition: erasure.EveryPartition, Through: everyOffset})
			continue
		}
		for i, p := range partitions {
			through := t.ends[p] - 1
			if s.Number < live[i] {
				through = everyOffset
			}
			out = append(out, erasure.Position{Stream: s.Number, Partition: p, Through: through})
		}
	}
	return out, nil
}

// Giver gives orders of erasure. Only Gone has a default.
type Giver struct {
	Orders  *erasure.Orders
	Streams *stream.Streams
	Log     Log
	Gone    []string // ids of clusters that nobody publishes to or reads from any more
	Catalog store.Catalog
	// Keep keeps an order with its positions outside the store, and Drop takes a void one out (rule E-R11).
	Keep   func(ctx context.Context, o *erasure.Order) error
	Drop   func(ctx context.Context, id string) error
	Logger *slog.Logger
}

// Give announces an order, reads where the logs end, and acknowledges it. It returns the order once it is announced.
func (g *Giver) Give(ctx context.Context, order erasure.Order) (*erasure.Order, error) {
	given, err := g.Orders.Announce(ctx, order)
	if err != nil {
		return nil, err
	}
	// Until each replica shows the order, workers may cut without knowing it: that lies below the positions (rule E-R3).
	_ = retry.Pause(ctx, 3*time.Second)
	positions, err := Positions(ctx, g.Streams, g.Log, g.Gone...)
	if err == nil {
		err = g.Keep(ctx, given.Acknowledged(positions))
	}
	if err == nil {
		err = g.Orders.Settle(ctx, g.Catalog, given.Acknowledged(positions))
	}
	if err == nil {
		return given.Acknowledged(positions), nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	switch isVoid, failed := g.Orders.Void(ctx, g.Catalog, given); {
	case isVoid:
		if dropped := g.Drop(ctx, given.ID); dropped != nil {
			g.Logger.Warn("the void order stays in the topic of orders", "erasure", given.ID, "error", dropped)
		}
		return given, fmt.Errorf("nothing is erased: %w", err)
	case failed == nil:
		return given.Acknowledged(positions), nil
	}
	return given, err
}
