package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"binnacle/ingest/write"
	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
)

// TopicDeadLetterWriter publishes dead letters to a Kafka topic, with the key and payload of their records.
type TopicDeadLetterWriter struct{ topic *kafka.Topic }

// NewTopicDeadLetterWriter publishes to a topic.
func NewTopicDeadLetterWriter(topic *kafka.Topic) *TopicDeadLetterWriter {
	return &TopicDeadLetterWriter{topic}
}

// What is kept of a record that the broker would not take back together with the headers that say why it was refused.
const (
	keptOfTruncated = 256 << 10
	keptOfKey       = 1 << 10
)

// Publish implements DeadLetterWriter.
func (u *TopicDeadLetterWriter) Publish(ctx context.Context, deadLetters []write.DeadLetter) error {
	partitions, err := u.topic.Partitions(ctx)
	if err != nil {
		return fmt.Errorf("publish %d dead letters: %w", len(deadLetters), err)
	}
	byPartition := map[int][]*write.DeadLetter{}
	for i := range deadLetters {
		p := kafka.PartitionOf(deadLetters[i].Record.Key, partitions)
		byPartition[p] = append(byPartition[p], &deadLetters[i])
	}
	for _, p := range partitions {
		if err := u.publish(ctx, p, byPartition[p]); err != nil {
			return fmt.Errorf("publish %d dead letters: %w", len(deadLetters), err)
		}
	}
	return nil
}

// publish publishes the dead letters of one partition. One that is too large for the broker is truncated.
func (u *TopicDeadLetterWriter) publish(ctx context.Context, partition int, deadLetters []*write.DeadLetter) error {
	messages := make([]kafka.Message, len(deadLetters))
	for i, l := range deadLetters {
		messages[i] = message(l)
	}
	for done := 0; done < len(messages); {
		n, err := u.topic.Produce(ctx, partition, messages[done:])
		done += n
		if errors.Is(err, kafka.ErrTooLarge) {
			_, err = u.topic.Produce(ctx, partition, []kafka.Message{truncated(deadLetters[done])})
			done++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func message(l *write.DeadLetter) kafka.Message {
	if l.Bare {
		m := truncated(l)
		m.Value = nil
		return m
	}
	return kafka.Message{Key: l.Record.Key, Value: l.Record.Value, Headers: l.Headers()}
}

// truncated returns a message that any broker accepts: begins of the record's key and payload, none of its headers.
func truncated(l *write.DeadLetter) kafka.Message {
	return kafka.Message{
		Key:   l.Record.Key[:min(len(l.Record.Key), keptOfKey)],
		Value: l.Record.Value[:min(len(l.Record.Value), keptOfTruncated)],
		Headers: append(l.Facts(),
			kafka.Header{Key: deadletter.HeaderTruncated, Value: []byte(strconv.Itoa(l.PayloadBytes()))}),
	}
}
