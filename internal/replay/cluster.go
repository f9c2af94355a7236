package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// attemptTimeout bounds one request.
const attemptTimeout = 10 * time.Second

// cluster is a topic of a Kafka cluster.
type cluster struct {
	client *kafka.Client
	addr   string
	topic  string
	now    func() time.Time
}

// errNoTopic says that the topic does not exist. Waiting does not make it.
var errNoTopic = errors.New("no such topic")

func newCluster(cfg Config) *cluster {
	return &cluster{
		client: &kafka.Client{
			Addr:      kafka.TCP(strings.Split(cfg.Kafka, ",")...),
			Transport: &kafka.Transport{ClientID: "binnacle-replay"},
		},
		addr: cfg.Kafka, topic: cfg.Topic, now: cfg.Now,
	}
}

func (c *cluster) close() { c.client.Transport.(*kafka.Transport).CloseIdleConnections() }

// Partitions implements producer.
func (c *cluster) Partitions(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	m, err := c.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{c.topic}})
	if err != nil {
		return 0, fmt.Errorf("ask Kafka at %s for topic %s: %w", c.addr, c.topic, err)
	}
	i := slices.IndexFunc(m.Topics, func(t kafka.Topic) bool { return t.Name == c.topic })
	if i < 0 || errors.Is(m.Topics[i].Error, kafka.UnknownTopicOrPartition) {
		return 0, fmt.Errorf("%w: Kafka at %s has no topic %s", errNoTopic, c.addr, c.topic)
	}
	if err := m.Topics[i].Error; err != nil {
		return 0, fmt.Errorf("topic %s of Kafka at %s: %w", c.topic, c.addr, err)
	}
	return len(m.Topics[i].Partitions), nil
}

// Produce implements producer.
func (c *cluster) Produce(ctx context.Context, partition int, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	res, err := c.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: c.topic, Partition: partition,
		RequiredAcks: kafka.RequireAll,
		Compression:  kafka.Lz4,
		Records:      b.records(c.now()),
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("publish to partition %d of topic %s of Kafka at %s: %w", partition, c.topic, c.addr, err)
	}
	return nil
}
