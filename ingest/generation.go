package ingest

import (
	"errors"
	"fmt"
	"time"

	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
)

// generation is the partitions of a process from one assignment to the next, and the identity by which it commits
// them: a generation of the group, or none where partitions are assigned by ordinal.
type generation struct {
	cluster    *kafka.Client
	group      string
	id         int32
	member     string
	partitions []topicPartition
	conns      *groupConns // commits end with it
}

func (t *generation) commit(of topicPartition, offset int64, metadata string) error {
	err := t.cluster.Topic(of.topic).Commit(t.conns.ctx, kafka.Commit{
		Group: t.group, Generation: t.id, Member: t.member, Partition: of.partition, Offset: offset,
		Metadata: metadata,
	})
	if t.assigned() && errors.Is(err, kafkago.UnknownMemberId) {
		return fmt.Errorf("group %s has members, which commit alone: %w", t.group, err)
	}
	return err
}

// lost reports whether a commit's error means that another process has the partition. Without a group it never does:
// members left over go.
func (t *generation) lost(err error) bool {
	return !t.assigned() && (errors.Is(err, kafkago.IllegalGeneration) || errors.Is(err, kafkago.UnknownMemberId) ||
		errors.Is(err, kafkago.RebalanceInProgress) || errors.Is(err, kafkago.FencedInstanceID))
}

func (t *generation) assigned() bool { return t.id == kafka.NoGeneration }

// generationBackoff is the least time from the begin of a generation to the next.
const generationBackoff = 500 * time.Millisecond
