package ingest

import (
	"errors"
	"fmt"

	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
)

// generation is which partitions a process has for a while, and in whose name it commits meanwhile: a generation of the
// group, or nobody's where partitions are assigned by ordinal.
type generation struct {
	cluster    *kafka.Client
	group      string
	id         int32
	member     string
	partitions []topicPartition
	conns      *groupConns // commits end with it
}

// commit makes one attempt at committing an offset and what goes with it.
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

// lost reports whether a commit's error says that the partition is somebody else's. Where no group gives partitions it
// never is: members that are left over go.
func (t *generation) lost(err error) bool {
	return !t.assigned() && (errors.Is(err, kafkago.IllegalGeneration) || errors.Is(err, kafkago.UnknownMemberId) ||
		errors.Is(err, kafkago.RebalanceInProgress) || errors.Is(err, kafkago.FencedInstanceID))
}

func (t *generation) assigned() bool { return t.id == kafka.NoGeneration }
