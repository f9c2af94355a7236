package ingest

import (
	"context"
	"fmt"

	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
)

// What a process knows of a partition that it had before.
type priorRead struct {
	// the log must not end before: the record just below was seen by this process or is in the store; 0 none
	reached int64
	last    *control.Mark // of the last record that was read; nil none
}

// identify decides as which stream and from which offset a partition is read (rule W9); first is the offset of the
// first record that its log still has, which may lie above.
//
// What the log must have is asked first, and where it ends afterwards: a former owner may still commit and stamp.
func (in *Ingester) identify(ctx context.Context, at topicPartition, committed int64,
	known priorRead) (a worker.Assignment, first int64, err error) {
	topic, partition := in.topicOf(at), at.partition
	cluster, partitions, err := topic.Describe(ctx)
	if err != nil {
		return a, 0, err
	}
	var stream control.Stream
	var mark control.Mark
	var marked bool
	err = in.executor.attempt(ctx, func(ctx context.Context) (err error) {
		stream, mark, marked, err = in.stores.Streams.Of(ctx, cluster, at.topic, len(partitions), int32(partition))
		return err
	})
	if err != nil {
		return a, 0, err
	}
	first, end, err := topic.Bounds(ctx, partition)
	if err != nil {
		return a, 0, err
	}
	a = worker.Assignment{
		Partition: int32(partition), Stream: stream.Number, Position: committed, LogEnd: end, Partitions: len(partitions),
	}
	if mark.Begins {
		a.Position = mark.Offset // what is committed is of an older stream
	}
	switch {
	case marked:
		if why, err := compareMark(ctx, topic, partition, mark, first, end); err != nil || why != "" {
			a, err = in.startNewStream(ctx, stream, len(partitions), a, first, why, err)
			return a, first, err
		}
		why, err := compareRead(ctx, topic, partition, max(a.Position, known.reached), known.last, first, end)
		if err == nil && why != "" && mark.Offset >= first {
			a, err = in.forkStream(ctx, stream, len(partitions), a, mark, why)
			return a, first, err
		}
		if err != nil || why != "" {
			a, err = in.startNewStream(ctx, stream, len(partitions), a, first, why, err)
			return a, first, err
		}
	case stream.Incarnation == 1:
		// Else another life of the log was found to have begun: what was committed here, or read, is of the old one.
		why, err := compareRead(ctx, topic, partition, max(committed, known.reached), known.last, first, end)
		if err != nil || why != "" {
			a, err = in.startNewStream(ctx, stream, len(partitions), a, first, why, err)
			return a, first, err
		}
	}
	if !marked {
		// The first Stamp follows the first commit: what is committed, if anything, is of an earlier life of the log, or
		// of one whose chunks were deleted.
		a.Unmarked, a.Position = true, first
		if committed > first {
			in.log.Warn("no chunk of this log was stored under this stream: it is read from its start",
				"topic", at.topic, "partition", partition, "stream", stream.Number, "committed", committed, "first", first)
		}
	}
	return a, first, nil
}

// compareRead says why the log can't be the one that was read before, empty when it can.
func compareRead(ctx context.Context, topic *kafka.Topic, partition int, reached int64, last *control.Mark, first,
	end int64) (string, error) {
	if reached > end {
		return fmt.Sprintf("record %d was read once, but the log ends at %d", reached-1, end), nil
	}
	if last == nil {
		return "", nil
	}
	return compareMark(ctx, topic, partition, *last, first, end)
}

// compareMark says why the log, which has these bounds, can't be the one that a mark is of, empty when it can: also when
// the marked record is there no more.
func compareMark(ctx context.Context, topic *kafka.Topic, partition int, mark control.Mark, first,
	end int64) (string, error) {
	if mark.Offset < first {
		return "", nil
	}
	if mark.Offset >= end {
		return fmt.Sprintf("record %d was read once, but the log ends at %d", mark.Offset, end), nil
	}
	b, err := topic.Fetch(ctx, partition, mark.Offset)
	if err != nil {
		return "", err
	}
	defer b.Release()
	switch {
	case len(b.Records) == 0 && b.Next == mark.Offset:
		return "", fmt.Errorf("fetch the marked record %d of partition %d: an answer without records", mark.Offset, partition)
	case len(b.Records) == 0 || !markOf(&b.Records[0]).IsSameRecord(mark):
		return fmt.Sprintf("record %d is not the one that was read there once", mark.Offset), nil
	}
	return "", nil
}

func markOf(r *kafka.Record) control.Mark {
	own := worker.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}
	return own.Mark()
}

// startNewStream begins the log from its start, as another stream: duplicates are harmless, skips are not.
func (in *Ingester) startNewStream(
	ctx context.Context, old control.Stream, partitions int, a worker.Assignment, first int64, why string, err error,
) (worker.Assignment, error) {
	if err != nil {
		return worker.Assignment{}, err
	}
	next, err := in.nextStream(ctx, old, partitions)
	if err != nil {
		return worker.Assignment{}, err
	}
	in.metrics.restarts.Inc()
	in.log.Error("the log is another one than before: it is read from its start as a new stream",
		"topic", old.Topic, "partition", a.Partition, "why", why, "stream", next.Number, "before", old.Number)
	a.Stream, a.Position, a.Unmarked = next.Number, first, true
	return a, nil
}

// forkStream begins another stream where the old one is known to be of this log: at its mark. Every record below it is stored
// in an older stream, or refused; the log has lost its end, and may have others there now. That the stream begins there
// is stored before anything else, because nobody else may know what this process has seen.
func (in *Ingester) forkStream(
	ctx context.Context, old control.Stream, partitions int, a worker.Assignment, mark control.Mark, why string,
) (worker.Assignment, error) {
	next, err := in.nextStream(ctx, old, partitions)
	if err != nil {
		return worker.Assignment{}, err
	}
	mark.Begins = true
	if err := in.executor.attempt(ctx, func(ctx context.Context) error {
		return in.stores.Streams.Advance(ctx, next.Number, a.Partition, mark)
	}); err != nil {
		return worker.Assignment{}, err
	}
	in.metrics.restarts.Inc()
	in.log.Error("the log has lost its end: it is read again from its last known record on, as a new stream",
		"topic", old.Topic, "partition", a.Partition, "why", why, "from", mark.Offset, "stream", next.Number, "before",
		old.Number)
	a.Stream, a.Position = next.Number, mark.Offset
	return a, nil
}

// nextStream makes one attempt at beginning another stream.
func (in *Ingester) nextStream(ctx context.Context, old control.Stream, partitions int) (next control.Stream, err error) {
	err = in.executor.attempt(ctx, func(ctx context.Context) (err error) {
		next, err = in.stores.Streams.Next(ctx, old, partitions)
		return err
	})
	return next, err
}
