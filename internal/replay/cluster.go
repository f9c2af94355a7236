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
}

// errNoTopic says that the topic does not exist. Waiting does not make it.
var errNoTopic = errors.New("no such topic")

func newCluster(cfg Config) (*cluster, error) {
	client, err := kafka.New(cfg.Kafka)
	if err != nil {
		return nil, err
	}
	return &cluster{client, client.Topic(cfg.Topic), cfg.Now}, nil
}

func (c *cluster) close() { c.client.Close() }

// Partitions implements producer.
func (c *cluster) Partitions(ctx context.Context) (int, error) {
	ids, err := c.topic.Partitions(ctx)
	switch {
	case kafka.NoTopic(err):
		return 0, fmt.Errorf("%w: Kafka at %s has no topic %s", errNoTopic, c.client.Address(), c.topic.Name())
	case err != nil:
		return 0, fmt.Errorf("ask Kafka at %s for topic %s: %w", c.client.Address(), c.topic.Name(), err)
	}
	return len(ids), nil
}

// Produce implements producer.
func (c *cluster) Produce(ctx context.Context, partition int, b *batch) error {
	if _, err := c.topic.Produce(ctx, partition, b.messages(c.now())); err != nil {
		return fmt.Errorf("publish to partition %d of topic %s of Kafka at %s: %w", partition, c.topic.Name(),
			c.client.Address(), err)
	}
	return nil
}
