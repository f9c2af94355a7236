package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"binnacle/internal/store"

	kafkago "github.com/segmentio/kafka-go"
)

// Topic asks a cluster about one topic. It is safe for any number of callers.
type Topic struct {
	client *Client
	name   string
}

// Name returns the name of the topic.
func (t *Topic) Name() string { return t.name }

// Describe returns the id of the cluster and the topic's partitions, ascending. They may be as old as
// Config.MetadataAge.
func (t *Topic) Describe(ctx context.Context) (cluster string, partitions []int, err error) {
	reported, topic, err := t.client.metadata(ctx, t.name)
	if err != nil {
		return "", nil, err
	}
	if cluster, err = t.client.clusterID(reported); err != nil {
		return "", nil, err
	}
	partitions, err = partitionsOf(topic)
	return cluster, partitions, err
}

// Partitions returns the topic's partitions, ascending.
func (t *Topic) Partitions(ctx context.Context) ([]int, error) {
	_, topic, err := t.client.metadata(ctx, t.name)
	if err != nil {
		return nil, err
	}
	return partitionsOf(topic)
}

func partitionsOf(t kafkago.Topic) ([]int, error) {
	if len(t.Partitions) == 0 {
		return nil, fmt.Errorf("read metadata of topic %s: it has no partition", t.Name)
	}
	ids := make([]int, len(t.Partitions))
	for i, p := range t.Partitions {
		ids[i] = p.ID
	}
	slices.Sort(ids)
	return ids, nil
}

// Bounds returns the first offset in the log of a partition and the last stable offset, below which every transaction
// has ended.
func (t *Topic) Bounds(ctx context.Context, partition int) (first, end int64, err error) {
	all, err := t.client.offsets(ctx, map[string][]kafkago.OffsetRequest{t.name: {
		kafkago.FirstOffsetOf(partition), kafkago.LastOffsetOf(partition)}})
	if err != nil {
		return 0, 0, err
	}
	for _, p := range all[t.name] {
		if p.Partition == partition {
			return p.FirstOffset, p.LastOffset, nil
		}
	}
	return 0, 0, fmt.Errorf("list offsets of %s/%d: the broker did not answer for it", t.name, partition)
}

// LogEnds implements store.Log: ends are last stable offsets.
func (t *Topic) LogEnds(ctx context.Context) ([]store.LogEnd, error) {
	partitions, err := t.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	return t.client.logEnds(ctx, map[string][]int{t.name: partitions})
}

// logEnds returns the ends of partitions by topic, with one request to each broker.
func (c *Client) logEnds(ctx context.Context, partitions map[string][]int) ([]store.LogEnd, error) {
	ask := make(map[string][]kafkago.OffsetRequest, len(partitions))
	for topic, of := range partitions {
		for _, p := range of {
			ask[topic] = append(ask[topic], kafkago.LastOffsetOf(p))
		}
	}
	all, err := c.offsets(ctx, ask)
	if err != nil {
		return nil, err
	}
	var out []store.LogEnd
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		if len(all[topic]) != len(partitions[topic]) {
			return nil, fmt.Errorf("list offsets of %s: %d of %d partitions answered", topic, len(all[topic]),
				len(partitions[topic]))
		}
		for _, p := range all[topic] {
			out = append(out, store.LogEnd{Topic: topic, Partition: int32(p.Partition), End: p.LastOffset})
		}
	}
	return out, nil
}

func (c *Client) offsets(ctx context.Context,
	ask map[string][]kafkago.OffsetRequest) (map[string][]kafkago.PartitionOffsets, error) {
	names := slices.Sorted(maps.Keys(ask))
	res, err := c.api.ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: ask, IsolationLevel: kafkago.ReadCommitted})
	if err != nil {
		for _, name := range names {
			err = c.explain(ctx, name, err)
		}
		return nil, fmt.Errorf("list offsets of %s: %w", strings.Join(names, ", "), err)
	}
	for _, name := range names {
		for _, p := range res.Topics[name] {
			if p.Error != nil {
				return nil, fmt.Errorf("list offsets of %s/%d: %w", name, p.Partition, p.Error)
			}
		}
	}
	return res.Topics, nil
}
