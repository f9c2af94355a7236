package ingest

import (
	"context"
	"fmt"

	"binnacle/internal/control"
)

// takeover decides as which stream and from which offset a partition is read (rule W9). reached is an offset that the log
// must not end before, because this process or the store has seen the record that is just below it; 0 if none was seen.
func (in *Ingester) takeover(ctx context.Context, partition int, committed, reached int64) (Assignment, error) {
	first, end, err := in.broker.Bounds(ctx, partition)
	if err != nil {
		return Assignment{}, err
	}
	stream, err := in.stores.Streams.Find(ctx, in.cluster, in.cfg.Topic)
	if err != nil {
		return Assignment{}, err
	}
	a := Assignment{Partition: int32(partition), Stream: stream.Number, Position: committed, LogEnd: end}
	why, err := in.doubt(ctx, stream, partition, max(committed, reached), first, end)
	if err != nil {
		return Assignment{}, err
	}
	if why != "" {
		return in.reincarnate(ctx, stream, a, first, why)
	}
	if _, known := stream.Marks[a.Partition]; !known && committed > first {
		// The offset was committed for another store: every commit is followed by a mark. Should the process have died
		// between its first commit and that mark, the chains' tails tell what is stored (rules W3 and W4).
		in.log.Warn("the store does not know this partition: it is read from its start", "partition", partition, "committed", committed, "first", first)
		a.Position = first
	}
	if committed < first {
		if committed >= 0 {
			in.log.Error("records were deleted before they were stored: the topic's retention is too short",
				"partition", partition, "committed", committed, "first", first, "lost", first-committed)
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
	if err != nil {
		return "", err
	}
	if len(b.records) == 0 || b.records[0].mark() != mark {
		return fmt.Sprintf("record %d is not the one that was read there once", mark.Offset), nil
	}
	return "", nil
}

// reincarnate begins the log from its start, as another stream: duplicates are harmless, skips are not.
func (in *Ingester) reincarnate(ctx context.Context, old control.Stream, a Assignment, first int64, why string) (Assignment, error) {
	next, err := in.stores.Streams.Next(ctx, old)
	if err != nil {
		return Assignment{}, err
	}
	in.metrics.restarts.Inc()
	in.log.Error("the topic is another one than before: it is read from its start as a new stream",
		"topic", in.cfg.Topic, "partition", a.Partition, "why", why, "stream", next.Number, "before", old.Number)
	a.Stream, a.Position = next.Number, first
	return a, nil
}
