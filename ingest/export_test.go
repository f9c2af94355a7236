package ingest

import (
	"context"
	"time"

	"binnacle/ingest/journal"
	"binnacle/internal/control"
	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
)

// NewSticky is what shares partitions out, as a process has it that has some, by topic, from a generation on, and knows
// some.
func NewSticky(generation int32, has, known map[string][]int) kafkago.GroupBalancer {
	s := &stickyBalancer{}
	s.setOwn(generation, (&layout{topics: has}).partitions())
	s.setTopics(known)
	return s
}

// ReplayOf estimates the work of a process that continues from a commit.
func ReplayOf(end, floor int64, c journal.Commit, perSecond float64) Replay {
	return replay(BinsPartition{End: end, Floor: floor}, c, perSecond)
}

// ErrRetake says that the log may be another one.
var ErrRetake = errRetake

// NewReader reads a partition from an offset on; what it returns is the offset to go on from.
func NewReader(topic *kafka.Topic, partition int) func(ctx context.Context, offset int64) (next int64, err error) {
	r := &reader{topic: topic, partition: partition}
	return func(ctx context.Context, offset int64) (int64, error) {
		b, err := r.fetch(ctx, offset)
		b.Release()
		return b.Next, err
	}
}

// AssignedOf is which partitions of some topics, or of one alone, a process of a host is set to.
func AssignedOf(text, host string, topics map[string][]int, alone bool) (map[string][]int, error) {
	a, err := parseAssignmentOn(text, host)
	if err != nil {
		return nil, err
	}
	own := map[string][]int{}
	for _, p := range a.share((&layout{topics: topics}).partitions(), alone) {
		own[p.topic] = append(own[p.topic], p.partition)
	}
	return own, nil
}

// LookAtJournals looks at the journal of a topic, as an ingester does each minute.
func LookAtJournals(in *Ingester) func(ctx context.Context, topic string) {
	w := journalWatch{in, map[string]int{}, map[string]string{}}
	return w.check
}

// OwnShared has a process, which is not run, begin a generation for which it has shared out so many partitions of a
// topic, of which it knows others by then; it returns when the generation has ended.
func OwnShared(ctx context.Context, in *Ingester, topic string, shared, known int) {
	numbers := func(n int) (all []int) {
		for p := range n {
			all = append(all, p)
		}
		return all
	}
	var told []kafkago.Partition
	for _, p := range numbers(shared) {
		told = append(told, kafkago.Partition{Topic: topic, ID: p})
	}
	m := &member{in: in, shares: &stickyBalancer{}}
	m.shares.AssignGroups([]kafkago.GroupMember{{ID: "a", Topics: []string{topic}}}, told)
	in.running = ctx
	in.layout.Store(&layout{map[string][]int{topic: numbers(known)}, make(chan struct{})})
	m.runGeneration(ctx, &kafkago.Generation{ID: 1})
}

// Horizon is horizon.
type Horizon = horizon

// Follow is horizon.follow, of a snapshot that was read at a time.
func (h *horizon) Follow(readAt time.Time, fetched int64, now time.Time) int64 {
	return h.follow(&control.Snapshot{ReadAt: readAt}, fetched, now)
}
