package broker

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sizes of a segment, the unit in which disk space comes back.
const (
	smallestSegment = 1 << 20
	largestSegment  = 64 << 20
)

// topicConfigs returns the configuration of every topic that the broker trims. Retention by kfake is switched off.
func topicConfigs(retention int64) map[string]string {
	segment := int64(largestSegment)
	if retention > 0 {
		segment = min(max(retention/8, smallestSegment), largestSegment)
	}
	return map[string]string{
		"retention.ms":    "-1",
		"retention.bytes": "-1",
		"segment.bytes":   strconv.FormatInt(segment, 10),
	}
}

// ensureTopic makes a topic, or brings one that exists up to the configuration.
func (b *Broker) ensureTopic(ask *client, topic string) error {
	configs := topicConfigs(b.cfg.RetentionBytes)
	err := b.cluster.CreateTopic(topic, int32(b.cfg.Partitions), configs)
	if !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	if err := ask.configure(topic, configs); err != nil {
		return err
	}
	have, want := len(b.cluster.PartitionInfos(topic)), b.cfg.Partitions
	switch {
	case have == want:
	case have < want && want%have == 0:
		b.log.Info("topic grows", "topic", topic, "partitions", want, "before", have)
		return ask.grow(topic, want)
	default:
		b.log.Warn("topic keeps its partitions: they can only be multiplied by an integer",
			"topic", topic, "partitions", have, "asked", want)
	}
	return nil
}

// limitPartitions refuses topics with more partitions than the machine can bear: kfake creates as many as requested.
func limitPartitions(cluster *kfake.Cluster) {
	message := kmsg.StringPtr(fmt.Sprintf("this broker creates at most %d partitions per topic", maxPartitions))
	cluster.ControlKey(kmsg.CreateTopics.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		request := r.(*kmsg.CreateTopicsRequest)
		response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
		tooMany := false
		for _, t := range request.Topics {
			tooMany = tooMany || t.NumPartitions > maxPartitions || len(t.ReplicaAssignment) > maxPartitions
			answer := kmsg.NewCreateTopicsResponseTopic()
			answer.Topic, answer.ErrorCode, answer.ErrorMessage = t.Topic, kerr.InvalidPartitions.Code, message
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, tooMany
	})
	cluster.ControlKey(kmsg.CreatePartitions.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		request := r.(*kmsg.CreatePartitionsRequest)
		response := request.ResponseKind().(*kmsg.CreatePartitionsResponse)
		tooMany := false
		for _, t := range request.Topics {
			tooMany = tooMany || t.Count > maxPartitions
			answer := kmsg.NewCreatePartitionsResponseTopic()
			answer.Topic, answer.ErrorCode, answer.ErrorMessage = t.Topic, kerr.InvalidPartitions.Code, message
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, tooMany
	})
}

// maxMetadata is the longest metadata of a commit: Kafka's default, so that what works here works there. kfake has no
// limit.
const maxMetadata = 4096

// limitMetadata refuses commits with longer metadata, all partitions of a request at once.
func limitMetadata(cluster *kfake.Cluster) {
	cluster.ControlKey(kmsg.OffsetCommit.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		request := r.(*kmsg.OffsetCommitRequest)
		response := request.ResponseKind().(*kmsg.OffsetCommitResponse)
		tooLong := false
		for _, t := range request.Topics {
			answer := kmsg.NewOffsetCommitResponseTopic()
			answer.Topic, answer.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				tooLong = tooLong || p.Metadata != nil && len(*p.Metadata) > maxMetadata
				of := kmsg.NewOffsetCommitResponseTopicPartition()
				of.Partition, of.ErrorCode = p.Partition, kerr.OffsetMetadataTooLarge.Code
				answer.Partitions = append(answer.Partitions, of)
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, tooLong
	})
}
