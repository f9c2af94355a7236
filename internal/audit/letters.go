package audit

import (
	"context"
	"strconv"

	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
)

// letters are the records that were refused, of one topic.
type letters struct {
	elements  map[element]bool
	whole     map[position]bool // of these it is not told which elements were refused
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

// has reports whether an element of a record was refused.
func (l *letters) has(at position, index int) bool {
	if l.elements[element{at, index}] || l.whole[at] {
		return true
	}
	for _, s := range l.stretches {
		if s.partition == at.partition && s.first <= at.offset && at.offset <= s.through {
			return true
		}
	}
	return false
}

// readLetters reads all dead letters of a topic.
func (a *auditor) readLetters(ctx context.Context, client *kafka.Client) (*letters, error) {
	l := &letters{elements: make(map[element]bool), whole: make(map[position]bool)}
	topic := client.Topic(a.deadLetters())
	partitions, err := topic.Partitions(ctx)
	if kafka.NoTopic(err) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		first, end, err := topic.Bounds(ctx, p)
		if err == nil {
			err = each(ctx, topic, p, first, end, func(r kafka.Record) error {
				a.sum.Letters++
				l.take(a.Topic, r)
				return nil
			}, func(int64) {})
		}
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

// take notes a letter of a topic; others are left.
func (l *letters) take(topic string, r kafka.Record) {
	of := make(map[string]string)
	for _, h := range r.Headers {
		of[h.Key] = string(h.Value) // the last one is Binnacle's own
	}
	number := func(name string) int64 {
		n, err := strconv.ParseInt(of[name], 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	if of[worker.HeaderTopic] != topic {
		return
	}
	at := position{int(number(worker.HeaderPartition)), number(worker.HeaderOffset)}
	if through, ok := of[worker.HeaderThrough]; ok && through != "" {
		l.stretches = append(l.stretches, stretch{at.partition, at.offset, number(worker.HeaderThrough)})
	} else if index := number(worker.HeaderIndex); index == decode.Whole {
		l.whole[at] = true
	} else {
		l.elements[element{at, int(index)}] = true
	}
}

// each calls f with the records of a partition from an offset to before another, and step with how far it has come
// since the last call.
func each(ctx context.Context, topic *kafka.Topic, partition int, from, to int64, f func(kafka.Record) error,
	step func(int64)) error {
	for from < to {
		batch, err := topic.Fetch(ctx, partition, from)
		if err != nil {
			return err
		}
		for _, r := range batch.Records {
			if r.Offset >= to {
				break
			}
			if err := f(r); err != nil {
				batch.Release()
				return err
			}
		}
		step(min(batch.Next, to) - from)
		from = batch.Next
		batch.Release()
	}
	return nil
}
