package stream

import (
	"binnacle/internal/store"
	"context"
	"fmt"
)

// Mark is one record of a partition, by which a worker recognises its stream (rule W9).
type Mark struct {
	Offset    int64 `json:"offset"`
	Timestamp int64 `json:"timestamp"` // the record's Kafka timestamp, ms since 1970
	// CRC is the checksum of the record's value.
	CRC uint32 `json:"crc"`

	// Begins says that the stream begins with this record in this partition, and that nothing was committed in it
	// yet: what the group has committed is of an older one.
	Begins bool `json:"begins,omitempty"`
}

// IsSameRecord reports whether two marks are of the same record.
func (m Mark) IsSameRecord(other Mark) bool {
	m.Begins = other.Begins
	return m == other
}

// Of returns the stream that a partition of a topic is read as, and its mark there; marked reports whether it has one.
// It is the newest stream that has a mark of the partition, whatever became of other partitions since then. Without a
// mark it is the newest stream of the topic, which Of makes if the topic has no stream.
//
// The exception is a topic that has grown: its devices may have moved to another partition, and of two values of one
// instant the one of the newer stream counts. So there all partitions follow when one of them begins a stream.
func (s *Streams) Of(ctx context.Context, cluster, topic string, partitions int, partition int32) (x Stream, m Mark,
	marked bool, err error) {
	all, err := s.newest(ctx, Stream{Cluster: cluster, Topic: topic}, partitions)
	if err != nil {
		return x, m, false, err
	}
	return s.OfStreams(ctx, all, partitions, partition)
}

// OfStreams returns the same as Of, from the streams of a topic, the newest first. There must be at least one: it makes
// none.
func (s *Streams) OfStreams(ctx context.Context, all []Stream, partitions int, partition int32) (x Stream, m Mark,
	marked bool, err error) {
	for i, x := range all {
		if x.damaged != nil {
			return x, m, false, x.damaged
		}
		stored, marked, err := s.read(ctx, x.Number, partition)
		if err != nil {
			return x, m, false, err
		}
		if marked && (i == 0 || x.Partitions == partitions) {
			return x, stored.Mark, true, nil
		}
		if marked {
			break
		}
	}
	return all[0], Mark{}, false, nil
}

// Advance stores a record of one partition of a stream. Of two marks of a partition the one with the greater offset
// stays; of two of one record the one that says that something was committed.
func (s *Streams) Advance(ctx context.Context, number uint32, partition int32, m Mark) error {
	return store.Contend(ctx, func() error {
		old, found, err := s.read(ctx, number, partition)
		if err != nil {
			return err
		}
		if found && (old.Offset > m.Offset || old.Offset == m.Offset && (m.Begins || !old.Begins)) {
			return nil
		}
		d := store.NewDocument(KindMark, markID(number, partition), m)
		d.ETag = old.etag
		if _, err = store.Put(ctx, s.docs, d); err != nil {
			return fmt.Errorf("renew mark of stream %d, partition %d: %w", number, partition, err)
		}
		return nil
	})
}

type storedMark struct {
	Mark
	etag string
}

func (s *Streams) read(ctx context.Context, number uint32, partition int32) (m storedMark, found bool, err error) {
	d, found, err := s.docs.Read(ctx, KindMark, markID(number, partition))
	if err != nil {
		return m, false, fmt.Errorf("read mark of stream %d, partition %d: %w", number, partition, err)
	}
	if found {
		m.etag = d.ETag
		err = d.Decode(&m.Mark)
	}
	return m, found, err
}

// markID sorts like stream and partition.
func markID(number uint32, partition int32) string {
	return fmt.Sprintf("%s.%05d", streamID(number), partition)
}
