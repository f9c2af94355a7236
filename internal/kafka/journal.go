package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/topics"
)

// JournalOf is the name that the journal of a topic has.
func JournalOf(topic string) string { return topic + topics.JournalSuffix }

// Journal is a topic beside a source, with a partition for each of the source's, in which records stay for a time and
// go by nothing else.
type Journal struct {
	Source *Topic
	Topic  *Topic
	Keep   time.Duration // how long a record must stay: the longest hold, and an outage
}

// ErrJournal is the error of a journal that can't serve as it is.
var ErrJournal = errors.New("the journal can't serve")

// JournalChange is something that makes a journal what it must be.
type JournalChange struct {
	What string // for people: "make topic ..."

	do func(ctx context.Context) error
}

// What a topic's configuration is called.
const (
	cleanupPolicy   = "cleanup.policy"
	retentionTime   = "retention.ms"
	retentionBytes  = "retention.bytes"
	segmentTime     = "segment.ms"
	maxMessageBytes = "max.message.bytes"
	inSyncReplicas  = "min.insync.replicas"
)

// leastMessageBytes is what a topic must take for one Append.
const leastMessageBytes = AppendBytes + batchOverhead

// Plan looks at both topics and returns what is to be changed. Its error wraps ErrJournal when the journal is something
// that nobody should change unasked, such as a topic that is compacted; what is to be changed besides is told all the
// same.
func (j Journal) Plan(ctx context.Context) ([]JournalChange, error) {
	source, err := j.Source.shape(ctx, inSyncReplicas)
	if err != nil {
		return nil, err
	}
	own, err := j.Topic.shape(ctx, cleanupPolicy, retentionTime, retentionBytes, maxMessageBytes)
	switch {
	case NoTopic(err):
		return []JournalChange{j.made(source)}, nil
	case err != nil:
		return nil, err
	}
	return j.changes(source, own), j.faults(own)
}

// made is the change that makes the topic.
func (j Journal) made(source shape) JournalChange {
	s := shape{partitions: source.partitions, replicas: source.replicas, configs: map[string]string{
		cleanupPolicy: "delete", retentionTime: millis(j.Keep), retentionBytes: "-1", segmentTime: millis(segment(j.Keep)),
		maxMessageBytes: strconv.Itoa(max(leastMessageBytes, 1<<20+12)),
	}}
	if in := source.configs[inSyncReplicas]; in != "" {
		s.configs[inSyncReplicas] = in
	}
	what := fmt.Sprintf("make topic %s with %d partitions and %d replicas, kept for %s", j.Topic.name, s.partitions,
		s.replicas, j.Keep)
	return JournalChange{what, func(ctx context.Context) error { return j.Topic.make(ctx, s) }}
}

// segment is how long records are gathered that go together: what is kept too long is at most that.
func segment(keep time.Duration) time.Duration { return max(keep/8, 10*time.Minute) }

// changes are those of a topic that is there.
func (j Journal) changes(source, own shape) (all []JournalChange) {
	if own.partitions < source.partitions {
		what := fmt.Sprintf("give topic %s %d partitions instead of %d, as topic %s has", j.Topic.name, source.partitions,
			own.partitions, j.Source.name)
		all = append(all, JournalChange{what, func(ctx context.Context) error {
			return j.Topic.grow(ctx, source.partitions)
		}})
	}
	if kept, ok := number(own, retentionTime); ok && kept >= 0 && kept < j.Keep.Milliseconds() {
		all = append(all, j.set(retentionTime, millis(j.Keep), own))
	}
	if kept, ok := number(own, retentionBytes); ok && kept >= 0 {
		all = append(all, j.set(retentionBytes, "-1", own))
	}
	if most, ok := number(own, maxMessageBytes); ok && most < leastMessageBytes {
		all = append(all, j.set(maxMessageBytes, strconv.Itoa(leastMessageBytes), own))
	}
	return all
}

func (j Journal) set(name, value string, own shape) JournalChange {
	what := fmt.Sprintf("set %s of topic %s to %s instead of %s", name, j.Topic.name, value, own.configs[name])
	return JournalChange{what, func(ctx context.Context) error { return j.Topic.configure(ctx, name, value) }}
}

// faults are what is wrong with a topic that may be somebody else's.
func (j Journal) faults(own shape) error {
	if policy := own.configs[cleanupPolicy]; strings.Contains(policy, "compact") {
		return fmt.Errorf("%w: topic %s has %s=%s, and compaction would take blocks away", ErrJournal, j.Topic.name,
			cleanupPolicy, policy)
	}
	return nil
}

// Ensure changes what is to be changed, and returns what it has done for people to read. Several may do it at once.
func (j Journal) Ensure(ctx context.Context) (done []string, err error) {
	changes, err := j.Plan(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if err := c.do(ctx); err != nil {
			return done, err
		}
		done = append(done, c.What)
	}
	return done, nil
}

// Check fails, with ErrJournal, unless the journal is what it must be. What brokers do not tell is taken for right.
func (j Journal) Check(ctx context.Context) error {
	changes, err := j.Plan(ctx)
	faults := []error{err}
	for _, c := range changes {
		faults = append(faults, fmt.Errorf("%w: somebody has to %s; binnacle provision --journal-of %s does", ErrJournal,
			c.What, j.Source.name))
	}
	return errors.Join(faults...)
}

func number(s shape, name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s.configs[name], 10, 64)
	return n, err == nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
