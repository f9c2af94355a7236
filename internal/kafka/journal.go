package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/stream/topics"
)

// JournalOf returns the name of a topic's journal.
func JournalOf(topic string) string { return topic + topics.JournalSuffix }

// Journal is a topic that accompanies a source topic, with as many partitions. Its records are deleted by age only.
type Journal struct {
	Source *Topic
	Topic  *Topic
	Keep   time.Duration // the shortest retention: the longest hold plus an outage
}

// ErrJournal is the error of a topic that can't serve as a journal.
var ErrJournal = errors.New("the journal can't serve")

// JournalChange is a change that a journal needs.
type JournalChange struct {
	What string // for people, such as "create topic ..."

	do func(ctx context.Context) error
}

// Names in a topic's configuration.
const (
	cleanupPolicy   = "cleanup.policy"
	retentionTime   = "retention.ms"
	retentionBytes  = "retention.bytes"
	segmentTime     = "segment.ms"
	maxMessageBytes = "max.message.bytes"
	inSyncReplicas  = "min.insync.replicas"
)

// leastMessageBytes is the smallest max.message.bytes that accepts one Append.
const leastMessageBytes = AppendBytes + batchOverhead

// Plan reads both topics and returns the changes that the journal needs. Its error wraps ErrJournal when only a person
// should change the topic, such as one that is compacted; it comes with the other changes.
func (j Journal) Plan(ctx context.Context) ([]JournalChange, error) {
	source, err := j.Source.shape(ctx, inSyncReplicas)
	if err != nil {
		return nil, err
	}
	own, err := j.Topic.shape(ctx, cleanupPolicy, retentionTime, retentionBytes, maxMessageBytes)
	switch {
	case IsUnknownTopic(err):
		return []JournalChange{j.made(source)}, nil
	case err != nil:
		return nil, err
	}
	return j.changes(source, own), j.faults(own)
}

func (j Journal) made(source shape) JournalChange {
	s := shape{partitions: source.partitions, replicas: source.replicas, configs: map[string]string{
		cleanupPolicy: "delete", retentionTime: millis(j.Keep), retentionBytes: "-1", segmentTime: millis(segment(j.Keep)),
		maxMessageBytes: strconv.Itoa(max(leastMessageBytes, 1<<20+12)),
	}}
	if in := source.configs[inSyncReplicas]; in != "" {
		s.configs[inSyncReplicas] = in
	}
	what := fmt.Sprintf("create topic %s with %d partitions and %d replicas, kept for %s", j.Topic.name, s.partitions,
		s.replicas, j.Keep)
	return JournalChange{what, func(ctx context.Context) error { return j.Topic.make(ctx, s) }}
}

// segment returns the time that one segment of the log covers. Records are kept longer than needed by at most that.
func segment(keep time.Duration) time.Duration { return max(keep/8, 10*time.Minute) }

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

// faults returns an error if the topic can't be a journal; it may belong to another application.
func (j Journal) faults(own shape) error {
	if policy := own.configs[cleanupPolicy]; strings.Contains(policy, "compact") {
		return fmt.Errorf("%w: topic %s has %s=%s, and compaction would delete blocks", ErrJournal, j.Topic.name,
			cleanupPolicy, policy)
	}
	return nil
}

// Ensure applies the plan and returns descriptions of its changes. Several processes may call it at once.
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

// Check returns an error that wraps ErrJournal unless the plan is empty. Settings that brokers do not report count as
// right.
func (j Journal) Check(ctx context.Context) error {
	changes, err := j.Plan(ctx)
	faults := []error{err}
	for _, c := range changes {
		faults = append(faults, fmt.Errorf("%w: %s, or run binnacle provision --journal-of %s", ErrJournal,
			c.What, j.Source.name))
	}
	return errors.Join(faults...)
}

func number(s shape, name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s.configs[name], 10, 64)
	return n, err == nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
