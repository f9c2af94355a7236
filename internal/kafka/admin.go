package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// shape is what brokers report of a topic.
type shape struct {
	partitions int
	replicas   int
	configs    map[string]string // nil where brokers do not report them to this client
}

// shape reads the shape of the topic, with the given settings of its configuration.
func (t *Topic) shape(ctx context.Context, configs ...string) (shape, error) {
	_, about, err := t.client.metadata(ctx, t.name)
	if err != nil {
		return shape{}, err
	}
	s := shape{partitions: len(about.Partitions)}
	if s.partitions > 0 {
		s.replicas = len(about.Partitions[0].Replicas)
	}
	res, err := t.client.api.DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{
		Resources: []kafkago.DescribeConfigRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: t.name, ConfigNames: configs,
		}},
	})
	if err != nil || len(res.Resources) != 1 || res.Resources[0].Error != nil {
		return s, nil
	}
	s.configs = make(map[string]string, len(configs))
	for _, c := range res.Resources[0].ConfigEntries {
		s.configs[c.ConfigName] = c.ConfigValue
	}
	return s, nil
}

func (t *Topic) make(ctx context.Context, s shape) error {
	about := kafkago.TopicConfig{Topic: t.name, NumPartitions: s.partitions, ReplicationFactor: s.replicas}
	for name, value := range s.configs {
		about.ConfigEntries = append(about.ConfigEntries, kafkago.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	res, err := t.client.api.CreateTopics(ctx, &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{about}})
	if err == nil {
		err = res.Errors[t.name]
	}
	return failed(err, "create topic %s", t.name)
}

// failed says what an error is about; nil stays nil.
func failed(err error, what string, names ...any) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", fmt.Sprintf(what, names...), err)
	}
	return err
}

// Create creates the topic, which must not exist, with the cluster's default number of replicas.
func (t *Topic) Create(ctx context.Context, partitions int) error {
	return t.make(ctx, shape{partitions: partitions, replicas: -1})
}

// Delete deletes the topic with all its records.
func (t *Topic) Delete(ctx context.Context) error {
	res, err := t.client.api.DeleteTopics(ctx, &kafkago.DeleteTopicsRequest{Topics: []string{t.name}})
	if err == nil {
		err = res.Errors[t.name]
	}
	return failed(err, "delete topic %s", t.name)
}

func (t *Topic) grow(ctx context.Context, partitions int) error {
	res, err := t.client.api.CreatePartitions(ctx, &kafkago.CreatePartitionsRequest{
		Topics: []kafkago.TopicPartitionsConfig{{Name: t.name, Count: int32(partitions)}},
	})
	if err == nil {
		err = res.Errors[t.name]
	}
	return failed(err, "add partitions to topic %s", t.name)
}

func (t *Topic) configure(ctx context.Context, name, value string) error {
	res, err := t.client.api.IncrementalAlterConfigs(ctx, &kafkago.IncrementalAlterConfigsRequest{
		Resources: []kafkago.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: t.name,
			Configs: []kafkago.IncrementalAlterConfigsRequestConfig{{Name: name, Value: value}},
		}},
	})
	for i := 0; err == nil && i < len(res.Resources); i++ {
		err = res.Resources[i].Error
	}
	return failed(err, "set %s of topic %s", name, t.name)
}

// EnsureCompacted creates the topic, unless it exists: one partition that keeps the last record of each key. It copies
// the number of replicas from the topic like, or takes the cluster's default if like is nil or does not exist. It fails
// if brokers delete records of the topic.
func (t *Topic) EnsureCompacted(ctx context.Context, like *Topic) error {
	own, err := t.shape(ctx, cleanupPolicy)
	if err == nil {
		if policy, known := own.configs[cleanupPolicy]; known && policy != "compact" {
			return fmt.Errorf("topic %s has %s=%s: set it to compact, or records that must stay are deleted", t.name,
				cleanupPolicy, policy)
		}
		return nil
	}
	if !IsUnknownTopic(err) {
		return err
	}
	source := shape{replicas: -1}
	if like != nil {
		if source, err = like.shape(ctx, inSyncReplicas); IsUnknownTopic(err) {
			source = shape{replicas: -1}
		} else if err != nil {
			return err
		}
	}
	s := shape{partitions: 1, replicas: source.replicas, configs: map[string]string{cleanupPolicy: "compact"}}
	if in := source.configs[inSyncReplicas]; in != "" {
		s.configs[inSyncReplicas] = in
	}
	return t.makeUnlessThere(ctx, s)
}

// EnsureLike creates the topic, unless it is there, with another's number of partitions and replicas and retention.
func (t *Topic) EnsureLike(ctx context.Context, like *Topic) error {
	if _, err := t.Partitions(ctx); !IsUnknownTopic(err) {
		return err
	}
	s, err := like.shape(ctx, inSyncReplicas, retentionTime, retentionBytes, maxMessageBytes)
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.configs, func(_, value string) bool { return value == "" })
	return t.makeUnlessThere(ctx, s)
}

// makeUnlessThere creates the topic, and accepts that another process was faster.
func (t *Topic) makeUnlessThere(ctx context.Context, s shape) error {
	if err := t.make(ctx, s); !errors.Is(err, kafkago.TopicAlreadyExists) {
		return err
	}
	return nil
}

// Retention returns how long brokers keep records of the topic, and whether they say so to this client; a negative
// duration is without end. It fails with an error that IsUnknownTopic reports if the topic is not there.
func (t *Topic) Retention(ctx context.Context) (keep time.Duration, known bool, err error) {
	s, err := t.shape(ctx, retentionTime)
	if err != nil {
		return 0, false, err
	}
	ms, known := number(s, retentionTime)
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if ms > most {
		ms = -1
	}
	return time.Duration(ms) * time.Millisecond, known, nil
}
