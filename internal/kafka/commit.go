package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
)

// Committed is a commit of a group for a partition.
type Committed struct {
	Offset   int64
	Metadata string
}

// Commits returns the commits of a group for some partitions, or for all of the topic; a partition without a commit is
// missing. Offset and metadata belong together only in one answer: an offset from elsewhere, such as a group's
// assignment, may be of another commit.
func (t *Topic) Commits(ctx context.Context, group string, partitions ...int) (all map[int]Committed, err error) {
	if len(partitions) == 0 {
		if partitions, err = t.Partitions(ctx); err != nil {
			return nil, err
		}
	}
	res, err := t.client.api.OffsetFetch(ctx, &kafkago.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{t.name: partitions},
	})
	if err == nil {
		err = res.Error
	}
	if errors.Is(err, kafkago.GroupIdNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what group %s has committed of %s: %w", group, t.name, err)
	}
	all = make(map[int]Committed, len(partitions))
	for _, p := range res.Topics[t.name] {
		if p.Error != nil {
			return nil, fmt.Errorf("read what group %s has committed of %s/%d: %w", group, t.name, p.Partition, p.Error)
		}
		if p.CommittedOffset >= 0 {
			all[p.Partition] = Committed{p.CommittedOffset, p.Metadata}
		}
	}
	return all, nil
}

// MaxMetadata is the longest metadata of a commit, in bytes: the default of offset.metadata.max.bytes in Apache Kafka.
const MaxMetadata = 4096

// Commit is an offset of one partition that a group commits.
type Commit struct {
	Group      string
	Generation int32  // the member's generation; NoGeneration without a member
	Member     string // empty without a member
	Partition  int
	Offset     int64
	Metadata   string // at most MaxMetadata bytes
}

// NoGeneration is the generation of a commit without a member. Brokers accept it only while the group has no members,
// and else answer UnknownMemberId.
const NoGeneration = -1

// keepOffsets is the retention of an offset in brokers older than Kafka 2.1, which take it from each commit.
const keepOffsets = 365 * 24 * time.Hour

// Commit attempts one commit, and looks the coordinator up first. Errors are kafka-go's. The group has given the
// partition to another member after IllegalGeneration, UnknownMemberId, RebalanceInProgress and FencedInstanceID. The
// caller may repeat the attempt when the error is not Permanent: the network, or a coordinator that moves
// (NotCoordinatorForGroup), is missing (GroupCoordinatorNotAvailable) or loads (GroupLoadInProgress). The offset may
// then be committed already.
func (t *Topic) Commit(ctx context.Context, c Commit) error {
	return failed(t.commit(ctx, c), "commit offset %d of %s/%d for group %s", c.Offset, t.name, c.Partition, c.Group)
}

func (t *Topic) commit(ctx context.Context, c Commit) error {
	if len(c.Metadata) > MaxMetadata {
		return kafkago.OffsetMetadataTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, t.client.cfg.RequestTimeout)
	defer cancel()
	// kafka-go's own call makes old brokers forget the offset after a day, and sends a made-up leader epoch, from which
	// other clients would conclude that the log was truncated.
	res, err := t.client.api.Transport.RoundTrip(ctx, t.client.api.Addr, &offsetcommit.Request{
		GroupID: c.Group, GenerationID: c.Generation, MemberID: c.Member,
		RetentionTimeMs: keepOffsets.Milliseconds(),
		Topics: []offsetcommit.RequestTopic{{Name: t.name, Partitions: []offsetcommit.RequestPartition{{
			PartitionIndex: int32(c.Partition), CommittedOffset: c.Offset, CommittedMetadata: c.Metadata,
			CommitTimestamp: time.Now().UnixMilli(), CommittedLeaderEpoch: -1,
		}}}},
	})
	if err != nil {
		return err
	}
	topics := res.(*offsetcommit.Response).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return fmt.Errorf("an answer about %d topics: %w", len(topics), io.ErrUnexpectedEOF)
	}
	if code := topics[0].Partitions[0].ErrorCode; code != 0 {
		return kafkago.Error(code)
	}
	return nil
}

// Member is a process in a consumer group.
type Member struct {
	ClientID, Host string
	Data           []byte // user data of its join request
}

// Members returns the members of a consumer group. It fails while the group shares out its partitions: then brokers
// know of no member what it joined with. A group that does not exist has none.
func (c *Client) Members(ctx context.Context, group string) ([]Member, error) {
	res, err := c.api.DescribeGroups(ctx, &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err == nil && len(res.Groups) == 1 {
		err = res.Groups[0].Error
	}
	if err != nil {
		return nil, fmt.Errorf("describe the consumer group %s: %w", group, err)
	}
	if len(res.Groups) != 1 {
		return nil, fmt.Errorf("describe the consumer group %s: the broker did not answer for it", group)
	}
	g := res.Groups[0]
	if g.GroupState == "PreparingRebalance" || g.GroupState == "CompletingRebalance" {
		return nil, fmt.Errorf("the consumer group %s is sharing out its partitions (%s): try again", group, g.GroupState)
	}
	members := make([]Member, len(g.Members))
	for i, m := range g.Members {
		members[i] = Member{ClientID: m.ClientID, Host: m.ClientHost, Data: m.MemberMetadata.UserData}
	}
	return members, nil
}

// ClusterID returns the id of the cluster.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	res, err := c.api.Metadata(ctx, &kafkago.MetadataRequest{})
	if err != nil {
		return "", fmt.Errorf("read metadata of the cluster: %w", err)
	}
	return c.clusterID(res.ClusterID)
}
