package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
	"binnacle/internal/store"
)

// Blocks has what a Journal took.
type Blocks interface {
	Partition(topic string, partition int32) BlockLog
}

// BlockLog is one partition of the journal, to be read. A topic that is not there has nothing.
type BlockLog interface {
	// Bounds returns the offsets of the first record that is still there and the one after the last.
	Bounds(ctx context.Context) (first, end int64, err error)
	// Each calls f with the records from an offset to before another, in their order; the value is good until f returns.
	Each(ctx context.Context, from, to int64, f func(offset int64, value []byte) error) error
}

// loading is a new Worker that loads blocks of a journal, before it is fed anything (rule J4).
type loading struct {
	worker   *worker.Worker
	log      BlockLog
	now      func() time.Time
	progress func(left int64) // is called with the number of records that are left, now and then
}

// load loads the blocks that a commit counts on; floor is the offset that was committed with it. After
// journal.ErrNotWhole the Worker can't be used, and a new one starts at the floor. After any other error too, but
// another attempt may load.
func (l *loading) load(ctx context.Context, c journal.Commit, floor int64) error {
	w, log := l.worker, l.log
	first, end, err := log.Bounds(ctx)
	if err != nil {
		return err
	}
	loader, err := journal.NewLoader(c, floor, first, end)
	if err != nil {
		return err
	}
	loaded := w.BeginLoad(c, floor)
	for !loader.Done() {
		before := loader.Next()
		err := log.Each(ctx, before, c.To, func(offset int64, value []byte) error {
			r, counts, err := loader.Take(offset, value)
			if err != nil || offset >= c.To {
				return err
			}
			if left := loader.Left(); left%loadStep == 0 {
				l.progress(left)
			}
			return loaded.TakeRecord(offset, &r, counts)
		})
		if err != nil {
			return err
		}
		if loader.Next() == before {
			return errNoBlocks
		}
	}
	l.progress(0)
	return loaded.Done(loader.Last(), l.now())
}

// loadStep is the number of records between two calls of progress.
const loadStep = 1024

// loadTimes loads into the worker of a partition that comes back the times that another process has left in the
// journal: the catalog lacks them, and that process may be dead (rule J8).
func (p *partition) loadTimes(ctx context.Context, metadata string) error {
	c, ok := journal.ParseCommit(metadata)
	if !ok || p.in.stores.Blocks == nil || metadata == p.metadata || c.Stream != p.worker.Stream() {
		return nil
	}
	times := p.worker.BeginTimes(p.in.stores.Directory.Snapshot())
	return loadTimes(ctx, times, c, p.in.stores.Blocks.Partition(p.at.topic, int32(p.at.partition)))
}

// loadTimes loads the times of devices from the records that a commit counts on.
func loadTimes(ctx context.Context, times *worker.LoadingTimes, c journal.Commit, log BlockLog) error {
	first, end, err := log.Bounds(ctx)
	if err != nil {
		return err
	}
	from, to := max(first, c.From), min(end, c.To)
	if from >= to {
		return nil
	}
	err = log.Each(ctx, from, to, func(offset int64, value []byte) error {
		if r, err := journal.ParseRecord(value); err == nil && offset < c.To { // reading the blocks later finds the damage
			times.Take(offset, &r)
		}
		return nil
	})
	if err == nil {
		times.Done(c)
	}
	return err
}

// errNoBlocks means that the journal has records by its bounds, and returned none.
var errNoBlocks = errors.New("the journal has records and returns none")

// TopicJournal is a journal in Kafka: a topic for each that is read, partition for partition.
type TopicJournal struct{ cluster *kafka.Client }

// NewTopicJournal appends to topics of a cluster.
func NewTopicJournal(cluster *kafka.Client) *TopicJournal { return &TopicJournal{cluster} }

func (j *TopicJournal) of(topic string) *kafka.Topic { return j.cluster.Topic(kafka.JournalOf(topic)) }

// Append implements Journal.
func (j *TopicJournal) Append(ctx context.Context, topic string, partition int32,
	values [][]byte) (base int64, err error) {
	messages := make([]kafka.Message, len(values))
	for i, v := range values {
		messages[i].Value = v
	}
	base, err = j.of(topic).Append(ctx, int(partition), messages)
	if errors.Is(err, kafka.ErrTooLarge) {
		return 0, fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	}
	return base, err
}

// Partition implements Blocks.
func (j *TopicJournal) Partition(topic string, partition int32) BlockLog {
	return topicBlocks{j.of(topic), int(partition)}
}

type topicBlocks struct {
	topic     *kafka.Topic
	partition int
}

// Bounds implements BlockLog.
func (b topicBlocks) Bounds(ctx context.Context) (first, end int64, err error) {
	first, end, err = b.topic.Bounds(ctx, b.partition)
	if kafka.IsUnknownTopic(err) {
		return 0, 0, nil // a journal that is gone has nothing
	}
	return first, end, err
}

// Each implements BlockLog.
func (b topicBlocks) Each(ctx context.Context, from, to int64, f func(offset int64, value []byte) error) error {
	return b.topic.Each(ctx, kafka.Span{Partition: b.partition, From: from, To: to}, func(r *kafka.Record) error {
		return f(r.Offset, r.Value)
	}, nil)
}
