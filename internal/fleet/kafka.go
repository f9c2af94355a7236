package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// requestTimeout bounds one request, so that a broker that hangs is tried again.
	requestTimeout = 10 * time.Second

	// metadataAge is how old the number of partitions may be: a topic may grow.
	metadataAge = time.Minute
)

// kafkaPublisher publishes through kafka-go, with one request per partition and batch. Keys go to
// partitions by murmur2, as Java's producer and librdkafka's murmur2 partitioner place them, so records
// of one key land in one partition whoever sends them.
type kafkaPublisher struct {
	client      *kafka.Client
	transport   *kafka.Transport
	topic       string
	compression kafka.Compression
	balancer    kafka.Murmur2Balancer
	now         func() time.Time

	partitions []int     // nil: to be asked for
	asked      time.Time // when partitions were asked for
}

func newKafkaPublisher(cfg Config) *kafkaPublisher {
	transport := &kafka.Transport{ClientID: "binnacle-fleet"}
	return &kafkaPublisher{
		client:      &kafka.Client{Addr: kafka.TCP(cfg.Kafka), Timeout: requestTimeout, Transport: transport},
		transport:   transport,
		topic:       cfg.Topic,
		compression: cfg.Compression,
		now:         cfg.Now,
	}
}

func (k *kafkaPublisher) close() { k.transport.CloseIdleConnections() }

// Publish implements Publisher: acknowledged means by all replicas.
func (k *kafkaPublisher) Publish(ctx context.Context, records []Record) ([]Record, error) {
	if err := k.findPartitions(ctx); err != nil {
		return records, err
	}
	groups := map[int][]int{} // partition -> indices of records
	for i, r := range records {
		p := k.balancer.Balance(kafka.Message{Key: r.Key}, k.partitions...)
		groups[p] = append(groups[p], i)
	}
	var (
		mu     sync.Mutex // guards left and faults
		left   []int
		faults []error
		group  sync.WaitGroup
	)
	now := k.now()
	for partition, indices := range groups {
		group.Go(func() {
			if err := k.produce(ctx, partition, pick(records, indices), now); err != nil {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, indices...)
				faults = append(faults, fmt.Errorf("produce to %s/%d: %w", k.topic, partition, err))
			}
		})
	}
	group.Wait()
	if len(left) == 0 {
		return nil, nil
	}
	k.partitions = nil // what failed may have to do with them
	slices.Sort(left)
	return pick(records, left), errors.Join(faults...)
}

func pick(records []Record, indices []int) []Record {
	picked := make([]Record, len(indices))
	for i, at := range indices {
		picked[i] = records[at]
	}
	return picked
}

func (k *kafkaPublisher) produce(ctx context.Context, partition int, records []Record, now time.Time) error {
	batch := make([]kafka.Record, len(records))
	for i, r := range records {
		batch[i] = kafka.Record{Time: now, Key: kafka.NewBytes(r.Key), Value: kafka.NewBytes(r.Value)}
	}
	answer, err := k.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: k.topic, Partition: partition, RequiredAcks: kafka.RequireAll, Compression: k.compression,
		Records: kafka.NewRecordReader(batch...),
	})
	if err != nil {
		return err
	}
	return answer.Error
}

// findPartitions asks which partitions the topic has, unless it has asked lately.
func (k *kafkaPublisher) findPartitions(ctx context.Context) error {
	if k.partitions != nil && k.now().Sub(k.asked) < metadataAge {
		return nil
	}
	answer, err := k.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{k.topic}})
	if err != nil {
		return fmt.Errorf("ask for the partitions of %s: %w", k.topic, err)
	}
	if len(answer.Topics) != 1 {
		return fmt.Errorf("ask for the partitions of %s: %d topics answered", k.topic, len(answer.Topics))
	}
	t := answer.Topics[0]
	if t.Error != nil {
		return fmt.Errorf("ask for the partitions of %s: %w", k.topic, t.Error)
	}
	if len(t.Partitions) == 0 {
		return fmt.Errorf("topic %s has no partitions", k.topic)
	}
	k.partitions, k.asked = make([]int, 0, len(t.Partitions)), k.now()
	for _, p := range t.Partitions {
		k.partitions = append(k.partitions, p.ID)
	}
	slices.Sort(k.partitions)
	return nil
}
