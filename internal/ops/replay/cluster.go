package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/kafka"
)

// cluster is a topic of a Kafka cluster.
type cluster struct {
	client *kafka.Client
	topic  *kafka.Topic
	now    func() time.Time
	landed func(partition int, base int64, n int) // receives where records were appended; nil: ignored
}

// errNoTopic says that the topic does not exist. Waiting does not make it.
var errNoTopic = errors.New("no such topic")

func newCluster(cfg Config) (*cluster, error) {
	client, err := kafka.New(cfg.Kafka)
	if err != nil {
		return nil, err
	}
	set, err := cfg.set()
	if err != nil {
		client.Close()
		return nil, err
	}
	return &cluster{client: client, topic: client.Topic(set.Named()[0]), now: cfg.Now}, nil
}

func (c *cluster) close() { c.client.Close() }

// Partitions implements producer.
func (c *cluster) Partitions(ctx context.Context) (int, error) {
	ids, err := partitionsOf(ctx, c.client, c.topic)
	return len(ids), err
}

// partitionsOf returns the partitions of a topic that must exist.
func partitionsOf(ctx context.Context, client *kafka.Client, topic *kafka.Topic) ([]int, error) {
	ids, err := topic.Partitions(ctx)
	switch {
	case kafka.IsUnknownTopic(err):
		return nil, fmt.Errorf("%w: Kafka at %s has no topic %s", errNoTopic, client.Address(), topic.Name())
	case err != nil:
		return nil, fmt.Errorf("ask Kafka at %s for topic %s: %w", client.Address(), topic.Name(), err)
	}
	return ids, nil
}

// Produce implements producer.
func (c *cluster) Produce(ctx context.Context, partition int, messages []kafka.Message) error {
	now := c.now()
	for i := range messages {
		messages[i].Time = now
	}
	_, err := c.topic.ProduceTo(ctx, partition, messages, func(base int64, n int) {
		if c.landed != nil {
			c.landed(partition, base, n)
		}
	})
	if err != nil {
		return fmt.Errorf("publish to partition %d of topic %s of Kafka at %s: %w", partition, c.topic.Name(),
			c.client.Address(), err)
	}
	return nil
}
