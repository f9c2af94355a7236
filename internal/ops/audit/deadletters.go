package audit

import (
	"context"
	"slices"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
)

// refusals are the records that were refused, of one topic.
type refusals struct {
	elements map[element]bool
	// runs are the refused elements of records that had several refused together.
	runs map[position]deadletter.Elements
	// whole are records for which the refused elements are unknown.
	whole     map[position]bool
	stretches []stretch
}

type position struct {
	partition int
	offset    int64
}

type element struct {
	position
	index int
}

type stretch struct {
	partition      int
	first, through int64
}

func (l *refusals) has(at element) bool {
	if l.elements[at] || l.whole[at.position] || l.runs[at.position].Has(at.index) {
		return true
	}
	return slices.ContainsFunc(l.stretches, func(s stretch) bool {
		return s.partition == at.partition && s.first <= at.offset && at.offset <= s.through
	})
}

// refusalsByTopic are all dead letters.
type refusalsByTopic map[string]*refusals

func (l refusalsByTopic) of(topic string) *refusals {
	if l[topic] == nil {
		l[topic] = &refusals{elements: make(map[element]bool), whole: make(map[position]bool),
			runs: make(map[position]deadletter.Elements)}
	}
	return l[topic]
}

// readDeadLetters reads all dead letters, and keeps the ones of audited topics.
func (a *auditor) readDeadLetters(ctx context.Context, client *kafka.Client) (refusalsByTopic, error) {
	l := refusalsByTopic{}
	set, err := a.set()
	if err != nil {
		return nil, err
	}
	topic := client.Topic(set.DeadLetters())
	partitions, err := topic.Partitions(ctx)
	if kafka.IsUnknownTopic(err) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		first, end, err := topic.Bounds(ctx, p)
		if err == nil {
			err = topic.Each(ctx, kafka.Span{Partition: p, From: first, To: end}, func(r *kafka.Record) error {
				if of, ok := deadletter.Parse(r.Key, r.Value, r.Headers); ok {
					a.sum.DeadLetters++
					if _, audited, _ := set.Of(of.Topic); audited {
						l.of(of.Topic).take(&of)
					}
				}
				return nil
			}, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

// take notes a dead letter of a topic; others are left.
func (l *refusals) take(of *deadletter.DeadLetter) {
	at := position{int(of.Partition), of.Offset}
	switch {
	case of.Through >= 0:
		l.stretches = append(l.stretches, stretch{at.partition, at.offset, of.Through})
	case of.Index == decode.Whole:
		l.whole[at] = true
	case of.Count() > 1:
		l.runs[at] = l.runs[at].With(of.Elements)
	default:
		l.elements[element{at, of.Index}] = true
	}
}
