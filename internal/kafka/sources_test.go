package kafka_test

import (
	"testing"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// logEndsOfSeveralTopics are found by name and by pattern, come and go, and their ends are returned together.
func logEndsOfSeveralTopics(t *testing.T, at target) {
	other := at.topicOf(t, nil)
	journal := other + ".journal"
	admin := client(t, at)
	made, err := admin.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{
		{Topic: journal, NumPartitions: 1, ReplicationFactor: 1}}})
	require.NoError(t, err)
	require.NoError(t, made.Errors[journal])
	cluster := connect(t, kafka.Config{Brokers: []string{at.addr}})
	set, err := topics.Parse([]string{at.topic, "/" + other + ".*/=acme"}, "")
	require.NoError(t, err)
	sources := cluster.Sources(set)
	var l kafka.Layout
	eventually(t, func() error { l, err = sources.Layout(t.Context()); return err })
	require.Equal(t, map[string][]int{at.topic: {0, 1}, other: {0, 1}}, l.Partitions, "a journal is none")
	require.Equal(t, map[string]string{other: "acme"}, l.Tenants)
	require.Empty(t, l.Faults)
	require.NotEmpty(t, l.Cluster)

	_, err = cluster.Topic(other).Produce(t.Context(), 1, []kafka.Message{message("k", "a"), message("k", "b")})
	require.NoError(t, err)
	ends, err := sources.LogEnds(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []store.LogEnd{{Topic: at.topic}, {Topic: at.topic, Partition: 1}, {Topic: other},
		{Topic: other, Partition: 1, End: 2}}, ends)

	gone, err := admin.DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{other}})
	require.NoError(t, err)
	require.NoError(t, gone.Errors[other])
	require.Eventually(t, func() bool {
		l, err = sources.Layout(t.Context())
		return err == nil && len(l.Partitions) == 1
	}, time.Minute, 5*time.Millisecond)
	require.Len(t, l.Faults, 1)
	require.EqualError(t, l.Faults[0], "no topic matches /"+other+".*/=acme")
	ends, err = sources.LogEnds(t.Context())
	require.NoError(t, err, "what fits a pattern may go")
	require.Len(t, ends, 2)

	set, err = topics.Parse([]string{at.topic, other}, "")
	require.NoError(t, err)
	_, err = cluster.Sources(set).LogEnds(t.Context())
	require.EqualError(t, err, "topic "+other+" does not exist", "what is named may not")
	set, err = topics.Parse([]string{"/nothing/"}, "")
	require.NoError(t, err)
	_, err = cluster.Sources(set).LogEnds(t.Context())
	require.EqualError(t, err, "no topic matches /nothing/")
}

// The ends of logs are those of all partitions that there are when they are asked for, however old what the client
// knows of the cluster may be: a record in one that was added since is never overlooked.
func TestLogEndsIncludeNewPartitions(t *testing.T) {
	at := target{addr: embeddedBroker(t).Addr(), topic: topic}
	cluster := connect(t, kafka.Config{Brokers: []string{at.addr}, MetadataAge: time.Hour})
	set, err := topics.Parse([]string{topic, "/line-.*/"}, "")
	require.NoError(t, err)
	ends, err := cluster.Sources(set).LogEnds(t.Context())
	require.NoError(t, err)
	require.Len(t, ends, 2)
	admin := client(t, at)
	made, err := admin.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{
		{Topic: "line-a", NumPartitions: 1, ReplicationFactor: 1}}})
	require.NoError(t, err)
	require.NoError(t, made.Errors["line-a"])
	ends, err = cluster.Sources(set).LogEnds(t.Context())
	require.True(t, err != nil || len(ends) == 3, "%v: all of them, or none", ends)
	again := connect(t, kafka.Config{Brokers: []string{at.addr}, MetadataAge: time.Hour})
	ends, err = again.Sources(set).LogEnds(t.Context())
	require.NoError(t, err)
	require.Len(t, ends, 3)
}
