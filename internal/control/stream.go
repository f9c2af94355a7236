package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Stream is one life of a topic: what was published under (cluster id, topic) since the topic, or the
// broker's data, was made anew. Its number stands in chunk ids and orders streams by age.
type Stream struct {
	Number      uint32
	Cluster     string
	Topic       string
	Incarnation int            // from 1
	Marks       map[int32]Mark // by Kafka partition
}

// Mark is one committed record, by which a worker recognises its stream (rule W9).
type Mark struct {
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"` // the record's Kafka timestamp, ms since 1970
	CRC       uint32 `json:"crc"`       // of the record's value
}

// streamBody is a stream document: docs/format/control.md.
type streamBody struct {
	Cluster     string         `json:"cluster"`
	Topic       string         `json:"topic"`
	Incarnation int            `json:"incarnation"`
	Marks       map[int32]Mark `json:"marks,omitempty"`
}

// Streams numbers the lives of topics. It holds no state and is safe for any number of callers.
type Streams struct{ docs Documents }

// NewStreams makes Streams over the control documents.
func NewStreams(docs Documents) *Streams { return &Streams{docs: docs} }

// Find answers the newest incarnation of a topic. When there is none it makes the first.
func (s *Streams) Find(ctx context.Context, cluster, topic string) (Stream, error) {
	return s.newest(ctx, Stream{Cluster: cluster, Topic: topic})
}

// Next answers the incarnation after old: the newest one when somebody has begun one already, else one
// that it makes. Of callers that race, all get the same.
func (s *Streams) Next(ctx context.Context, old Stream) (Stream, error) {
	return s.newest(ctx, old)
}

// newest answers the newest stream of the topic of old if it comes after old, else makes one. Numbers
// are dense and a number is taken by create, so a create succeeds only for a caller who knew all streams:
// of two callers who race, one fails and reads again.
func (s *Streams) newest(ctx context.Context, old Stream) (Stream, error) {
	pauses := lagging.Begin()
	for {
		all, err := s.list(ctx)
		if err != nil {
			return Stream{}, err
		}
		next := Stream{Cluster: old.Cluster, Topic: old.Topic, Incarnation: old.Incarnation + 1}
		for _, x := range slices.Backward(all) {
			if x.Cluster == old.Cluster && x.Topic == old.Topic {
				if x.Incarnation > old.Incarnation {
					return x.Stream, nil
				}
				break
			}
		}
		next.Number = uint32(len(all)) + 1
		_, err = s.docs.Create(ctx, next.document(""))
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, ErrExists) {
			return Stream{}, fmt.Errorf("number stream %s/%s: %w", old.Cluster, old.Topic, err)
		}
		if err := pauses.Wait(ctx); err != nil {
			return Stream{}, err
		}
	}
}

// Read answers a stream by its number.
func (s *Streams) Read(ctx context.Context, number uint32) (Stream, error) {
	x, err := s.read(ctx, number)
	return x.Stream, err
}

// Renew stores a committed record of one partition of a stream. Of two marks of a partition the one
// with the greater offset stays.
func (s *Streams) Renew(ctx context.Context, number uint32, partition int32, m Mark) error {
	pauses := lagging.Begin()
	for {
		x, err := s.read(ctx, number)
		if err != nil {
			return err
		}
		if old, ok := x.Marks[partition]; ok && old.Offset >= m.Offset {
			return nil
		}
		if x.Marks == nil {
			x.Marks = make(map[int32]Mark)
		}
		x.Marks[partition] = m
		_, err = s.docs.Replace(ctx, x.document(x.etag))
		if !errors.Is(err, ErrChanged) {
			if err != nil {
				return fmt.Errorf("renew mark of stream %d, partition %d: %w", number, partition, err)
			}
			return nil
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

type storedStream struct {
	Stream
	etag string
}

func (s *Streams) read(ctx context.Context, number uint32) (storedStream, error) {
	all, err := s.list(ctx)
	if err != nil {
		return storedStream{}, err
	}
	if number == 0 || int(number) > len(all) {
		return storedStream{}, fmt.Errorf("read stream %d: there are %d streams", number, len(all))
	}
	return all[number-1], nil
}

// maxGapReads bounds how often a list with a missing number is read again: a little over a second.
const maxGapReads = 9

// list answers all streams by number, 1 and up without a gap.
func (s *Streams) list(ctx context.Context) ([]storedStream, error) {
	pauses := lagging.Begin()
	for reads := 1; ; reads++ {
		docs, err := s.docs.List(ctx, KindStream)
		if err != nil {
			return nil, fmt.Errorf("list streams: %w", err)
		}
		all := make([]storedStream, len(docs))
		dense := true
		for i, d := range docs {
			var b streamBody
			if err := decode(d, &b); err != nil {
				return nil, err
			}
			number := uint32(i) + 1
			dense = dense && d.ID == streamID(number)
			all[i] = storedStream{Stream{number, b.Cluster, b.Topic, b.Incarnation, b.Marks}, d.ETag}
		}
		if dense {
			return all, nil
		}
		// A list in pages may miss a document and have one that was made after it: for a moment only.
		if reads == maxGapReads {
			return nil, fmt.Errorf("list streams: of %d streams a number is missing", len(docs))
		}
		if err := pauses.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// streamID sorts like the number.
func streamID(number uint32) string { return fmt.Sprintf("%010d", number) }

func (s Stream) document(etag string) Document {
	d := newDocument(KindStream, streamID(s.Number), streamBody{s.Cluster, s.Topic, s.Incarnation, s.Marks})
	d.ETag = etag
	return d
}
