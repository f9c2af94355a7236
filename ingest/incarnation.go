package ingest

import (
	"context"
	"fmt"

	"binnacle/ingest/worker"
	"binnacle/internal/control"
)

// takeover decides as which stream and from which offset a partition is read (rule W9). reached is an offset that the log
// must not end before, because this process or the store has seen the record that is just below it; 0 if none was seen.
//
// What the log must have is asked first, and where it ends afterwards: a former owner may still commit and stamp.
func (in *Ingester) takeover(ctx context.Context, partition int, committed, reached int64) (worker.Assignment, error) {
	cluster, err := in.describe(ctx)
	if err != nil {
		return worker.Assignment{}, err
	}
	stream, err := in.stores.Streams.Find(ctx, cluster, in.cfg.Topic)
	if err != nil {
		return worker.Assignment{}, err
	}
	first, end, err := in.broker.Bounds(ctx, partition)
	if err != nil {
		return worker.Assignment{}, err
	}
	a := worker.Assignment{Partition: int32(partition), Stream: stream.Number, Position: committed, LogEnd: end}
	_, marked := stream.Marks[a.Partition]
	if marked || stream.Incarnation == 1 {
		// Else another partition has found the log to be a new one: what was committed here, or read, is of the old one.
		why, err := in.doubt(ctx, stream, partition, max(committed, reached), first, end)
		if err != nil {
			return worker.Assignment{}, err
		}
		if why != "" {
			return in.reincarnate(ctx, stream, a, first, why)
		}
	}
	switch {
	case !marked:
		// The first Stamp follows the first commit: what is committed, if anything, is of an earlier life of the log, or
		// of one whose chunks were deleted.
		a.Unmarked, a.Position = true, first
		if committed > first {
			in.log.Warn("no chunk of this log was stored under this stream: it is read from its start",
				"partition", partition, "stream", stream.Number, "committed", committed, "first", first)
		}
	case committed < first:
		if seen := max(committed, reached); seen > 0 && seen < first {
			in.log.Error("records were deleted before they were stored: the topic's retention is too short",
				"partition", partition, "read", seen, "first", first, "lost", first-seen)
		}
		a.Position = first
	}
	return a, nil
}

// doubt says why the log can't be the one that the stream's number stands for, empty when it can.
func (in *Ingester) doubt(ctx context.Context, stream control.Stream, partition int, reached, first, end int64) (string, error) {
	if reached > end {
		return fmt.Sprintf("record %d was read once, but the log ends at %d", reached-1, end), nil
	}
	mark, ok := stream.Marks[int32(partition)]
	if !ok || mark.Offset < first {
		return "", nil
	}
	if mark.Offset >= end {
		return fmt.Sprintf("record %d was read once, but the log ends at %d", mark.Offset, end), nil
	}
	b, err := in.broker.fetcher(partition).fetch(ctx, mark.Offset)
	switch {
	case err != nil:
		return "", err
	case len(b.records) == 0 && b.next == mark.Offset:
		return "", fmt.Errorf("fetch the marked record %d of partition %d: an answer without records", mark.Offset, partition)
	case len(b.records) == 0 || b.records[0].Mark() != mark:
		return fmt.Sprintf("record %d is not the one that was read there once", mark.Offset), nil
	}
	return "", nil
}

// reincarnate begins the log from its start, as another stream: duplicates are harmless, skips are not.
func (in *Ingester) reincarnate(ctx context.Context, old control.Stream, a worker.Assignment, first int64, why string) (worker.Assignment, error) {
	next, err := in.stores.Streams.Next(ctx, old)
	if err != nil {
		return worker.Assignment{}, err
	}
	in.metrics.restarts.Inc()
	in.log.Error("the topic is another one than before: it is read from its start as a new stream",
		"topic", in.cfg.Topic, "partition", a.Partition, "why", why, "stream", next.Number, "before", old.Number)
	a.Stream, a.Position, a.Unmarked = next.Number, first, true
	return a, nil
}
