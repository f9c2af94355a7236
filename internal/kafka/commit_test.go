package kafka_test

import (
	"strings"
	"testing"
	"time"

	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

// eventually makes attempts at what a broker may refuse for a while.
func eventually(t *testing.T, attempt func() error) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = attempt()
		return err == nil || kafka.IsPermanent(err)
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, err)
}

// The commits of a group are returned by partition, with its metadata; what it hasn't is left out.
func whatAGroupHasCommitted(t *testing.T, at target) {
	of := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(at.topic)
	var all map[int]kafka.Committed
	commits := func(group string) map[int]kafka.Committed {
		eventually(t, func() (err error) { all, err = of.Commits(t.Context(), group); return err })
		return all
	}
	require.Empty(t, commits(at.group))
	none := kafka.Commit{Group: at.group, Generation: kafka.NoGeneration, Partition: 1}
	c := none
	c.Offset, c.Metadata = 2, "carries on at 7"
	eventually(t, func() error { return of.Commit(t.Context(), c) })
	require.Equal(t, map[int]kafka.Committed{1: {Offset: 2, Metadata: "carries on at 7"}}, commits(at.group))
	require.Empty(t, commits(at.group+"-other"))

	c.Offset, c.Metadata = 3, "" // a commit without metadata removes it
	require.NoError(t, of.Commit(t.Context(), c))
	require.Equal(t, map[int]kafka.Committed{1: {Offset: 3}}, commits(at.group))

	c.Offset, c.Metadata = 4, strings.Repeat("m", kafka.MaxMetadata)
	require.NoError(t, of.Commit(t.Context(), c))
	require.Equal(t, map[int]kafka.Committed{1: {Offset: 4, Metadata: c.Metadata}}, commits(at.group))
	c.Offset, c.Metadata = 5, c.Metadata+"m"
	err := of.Commit(t.Context(), c)
	require.ErrorIs(t, err, kafkago.OffsetMetadataTooLarge)
	require.True(t, kafka.IsPermanent(err))
	require.EqualValues(t, 4, commits(at.group)[1].Offset)

	c.Partition, c.Metadata = 9, ""
	require.ErrorIs(t, of.Commit(t.Context(), c), kafkago.UnknownTopicOrPartition)
}

// Brokers refuse long metadata themselves, the embedded one too: another client must not be able to do there what it
// could do nowhere else.
func brokersRefuseLongMetadata(t *testing.T, at target) {
	of := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(at.topic)
	eventually(t, func() error { _, err := of.Commits(t.Context(), at.group); return err })
	for size, want := range map[int]error{
		kafka.MaxMetadata: nil, kafka.MaxMetadata + 1: kafkago.OffsetMetadataTooLarge,
	} {
		res, err := client(t, at).OffsetCommit(t.Context(), &kafkago.OffsetCommitRequest{
			GroupID: at.group, GenerationID: -1, Topics: map[string][]kafkago.OffsetCommit{
				at.topic: {{Partition: 0, Offset: 1, Metadata: strings.Repeat("m", size)}},
			}})
		require.NoError(t, err)
		require.Equal(t, want, res.Topics[at.topic][0].Error)
	}
}

// join makes a member of a group without giving it partitions yet.
func join(t *testing.T, at target, member string) *kafkago.JoinGroupResponse {
	t.Helper()
	res, err := client(t, at).JoinGroup(t.Context(), &kafkago.JoinGroupRequest{
		GroupID: at.group, MemberID: member, ProtocolType: "consumer", SessionTimeout: 10 * time.Second,
		RebalanceTimeout: 10 * time.Second,
		Protocols: []kafkago.GroupProtocol{{Name: "range", Metadata: kafkago.GroupProtocolSubscription{
			Topics: []string{at.topic}}}},
	})
	require.NoError(t, err)
	return res
}

// A member commits in its own generation; one that has lost the partition gets an error for each cause.
func aCommitOfAnotherGeneration(t *testing.T, at target) {
	of := connect(t, kafka.Config{Brokers: []string{at.addr}}).Topic(at.topic)
	eventually(t, func() error { _, err := of.Commits(t.Context(), at.group); return err })
	joined := join(t, at, "")
	if joined.MemberID != "" && joined.Error != nil { // newer brokers give an id first
		require.ErrorIs(t, joined.Error, kafkago.MemberIDRequired)
		joined = join(t, at, joined.MemberID)
	}
	require.NoError(t, joined.Error)
	own := kafka.Commit{Group: at.group, Generation: int32(joined.GenerationID), Member: joined.MemberID, Partition: 1,
		Offset: 5, Metadata: "own"}
	require.ErrorIs(t, of.Commit(t.Context(), own), kafkago.RebalanceInProgress, "partitions are being given")

	synced, err := client(t, at).SyncGroup(t.Context(), &kafkago.SyncGroupRequest{
		GroupID: at.group, GenerationID: joined.GenerationID, MemberID: joined.MemberID, ProtocolType: "consumer",
		ProtocolName: "range",
		Assignments: []kafkago.SyncGroupRequestAssignment{{MemberID: joined.MemberID,
			Assignment: kafkago.GroupProtocolAssignment{AssignedPartitions: map[string][]int{at.topic: {0, 1}}}}},
	})
	require.NoError(t, err)
	require.NoError(t, synced.Error)
	require.NoError(t, of.Commit(t.Context(), own))

	for name, refused := range map[string]struct {
		change func(*kafka.Commit)
		with   kafkago.Error
	}{
		"the generation before": {func(c *kafka.Commit) { c.Generation-- }, kafkago.IllegalGeneration},
		"one to come":           {func(c *kafka.Commit) { c.Generation++ }, kafkago.IllegalGeneration},
		"somebody else":         {func(c *kafka.Commit) { c.Member = "nobody" }, kafkago.UnknownMemberId},
		"no member": {func(c *kafka.Commit) { c.Generation, c.Member = kafka.NoGeneration, "" },
			kafkago.UnknownMemberId},
	} {
		c := own
		c.Offset, c.Metadata = 9, "stolen"
		refused.change(&c)
		err := of.Commit(t.Context(), c)
		require.ErrorIs(t, err, refused.with, name)
		require.True(t, kafka.IsPermanent(err), name)
	}
	all, err := of.Commits(t.Context(), at.group)
	require.NoError(t, err)
	require.Equal(t, map[int]kafka.Committed{1: {Offset: 5, Metadata: "own"}}, all)

	left, err := client(t, at).LeaveGroup(t.Context(), &kafkago.LeaveGroupRequest{GroupID: at.group,
		Members: []kafkago.LeaveGroupRequestMember{{ID: joined.MemberID}}})
	require.NoError(t, err)
	require.NoError(t, left.Error)
	err = of.Commit(t.Context(), own)
	require.True(t, err != nil && kafka.IsPermanent(err), err)
	own.Generation, own.Member, own.Offset = kafka.NoGeneration, "", 6
	require.NoError(t, of.Commit(t.Context(), own), "the group has no members any more")
}

// A coordinator that moves is found by the next attempt, which knows nothing of it.
func TestCommitFindsCoordinator(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, topic))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	of := connect(t, kafka.Config{Brokers: cluster.ListenAddrs()[:1]}).Topic(topic)
	seen := map[int32]bool{}
	for offset := int64(1); offset < 100 && len(seen) < 3; offset++ {
		seen[cluster.CoordinatorFor("g")] = true
		c := kafka.Commit{Group: "g", Generation: kafka.NoGeneration, Offset: offset, Metadata: "m"}
		require.NoError(t, of.Commit(t.Context(), c))
		all, err := of.Commits(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, map[int]kafka.Committed{0: {Offset: offset, Metadata: "m"}}, all)
		cluster.RehashCoordinators()
	}
	require.Len(t, seen, 3)
}
