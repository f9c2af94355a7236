// Package stream numbers the lives of topics, and marks where each partition of them is read.
package stream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"binnacle/internal/store"
)

// The kinds of documents of streams.
const (
	Kind     = "stream"
	KindMark = "mark"
)

// Stream is one life of a topic, and its document (docs/internals/format/control.md): what was published under (cluster
// id, topic) since the topic, or the broker's data, was made again. Its number is part of chunk ids and orders streams
// by age.
type Stream struct {
	Number  uint32 `json:"-"`
	Cluster string `json:"cluster"`
	Topic   string `json:"topic"`
	// Incarnation counts from 1.
	Incarnation int `json:"incarnation"`

	// Partitions is the least number of partitions that the topic was seen with when this stream or an earlier one of
	// the topic began; 0 is not known. A topic with more has grown: keys have moved from one partition to another.
	Partitions int `json:"partitions,omitempty"`
	// Named says of a stream that was copied that pages of the catalog, orders and annotations name the account, too: no
	// earlier release has copied some.
	Named bool `json:"named,omitempty"`

	damaged error // why the document can't be understood: it may be of any topic
}

// Streams numbers the lives of topics. It holds no state and is safe for any number of callers.
type Streams struct{ docs store.Documents }

// NewStreams makes Streams over the control documents.
func NewStreams(docs store.Documents) *Streams { return &Streams{docs: docs} }

// Find returns the newest incarnation of a topic, with its number of partitions. If there is no incarnation, it makes
// the first.
func (s *Streams) Find(ctx context.Context, cluster, topic string, partitions int) (Stream, error) {
	return first(s.newest(ctx, Stream{Cluster: cluster, Topic: topic}, partitions))
}

// Next returns the incarnation after old: the newest one when another process has begun one already, else one that it
// makes. Of callers that race, all get the same.
func (s *Streams) Next(ctx context.Context, old Stream, partitions int) (Stream, error) {
	return first(s.newest(ctx, old, partitions))
}

func first(all []Stream, err error) (Stream, error) {
	if err != nil {
		return Stream{}, err
	}
	return all[0], nil
}

// newest returns the streams of the topic of old, the newest first. If that does not come after old, it makes one.
// Numbers are dense and a number is taken by create, so a create succeeds only for a caller that knew all streams: of
// two callers that race, one fails and reads again.
func (s *Streams) newest(ctx context.Context, old Stream, partitions int) ([]Stream, error) {
	var of []Stream
	err := store.Contend(ctx, func() error {
		all, err := s.list(ctx)
		if err != nil {
			return err
		}
		of = Incarnations(all, old.Cluster, old.Topic)
		if len(of) > 0 && of[0].damaged != nil {
			return of[0].damaged
		}
		if len(of) > 0 && of[0].Incarnation > old.Incarnation {
			return nil
		}
		next := Stream{
			Number: uint32(len(all)) + 1, Cluster: old.Cluster, Topic: old.Topic, Incarnation: old.Incarnation + 1,
			Partitions: partitions, Named: old.Named,
		}
		if old.Incarnation > 0 {
			next.Partitions = min(partitions, old.Partitions)
		}
		if _, err = s.docs.Create(ctx, next.document()); err != nil {
			return fmt.Errorf("number stream %s/%s: %w", old.Cluster, old.Topic, err)
		}
		of = slices.Insert(of, 0, next)
		return nil
	})
	return of, err
}

// All returns the streams of all topics, by number. It fails where one can't be understood.
func (s *Streams) All(ctx context.Context) ([]Stream, error) {
	all, err := s.list(ctx)
	for i := range all {
		err = cmp.Or(err, all[i].damaged)
	}
	return all, err
}

// Incarnations returns the streams of a topic, the newest first, and the streams that may belong to it: their document
// is damaged.
func Incarnations(all []Stream, cluster, topic string) (of []Stream) {
	for _, x := range slices.Backward(all) {
		if x.damaged != nil || x.Cluster == cluster && x.Topic == topic {
			of = append(of, x)
		}
	}
	return of
}

// maxGapReads bounds how often a list with a missing number is read again: a little over a second.
const maxGapReads = 9

func (s *Streams) list(ctx context.Context) ([]Stream, error) {
	pauses := store.Lagging.Begin()
	for reads := 1; ; reads++ {
		docs, err := s.docs.List(ctx, Kind)
		if err != nil {
			return nil, fmt.Errorf("list streams: %w", err)
		}
		all := make([]Stream, len(docs))
		dense := true
		for i, d := range docs {
			all[i], err = Of(d)
			all[i].Number, all[i].damaged = uint32(i)+1, err
			dense = dense && d.ID == streamID(all[i].Number)
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

// Of returns the stream of a document.
func Of(d store.Document) (s Stream, err error) {
	_, err = fmt.Sscanf(d.ID, "%d", &s.Number)
	return s, cmp.Or(err, d.Decode(&s))
}

func streamID(number uint32) string { return fmt.Sprintf("%010d", number) }

func (s Stream) document() store.Document {
	return store.NewDocument(Kind, streamID(s.Number), s)
}

// copiedFrom begins the cluster of streams that were copied from another database.
const copiedFrom = "copied from "

// IsCopied reports whether the stream was copied from another database: no log is read as it.
func (s Stream) IsCopied() bool { return strings.HasPrefix(s.Cluster, copiedFrom) }

// Account returns the account that the stream was copied from, if what was copied with it names that, empty otherwise.
func (s Stream) Account() string {
	if !s.Named {
		return ""
	}
	return strings.TrimPrefix(s.Cluster, copiedFrom)
}

// CopiedStream returns the stream that one of another database is copied as: a number that nothing else uses (rule T1).
// The streams of a database must be asked for in the order of their numbers.
func (s *Streams) CopiedStream(ctx context.Context, account string, number uint32) (Stream, error) {
	return first(s.newest(ctx, Stream{Cluster: copiedFrom + account, Topic: streamID(number), Named: true}, 0))
}

// Copied returns the streams that streams of another database were copied as, by the numbers of the originals.
func Copied(all []Stream, account string) map[uint32]uint32 {
	out := make(map[uint32]uint32)
	for _, s := range all {
		var number uint32
		if _, err := fmt.Sscanf(s.Topic, "%d", &number); err == nil && s.Cluster == copiedFrom+account {
			out[number] = s.Number
		}
	}
	return out
}

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
