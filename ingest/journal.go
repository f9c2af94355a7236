package ingest

import (
	"context"
	"errors"
	"fmt"

	"binnacle/internal/kafka"
	"binnacle/internal/store"
)

// TopicJournal is a journal in Kafka: a topic for each that is read, partition for partition.
type TopicJournal struct{ cluster *kafka.Client }

// NewTopicJournal appends to topics of a cluster.
func NewTopicJournal(cluster *kafka.Client) *TopicJournal { return &TopicJournal{cluster} }

func (j *TopicJournal) of(topic string) *kafka.Topic { return j.cluster.Topic(kafka.JournalOf(topic)) }

// Append implements Journal.
func (j *TopicJournal) Append(ctx context.Context, topic string, partition int32,
	values [][]byte) (base int64, err error) {
	messages := make([]kafka.Message, len(values))
	for i, v := range values {
		messages[i].Value = v
	}
	base, err = j.of(topic).Append(ctx, int(partition), messages)
	if errors.Is(err, kafka.ErrTooLarge) {
		return 0, fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	}
	return base, err
}

// Partition implements Blocks.
func (j *TopicJournal) Partition(topic string, partition int32) BlockLog {
	return topicBlocks{j.of(topic), int(partition)}
}

type topicBlocks struct {
	topic     *kafka.Topic
	partition int
}

// Bounds implements BlockLog.
func (b topicBlocks) Bounds(ctx context.Context) (first, end int64, err error) {
	first, end, err = b.topic.Bounds(ctx, b.partition)
	if kafka.IsUnknownTopic(err) {
		return 0, 0, nil // a journal that is gone has nothing
	}
	return first, end, err
}

// Each implements BlockLog.
func (b topicBlocks) Each(ctx context.Context, from, to int64, f func(offset int64, value []byte) error) error {
	return b.topic.Each(ctx, kafka.Span{Partition: b.partition, From: from, To: to}, func(r *kafka.Record) error {
		return f(r.Offset, r.Value)
	}, nil)
}
