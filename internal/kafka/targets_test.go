package kafka_test

import (
	"testing"

	"binnacle/internal/kafka"
	"binnacle/internal/kafka/kafkatest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// target is a topic of two partitions in some cluster, and the name of a group that is new there.
type target struct{ addr, topic, group string }

// targetTests are tests that hold of any broker.
var targetTests = map[string]func(t *testing.T, at target){
	"a topic by every codec":           aTopicByEveryCodec,
	"transactions":                     transactions,
	"append returns the offset":        appendReturnsTheOffset,
	"append refuses what does not fit": appendRefusesWhatDoesNotFit,
	"what a group has committed":       whatAGroupHasCommitted,
	"brokers refuse long metadata":     brokersRefuseLongMetadata,
	"a journal is made":                aJournalIsMade,
	"a journal grows":                  aJournalGrows,
	"a journal that can't serve":       aJournalThatCantServe,
	"a commit of another generation":   aCommitOfAnotherGeneration,
	"several topics":                   logEndsOfSeveralTopics,
}

func TestOnTheEmbeddedBroker(t *testing.T) {
	for name, test := range targetTests {
		t.Run(name, func(t *testing.T) { test(t, target{embeddedBroker(t).Addr(), topic, "readers"}) })
	}
}

func TestOnApacheKafka(t *testing.T) {
	addr := apache.Server(t).Addr()
	for name, test := range targetTests {
		t.Run(name, func(t *testing.T) {
			at := target{addr: addr, group: kafkatest.Name(t)}
			at.topic = at.topicOf(t, nil)
			test(t, at)
		})
	}
}

// topicOf makes another topic of two partitions.
func (at target) topicOf(t *testing.T, configs map[string]string) string {
	t.Helper()
	topic := kafkago.TopicConfig{Topic: kafkatest.Name(t), NumPartitions: 2, ReplicationFactor: 1}
	for name, value := range configs {
		topic.ConfigEntries = append(topic.ConfigEntries, kafkago.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	res, err := client(t, at).CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{topic}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[topic.Topic])
	made := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(topic.Topic)
	for partition := range 2 { // a broker leads a partition a while after it has made it
		eventually(t, func() error { _, _, err := made.Bounds(t.Context(), partition); return err })
	}
	return topic.Topic
}

// client is kafka-go's own.
func client(t *testing.T, at target) *kafkago.Client {
	transport := &kafkago.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(at.addr), Transport: transport}
}
