package ingest

import (
	"context"
	"errors"
	"fmt"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/stream"

	kafkago "github.com/segmentio/kafka-go"
)

// reader reads one partition, and notices when the log below what it reads is not the one that it has read before (rule
// W9): a leader that was elected without the last records of the old one cuts them off, and the log may be longer than
// before by the next fetch. It serves one goroutine.
type reader struct {
	topic     *kafka.Topic
	partition int

	last    *stream.Mark // mark of the last record that was read; nil before the first one
	epoch   int32        // epoch of the leader that appended this record
	shaken  bool         // a fetch has failed since then
	missing bool         // a fetch found no such topic: it may have been made again
}

// fetch returns records from an offset on. Its error is errRetake when the log may be another one; after any other it
// may be called again.
func (r *reader) fetch(ctx context.Context, offset int64) (kafka.Batch, error) {
	for {
		b, err := r.topic.Fetch(ctx, r.partition, offset)
		switch {
		case errors.Is(err, kafkago.OffsetOutOfRange):
			return b, fmt.Errorf("%w: %w", errRetake, err)
		case err != nil:
			r.shaken, r.missing = true, r.missing || kafka.IsUnknownTopic(err)
			return b, err
		case r.missing:
			b.Release()
			return b, fmt.Errorf("%w: the topic was missing for a while", errRetake)
		}
		epoch := r.epoch
		if len(b.Records) > 0 {
			epoch = b.Records[0].Epoch
		}
		if r.last == nil || !r.shaken && epoch == r.epoch {
			r.shaken = false
			if n := len(b.Records); n > 0 {
				m := markOf(&b.Records[n-1])
				r.last, r.epoch = &m, b.Records[n-1].Epoch
			}
			return b, nil
		}
		// The comparison fetches as well: if all partitions waited for room with a batch in their hands, as after a broker's
		// restart, there would never be any. So this one is fetched again.
		b.Release()
		if err := r.check(ctx); err != nil {
			return kafka.Batch{}, err
		}
		r.shaken, r.epoch = false, epoch
	}
}

// check compares the last record that was read with the one that is there now.
func (r *reader) check(ctx context.Context) error {
	log := logBounds{topic: r.topic, partition: r.partition}
	if err := log.read(ctx); err != nil {
		return err
	}
	why, err := log.compareMark(ctx, *r.last)
	if err == nil && why != "" {
		err = fmt.Errorf("%w: %s", errRetake, why)
	}
	return err
}

func record(r *kafka.Record) admit.Record {
	return admit.Record{Offset: r.Offset, Time: r.Time, Key: r.Key, Value: r.Value, Headers: r.Headers}
}

func unreadable(r *kafka.Refusal) admit.Unreadable {
	why := "damaged: " + r.Why
	if r.TooLarge {
		why = "too large once it is unpacked"
	}
	detail := fmt.Sprintf("a batch of %d bytes with the records up to %d is %s", r.Bytes, r.Through, why)
	return admit.Unreadable{
		First: r.First, Through: r.Through, Time: r.Time, Bytes: r.Bytes,
		Bad: decode.Bad{Index: decode.Whole, Reason: decode.Unreadable, Detail: detail},
	}
}

// errRetake means that the log may be another one than it was: the partition must be taken over again.
var errRetake = errors.New("the log is not the one that was read before")

// FeedAtOnce is how many records a partition takes before it looks for jobs, and for what waits.
const FeedAtOnce = 256
