package ingest

import (
	"context"
	"fmt"
	"slices"

	"binnacle/internal/store"

	"github.com/segmentio/kafka-go"
)

// Broker asks a Kafka cluster about itself and one topic. It is safe for any number of callers.
type Broker struct {
	client *kafka.Client
	topic  string
}

// NewBroker is a Broker that asks the cluster at addr, host:port; a nil transport is plain TCP.
func NewBroker(addr, topic string, transport kafka.RoundTripper) *Broker {
	return &Broker{&kafka.Client{Addr: kafka.TCP(addr), Transport: transport}, topic}
}

// Describe answers the cluster's id and the topic's partitions, ascending.
func (b *Broker) Describe(ctx context.Context) (cluster string, partitions []int, err error) {
	res, err := b.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{b.topic}})
	if err != nil {
		return "", nil, fmt.Errorf("read metadata of topic %s: %w", b.topic, err)
	}
	for _, t := range res.Topics {
		if t.Name != b.topic {
			continue
		}
		if t.Error != nil {
			return "", nil, fmt.Errorf("read metadata of topic %s: %w", b.topic, t.Error)
		}
		for _, p := range t.Partitions {
			partitions = append(partitions, p.ID)
		}
	}
	if len(partitions) == 0 {
		return "", nil, fmt.Errorf("read metadata of topic %s: it has no partition", b.topic)
	}
	slices.Sort(partitions)
	return res.ClusterID, partitions, nil
}

// Bounds answers the first offset that is still in the log of a partition, and the one after the last.
func (b *Broker) Bounds(ctx context.Context, partition int) (first, end int64, err error) {
	res, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		b.topic: {kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition)},
	}})
	if err != nil {
		return 0, 0, fmt.Errorf("list offsets of %s/%d: %w", b.topic, partition, err)
	}
	for _, p := range res.Topics[b.topic] {
		if p.Partition == partition {
			if p.Error != nil {
				return 0, 0, fmt.Errorf("list offsets of %s/%d: %w", b.topic, partition, p.Error)
			}
			return p.FirstOffset, p.LastOffset, nil
		}
	}
	return 0, 0, fmt.Errorf("list offsets of %s/%d: the broker did not answer for it", b.topic, partition)
}

// LogEnds is store.Log.
func (b *Broker) LogEnds(ctx context.Context) ([]store.LogEnd, error) {
	_, partitions, err := b.Describe(ctx)
	if err != nil {
		return nil, err
	}
	ask := make([]kafka.OffsetRequest, len(partitions))
	for i, p := range partitions {
		ask[i] = kafka.LastOffsetOf(p)
	}
	res, err := b.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{b.topic: ask}})
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", b.topic, err)
	}
	var out []store.LogEnd
	for _, p := range res.Topics[b.topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("list offsets of %s/%d: %w", b.topic, p.Partition, p.Error)
		}
		out = append(out, store.LogEnd{Topic: b.topic, Partition: int32(p.Partition), End: p.LastOffset})
	}
	if len(out) != len(partitions) {
		return nil, fmt.Errorf("list offsets of %s: %d of %d partitions answered", b.topic, len(out), len(partitions))
	}
	return out, nil
}

// fetcher reads one partition of the topic.
func (b *Broker) fetcher(partition int) *fetcher {
	return &fetcher{client: b.client, topic: b.topic, partition: partition}
}
