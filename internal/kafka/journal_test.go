package kafka_test

import (
	"testing"
	"time"

	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

const keep = 36 * time.Hour

func journalOf(t *testing.T, at target, source string) kafka.Journal {
	c := connect(t, kafka.Config{Brokers: []string{at.addr}})
	return kafka.Journal{Source: c.Topic(source), Topic: c.Topic(kafka.JournalOf(source)), Keep: keep}
}

// configs is what a topic's configuration says of some names.
func configs(t *testing.T, at target, topic string, names ...string) map[string]string {
	t.Helper()
	res, err := client(t, at).DescribeConfigs(t.Context(), &kafkago.DescribeConfigsRequest{
		Resources: []kafkago.DescribeConfigRequestResource{{ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic,
			ConfigNames: names}},
	})
	require.NoError(t, err)
	require.Len(t, res.Resources, 1)
	require.NoError(t, res.Resources[0].Error)
	all := map[string]string{}
	for _, c := range res.Resources[0].ConfigEntries {
		all[c.ConfigName] = c.ConfigValue
	}
	return all
}

// A journal is made as its source is, and then there is nothing more to do.
func aJournalIsMade(t *testing.T, at target) {
	source := at.topicOf(t, map[string]string{"min.insync.replicas": "1"})
	j := journalOf(t, at, source)
	require.ErrorIs(t, j.Check(t.Context()), kafka.ErrJournal)
	require.ErrorContains(t, j.Check(t.Context()), "create topic "+source+".journal with 2 partitions and 1 replicas")
	done, err := j.Ensure(t.Context())
	require.NoError(t, err)
	require.Len(t, done, 1)
	eventually(t, func() error { return j.Check(t.Context()) })
	done, err = j.Ensure(t.Context())
	require.NoError(t, err)
	require.Empty(t, done)
	require.Equal(t, map[string]string{"cleanup.policy": "delete", "retention.ms": "129600000", "retention.bytes": "-1",
		"segment.ms": "16200000", "min.insync.replicas": "1"}, configs(t, at, source+".journal", "cleanup.policy",
		"retention.ms", "retention.bytes", "segment.ms", "min.insync.replicas"))
	partitions, err := j.Topic.Partitions(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, partitions)
	for partition := range 2 {
		eventually(t, func() error { _, _, err := j.Topic.Bounds(t.Context(), partition); return err })
	}
	base, err := j.Topic.Append(t.Context(), 1, several(1, string(make([]byte, kafka.AppendBytes-100))))
	require.NoError(t, err)
	require.Zero(t, base)
}

// The journal gets the partitions that its source gets.
func aJournalGrows(t *testing.T, at target) {
	source := at.topicOf(t, nil)
	j := journalOf(t, at, source)
	_, err := j.Ensure(t.Context())
	require.NoError(t, err)
	res, err := client(t, at).CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{
		Topics: []kafkago.TopicPartitionsConfig{{Name: source, Count: 4}}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[source])
	require.Eventually(t, func() bool {
		done, err := j.Ensure(t.Context())
		return err == nil && len(done) == 1
	}, time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		partitions, err := j.Topic.Partitions(t.Context())
		return err == nil && len(partitions) == 4 && j.Check(t.Context()) == nil
	}, time.Minute, 5*time.Millisecond)
}

// A setting that keeps too little is named and changed; settings that others may have chosen stay.
func aJournalThatCantServe(t *testing.T, at target) {
	for name, other := range map[string]struct {
		configs map[string]string
		told    string
		mended  map[string]string // nil: by nobody
	}{
		"too short": {map[string]string{"retention.ms": "3600000"}, "set retention.ms of topic",
			map[string]string{"retention.ms": "129600000"}},
		"by size": {map[string]string{"retention.bytes": "1000000"}, "set retention.bytes of topic",
			map[string]string{"retention.bytes": "-1"}},
		"small": {map[string]string{"max.message.bytes": "100000"}, "set max.message.bytes of topic",
			map[string]string{"max.message.bytes": "901024"}},
		"longer than needed": {map[string]string{"retention.ms": "999999999"}, "",
			map[string]string{"retention.ms": "999999999"}},
		"for ever":      {map[string]string{"retention.ms": "-1"}, "", map[string]string{"retention.ms": "-1"}},
		"compacted":     {map[string]string{"cleanup.policy": "compact"}, "cleanup.policy=compact", nil},
		"compacted too": {map[string]string{"cleanup.policy": "compact,delete"}, "compaction would delete blocks", nil},
	} {
		t.Run(name, func(t *testing.T) {
			j := journalOf(t, at, at.topic)
			existing := at.topicOf(t, other.configs)
			j.Topic = connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(existing)
			err := j.Check(t.Context())
			if other.told == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, kafka.ErrJournal)
				require.ErrorContains(t, err, other.told)
			}
			_, err = j.Ensure(t.Context())
			if other.mended == nil {
				require.ErrorIs(t, err, kafka.ErrJournal)
				return
			}
			require.NoError(t, err)
			for setting, value := range other.mended {
				require.Equal(t, value, configs(t, at, existing, setting)[setting])
			}
			eventually(t, func() error { return j.Check(t.Context()) })
		})
	}
}

// A source that is not there is an error of its own.
func TestJournalWithoutSource(t *testing.T) {
	j := journalOf(t, target{addr: embeddedBroker(t).Addr()}, "missing")
	_, err := j.Ensure(t.Context())
	require.True(t, kafka.IsUnknownTopic(err), err)
	require.NotErrorIs(t, err, kafka.ErrJournal)
}
