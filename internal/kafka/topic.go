package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"binnacle/internal/store"

	kafkago "github.com/segmentio/kafka-go"
)

// Topic asks a cluster about one topic. It is safe for any number of callers.
type Topic struct {
	client *Client
	name   string
}

// Name is the topic's.
func (t *Topic) Name() string { return t.name }

// Describe returns what stands for the cluster, and the topic's partitions, ascending. It may be as old as
// Config.MetadataAge.
func (t *Topic) Describe(ctx context.Context) (cluster string, partitions []int, err error) {
	told, topic, err := t.client.metadata(ctx, t.name)
	if err != nil {
		return "", nil, err
	}
	if cluster, err = t.client.clusterID(told); err != nil {
		return "", nil, err
	}
	partitions, err = partitionsOf(topic)
	return cluster, partitions, err
}

// Partitions are the topic's, ascending: Describe for who does not care for the cluster.
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

// Bounds returns the first offset that is still in the log of a partition, and the one after the last that may be read:
// the last stable one, below which every transaction has ended.
func (t *Topic) Bounds(ctx context.Context, partition int) (first, end int64, err error) {
	all, err := t.offsets(ctx, kafkago.FirstOffsetOf(partition), kafkago.LastOffsetOf(partition))
	if err != nil {
		return 0, 0, err
	}
	for _, p := range all {
		if p.Partition == partition {
			return p.FirstOffset, p.LastOffset, nil
		}
	}
	return 0, 0, fmt.Errorf("list offsets of %s/%d: the broker did not answer for it", t.name, partition)
}

// LogEnds is store.Log, with the ends as Bounds has them.
func (t *Topic) LogEnds(ctx context.Context) ([]store.LogEnd, error) {
	partitions, err := t.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	ask := make([]kafkago.OffsetRequest, len(partitions))
	for i, p := range partitions {
		ask[i] = kafkago.LastOffsetOf(p)
	}
	all, err := t.offsets(ctx, ask...)
	if err != nil {
		return nil, err
	}
	out := make([]store.LogEnd, len(all))
	for i, p := range all {
		out[i] = store.LogEnd{Topic: t.name, Partition: int32(p.Partition), End: p.LastOffset}
	}
	if len(out) != len(partitions) {
		return nil, fmt.Errorf("list offsets of %s: %d of %d partitions answered", t.name, len(out), len(partitions))
	}
	return out, nil
}

func (t *Topic) offsets(ctx context.Context, ask ...kafkago.OffsetRequest) ([]kafkago.PartitionOffsets, error) {
	ctx, cancel := context.WithTimeout(ctx, t.client.cfg.RequestTimeout)
	defer cancel()
	res, err := t.client.api.ListOffsets(ctx, &kafkago.ListOffsetsRequest{
		Topics: map[string][]kafkago.OffsetRequest{t.name: ask}, IsolationLevel: kafkago.ReadCommitted,
	})
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", t.name, t.client.explain(ctx, t.name, err))
	}
	for _, p := range res.Topics[t.name] {
		if p.Error != nil {
			return nil, fmt.Errorf("list offsets of %s/%d: %w", t.name, p.Partition, p.Error)
		}
	}
	return res.Topics[t.name], nil
}

// Committed returns what a group has committed of the topic, by partition; a partition of which it has committed
// nothing is missing.
func (t *Topic) Committed(ctx context.Context, group string) (map[int]int64, error) {
	partitions, err := t.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.client.cfg.RequestTimeout)
	defer cancel()
	res, err := t.client.api.OffsetFetch(ctx, &kafkago.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{t.name: partitions},
	})
	if err == nil {
		err = res.Error
	}
	if errors.Is(err, kafkago.GroupIdNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what group %s has committed of %s: %w", group, t.name, err)
	}
	all := make(map[int]int64, len(partitions))
	for _, p := range res.Topics[t.name] {
		if p.Error != nil {
			return nil, fmt.Errorf("read what group %s has committed of %s/%d: %w", group, t.name, p.Partition, p.Error)
		}
		if p.CommittedOffset >= 0 {
			all[p.Partition] = p.CommittedOffset
		}
	}
	return all, nil
}
