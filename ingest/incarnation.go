package ingest

import (
	"context"
	"fmt"

	"binnacle/ingest/admit"
	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
	"binnacle/internal/stream"
)

// priorRead is what a process knows of a partition from reading it before.
type priorRead struct {
	// the log must not end before: the record just below was seen by this process or is in the store; 0 none
	reached int64
	last    *stream.Mark // mark of the last record that was read; nil before the first one
}

// identify decides as which stream and from which offset a partition is read (rule W9); first is the offset of the
// first record that its log still has, which may lie above.
//
// What the log must have is asked first, and where it ends afterwards: a former owner may still commit and stamp.
func (in *Ingester) identify(ctx context.Context, at topicPartition, commit kafka.Committed,
	known priorRead) (a worker.Assignment, first int64, err error) {
	log := logBounds{topic: in.topicOf(at), partition: at.partition}
	cluster, partitions, err := log.topic.Describe(ctx)
	if err != nil {
		return a, 0, err
	}
	var number stream.Stream
	var mark stream.Mark
	var marked bool
	err = in.executor.attempt(ctx, func(ctx context.Context) (err error) {
		number, mark, marked, err = in.stores.Streams.Of(ctx, cluster, at.topic, len(partitions), int32(at.partition))
		return err
	})
	if err != nil {
		return a, 0, err
	}
	if err := log.read(ctx); err != nil {
		return a, 0, err
	}
	a = worker.Assignment{Partition: int32(at.partition), Stream: number.Number, Position: commit.Offset,
		LogEnd: log.end, Partitions: len(partitions)}
	if mark.Begins || journal.IsOfAnother(commit.Metadata, number.Number) {
		a.Position = mark.Offset // an owner of an older stream, which stood still, may have committed last
	}
	var why string
	switch {
	case marked:
		if why, err = log.compareMark(ctx, mark); err != nil || why != "" {
			break
		}
		known.reached = max(known.reached, a.Position)
		if why, err = log.compareRead(ctx, known); err == nil && why != "" && mark.Offset >= log.first {
			err = in.forkStream(ctx, number, &a, startOf{mark: &mark, why: why})
			return a, log.first, err
		}
	case number.Incarnation == 1:
		// Else another life of the log was found to have begun: what was committed here, or read, is of the old one.
		known.reached = max(known.reached, a.Position)
		why, err = log.compareRead(ctx, known)
	}
	switch {
	case err != nil:
		return worker.Assignment{}, log.first, err
	case why != "":
		err = in.forkStream(ctx, number, &a, startOf{first: log.first, why: why})
	case !marked:
		// The first Stamp follows the first commit: what is committed, if anything, is of an earlier life of the log, or
		// of one whose chunks were deleted.
		a.Unmarked, a.Position = true, log.first
		if commit.Offset > log.first {
			in.log.Warn("no chunk of this stream is stored: reading the log from its start", "topic", at.topic,
				"partition", at.partition, "stream", number.Number, "committed", commit.Offset, "first", log.first)
		}
	}
	return a, log.first, err
}

// logBounds is a partition's log: the offsets of its first record and after its last.
type logBounds struct {
	topic      *kafka.Topic
	partition  int
	first, end int64
}

func (l *logBounds) read(ctx context.Context) (err error) {
	l.first, l.end, err = l.topic.Bounds(ctx, l.partition)
	return err
}

// compareRead returns why the log can't be the one that was read before, empty when it can.
func (l *logBounds) compareRead(ctx context.Context, known priorRead) (string, error) {
	if known.reached > l.end {
		return fmt.Sprintf("record %d was read once, but the log ends at %d", known.reached-1, l.end), nil
	}
	if known.last == nil {
		return "", nil
	}
	return l.compareMark(ctx, *known.last)
}

// compareMark returns why the log can't be the one of a mark, empty when it can: also when the marked record is
// deleted.
func (l *logBounds) compareMark(ctx context.Context, mark stream.Mark) (string, error) {
	if mark.Offset < l.first {
		return "", nil
	}
	if mark.Offset >= l.end {
		return fmt.Sprintf("record %d was read once, but the log ends at %d", mark.Offset, l.end), nil
	}
	b, err := l.topic.Fetch(ctx, l.partition, mark.Offset)
	if err != nil {
		return "", err
	}
	defer b.Release()
	switch {
	case len(b.Records) == 0 && b.Next == mark.Offset:
		return "", fmt.Errorf("fetch the marked record %d of partition %d: an answer without records", mark.Offset,
			l.partition)
	case len(b.Records) == 0 || !markOf(&b.Records[0]).IsSameRecord(mark):
		return fmt.Sprintf("record %d is not the one that was read there once", mark.Offset), nil
	}
	return "", nil
}

func markOf(r *kafka.Record) stream.Mark {
	own := admit.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}
	return own.Mark()
}

// startOf is where another stream begins, and why.
type startOf struct {
	mark  *stream.Mark // the old stream's; with nil the new one begins at the start of the log
	first int64
	why   string
}

// forkStream begins another stream: at the start of the log, for duplicates are harmless and skips are not, or at the
// mark of the old one, if the log is known to be the same up to there. Every record below a mark is stored in an older
// stream, or refused; the log has lost its end, and may have others there now. That begin is stored first, because no
// other process may know what this one has read.
func (in *Ingester) forkStream(ctx context.Context, old stream.Stream, a *worker.Assignment, start startOf) error {
	var next stream.Stream
	err := in.executor.attempt(ctx, func(ctx context.Context) (err error) {
		next, err = in.stores.Streams.Next(ctx, old, a.Partitions)
		return err
	})
	log := in.log.With("topic", old.Topic, "partition", a.Partition, "why", start.why, "before", old.Number)
	if mark := start.mark; mark == nil {
		a.Position, a.Unmarked = start.first, true
	} else {
		a.Position, mark.Begins = mark.Offset, true
		if err == nil {
			err = in.executor.attempt(ctx, func(ctx context.Context) error {
				return in.stores.Streams.Advance(ctx, next.Number, a.Partition, *mark)
			})
		}
	}
	if err != nil {
		return err
	}
	in.metrics.restarts.Inc()
	a.Stream = next.Number
	if start.mark == nil {
		log.Error("the log is not the one that was read before: reading it from its start as a new stream",
			"stream", next.Number)
	} else {
		log.Error("the log has lost its end: reading on from the last known record as a new stream",
			"from", start.mark.Offset, "stream", next.Number)
	}
	return nil
}
