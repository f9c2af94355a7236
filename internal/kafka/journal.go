// Package kafka is the Kafka client: connections with TLS and SASL, metadata of topics, log ends, commits, producing,
// and fetching within bounds of memory. It knows records as bytes and nothing of telemetry. The consumer group is in
// package ingest and connects through this package.
//
// Requests are kafka-go's except for the fetch: kafka-go decompresses batches without a bound and delivers records of
// aborted transactions.
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

// AppendBytes is the most that the messages of one Append may take, by Message.Bytes. It is below the default batch
// limit of all brokers, so that a broker refuses only a single message for its size.
const AppendBytes = 900_000

var errNothing = errors.New("no messages to append")

// Append appends messages to one partition by exactly one request. It returns the offset of the first one once all
// replicas in sync have all of them; the others follow without a gap. It never sends the request again.
//
// After ErrTooLarge nothing was appended: the messages exceed AppendBytes, or the limit of the broker or of the
// client. Fewer of them may fit. After any other error the messages may be in the log, now or later.
func (t *Topic) Append(ctx context.Context, partition int, messages []Message) (base int64, err error) {
	base, err = t.append(ctx, partition, messages)
	return base, failed(err, "append to %s/%d", t.name, partition)
}

func (t *Topic) append(ctx context.Context, partition int, messages []Message) (base int64, err error) {
	if len(messages) == 0 {
		return 0, errNothing // the client would return offset 0
	}
	size := 0
	for i := range messages {
		size += messages[i].Bytes()
	}
	if own := t.client.cfg.MaxRequestBytes; size > AppendBytes || own > 0 && size+batchOverhead > own {
		return 0, fmt.Errorf("%d messages of %d bytes: %w", len(messages), size, ErrTooLarge)
	}
	return t.produce(ctx, partition, messages)
}
