package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"binnacle/internal/kafka"

	"golang.org/x/sync/errgroup"
)

// What is published to a cluster, in batches of as many messages of a partition.
const (
	kafkaPartitions = 8
	kafkaBatch      = 500
)

// KafkaResult is a cluster's result with the readings, by the clock on the wall. Readings counts acknowledged
// readings, each a record; Bytes is the size of their keys and values, before compression. Latency is the time
// until a batch was acknowledged.
type KafkaResult struct {
	Partitions int       `json:"partitions"`
	Readings   int       `json:"readings"`
	Bytes      int64     `json:"bytes"`
	Published  float64   `json:"published_per_second"`
	Latency    Quantiles `json:"latency_seconds"`
	Read       float64   `json:"read_per_second"`
	Seconds    float64   `json:"wall_seconds"`
}

// publish makes a topic, publishes the readings of the window for the time of the run at most, reads them, and deletes
// the topic.
func (r *targetRun) publish(ctx context.Context, client *kafka.Client) (out *KafkaResult, err error) {
	topic := client.Topic(r.name + "readings")
	if err := topic.Create(ctx, kafkaPartitions); err != nil {
		return nil, err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, topic.Delete(bounded))
	}()
	p, began := &publishing{topic: topic}, time.Now()
	if err := r.produceAll(ctx, p); err != nil {
		return nil, err
	}
	out = &p.result
	took := time.Since(began).Seconds()
	if out.Readings == 0 {
		return nil, errNothing
	}
	out.Partitions, out.Published = kafkaPartitions, round(float64(out.Readings)/took)
	out.Latency = quantiles(p.latencies)
	began = time.Now()
	read, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	if read != out.Readings {
		return nil, fmt.Errorf("topic %s acknowledged %d records, and %d were read", topic.Name(), out.Readings, read)
	}
	again := time.Since(began).Seconds()
	out.Read, out.Seconds = round(float64(read)/again), round(took+again)
	return out, nil
}

// produceAll makes the messages, and produces each partition's messages a batch at a time. As many batches run
// at once as the topic has partitions.
func (r *targetRun) produceAll(ctx context.Context, p *publishing) error {
	until := time.Now().Add(r.Time)
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(kafkaPartitions)
	ids, open := make([]int, kafkaPartitions), make([][]kafka.Message, kafkaPartitions)
	for i := range ids {
		ids[i] = i
	}
	send := func(i int) {
		batch := open[i]
		open[i] = nil
		work.Go(func() error { return p.produce(ctx, i, batch) })
	}
	l := newLoad(r.cfg, r.cfg.Scenarios[0])
	for n := r.cfg.WindowReadings(); n > 0 && ctx.Err() == nil && time.Now().Before(until); n-- {
		m := l.take()
		key := []byte(m.tenant + "/" + m.device)
		i := kafka.PartitionOf(key, ids)
		if open[i] = append(open[i], kafka.Message{Key: key, Value: m.json}); len(open[i]) == kafkaBatch {
			send(i)
		}
	}
	for i := range open {
		if len(open[i]) > 0 {
			send(i)
		}
	}
	return work.Wait()
}

// publishing produces to a topic.
type publishing struct {
	topic *kafka.Topic

	mu        sync.Mutex // guards below
	result    KafkaResult
	latencies []float64
}

// produce appends a batch to a partition.
func (p *publishing) produce(ctx context.Context, partition int, batch []kafka.Message) error {
	began := time.Now()
	if _, err := p.topic.Produce(ctx, partition, batch); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latencies = append(p.latencies, took)
	p.result.Readings += len(batch)
	for _, m := range batch {
		p.result.Bytes += int64(len(m.Key) + len(m.Value))
	}
	return nil
}

// read reads the topic, partition after partition, and returns how many records it has.
func (p *publishing) read(ctx context.Context) (records int, err error) {
	for i := range kafkaPartitions {
		first, end, err := p.topic.Bounds(ctx, i)
		if err != nil {
			return records, err
		}
		span := kafka.Span{Partition: i, From: first, To: end}
		if err := p.topic.Each(ctx, span, func(*kafka.Record) error { records++; return nil }, nil); err != nil {
			return records, err
		}
	}
	return records, nil
}
