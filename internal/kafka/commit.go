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

// Committed is what a group has committed of a partition: offset and metadata of one commit.
type Committed struct {
	Offset   int64
	Metadata string
}

// Commits returns what a group has committed of some partitions, or of all of the topic's; a partition of which it has
// committed nothing is missing. Offset and metadata belong together only as they come from one answer: an offset that
// was read elsewhere, such as the one that a group's assignment has, may be of another commit.
func (t *Topic) Commits(ctx context.Context, group string, partitions ...int) (all map[int]Committed, err error) {
	if len(partitions) == 0 {
		if partitions, err = t.Partitions(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, t.client.cfg.RequestTimeout)
	defer cancel()
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

// MaxMetadata is the longest metadata that a broker takes with a commit, in bytes: offset.metadata.max.bytes of Apache
// Kafka as it is by default.
const MaxMetadata = 4096

// Commit is an offset that a group commits of one partition.
type Commit struct {
	Group      string
	Generation int32  // of the member; NoGeneration for a commit that no member makes
	Member     string // empty for a commit that no member makes
	Partition  int
	Offset     int64
	Metadata   string // at most MaxMetadata bytes
}

// NoGeneration is the generation of a commit that no member makes. Brokers take it while the group has no members:
// with any, it fails with UnknownMemberId.
const NoGeneration = -1

// keepOffsets is how long brokers older than Kafka 2.1 keep an offset, which are told with each commit; later ones keep
// it as they are configured.
const keepOffsets = 365 * 24 * time.Hour

// Commit makes one attempt at a commit; the coordinator is looked for each time. Errors are kafka-go's. The group has
// given the partition to somebody else when it is IllegalGeneration, UnknownMemberId, RebalanceInProgress or
// FencedInstanceID. The attempt may be repeated when the error is not Permanent: the network, a coordinator that moves
// (NotCoordinatorForGroup), is not there (GroupCoordinatorNotAvailable) or is loading (GroupLoadInProgress). Then the
// offset may be committed all the same.
func (t *Topic) Commit(ctx context.Context, c Commit) error {
	err := t.commit(ctx, c)
	if err != nil {
		return fmt.Errorf("commit offset %d of %s/%d for group %s: %w", c.Offset, t.name, c.Partition, c.Group, err)
	}
	return nil
}

func (t *Topic) commit(ctx context.Context, c Commit) error {
	if len(c.Metadata) > MaxMetadata {
		return kafkago.OffsetMetadataTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, t.client.cfg.RequestTimeout)
	defer cancel()
	// kafka-go's own call has old brokers forget the offset after a day, and tells an epoch of a leader that it does not
	// know, by which other clients would take the log for truncated.
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
