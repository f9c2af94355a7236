// Package fleet simulates devices: trucks with ten metrics each, and a publisher that sends their
// readings to Kafka as any device would, in the JSON form of docs/reference/payloads.md.
//
// It knows Kafka only as a client. It must not know the store, the chunks or how readings are ingested.
package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"binnacle/internal/kafka"
)

// metadataAge is how old the number of partitions may be: a topic may grow.
const metadataAge = time.Minute

// topicPublisher publishes to a topic, with one request per partition and batch if the batch fits. Records of one key
// go to one partition, as from any producer.
type topicPublisher struct {
	topic *kafka.Topic
	now   func() time.Time

	partitions []int // nil: to be asked for
	// asked is the time of the last query for partitions.
	asked time.Time
}

// Publish implements Publisher: acknowledged means by all replicas.
func (k *topicPublisher) Publish(ctx context.Context, records []Record) ([]Record, error) {
	if err := k.findPartitions(ctx); err != nil {
		return records, err
	}
	groups := map[int][]int{} // partition -> indices of records
	for i, r := range records {
		p := kafka.PartitionOf(r.Key, k.partitions)
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
			messages := make([]kafka.Message, len(indices))
			for i, at := range indices {
				messages[i] = kafka.Message{Time: now, Key: records[at].Key, Value: records[at].Value}
			}
			done, err := k.topic.Produce(ctx, partition, messages)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, indices[done:]...)
				faults = append(faults, err)
			}
		})
	}
	group.Wait()
	if len(left) == 0 {
		return nil, nil
	}
	k.partitions = nil // a changed number of partitions may have caused the failure
	slices.Sort(left)
	unsent := make([]Record, len(left))
	for i, at := range left {
		unsent[i] = records[at]
	}
	return unsent, errors.Join(faults...)
}

// findPartitions reads the partitions of the topic unless it has done so lately.
func (k *topicPublisher) findPartitions(ctx context.Context) (err error) {
	if k.partitions != nil && k.now().Sub(k.asked) < metadataAge {
		return nil
	}
	k.asked = k.now()
	k.partitions, err = k.topic.Partitions(ctx)
	return err
}
