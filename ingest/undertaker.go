package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"binnacle/ingest/worker"

	"github.com/segmentio/kafka-go"
)

// TopicUndertaker publishes dead letters to a Kafka topic, key and payload as they came.
type TopicUndertaker struct{ writer *kafka.Writer }

// NewTopicUndertaker publishes to the topic of the cluster at addr, host:port; a nil transport is plain TCP.
func NewTopicUndertaker(addr, topic string, transport kafka.RoundTripper) *TopicUndertaker {
	return &TopicUndertaker{&kafka.Writer{
		Addr: kafka.TCP(addr), Topic: topic, Transport: transport,
		Balancer:     kafka.Murmur2Balancer{}, // as Java clients place keys
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
		MaxAttempts:  1, // the caller tries again, for as long as it takes; Close waits for no more than one attempt
		WriteTimeout: 5 * time.Second,
		BatchBytes:   64 << 20, // whatever came in must fit; the broker's own limit decides
		Compression:  kafka.Lz4,
	}}
}

// What is kept of a record that the broker would not take back together with the headers that say why it was refused.
const (
	keptOfTruncated = 256 << 10
	keptOfKey       = 1 << 10
)

// Bury is Undertaker.
func (u *TopicUndertaker) Bury(ctx context.Context, letters []worker.DeadLetter) error {
	messages := make([]kafka.Message, len(letters))
	for i := range letters {
		messages[i] = message(&letters[i])
	}
	err := u.write(ctx, messages...)
	if !errors.Is(err, kafka.MessageSizeTooLarge) {
		return err
	}
	for i := range messages {
		err := u.write(ctx, messages[i])
		if errors.Is(err, kafka.MessageSizeTooLarge) {
			err = u.write(ctx, truncated(&letters[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *TopicUndertaker) write(ctx context.Context, messages ...kafka.Message) error {
	err := u.writer.WriteMessages(ctx, messages...)
	if err == nil {
		return nil
	}
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		for _, e := range each {
			if e != nil {
				err = e
				break
			}
		}
	}
	return fmt.Errorf("publish %d dead letters to %s: %w", len(messages), u.writer.Topic, err)
}

func message(l *worker.DeadLetter) kafka.Message {
	m := kafka.Message{Key: l.Record.Key, Value: l.Record.Value}
	if l.Bare {
		m.Value, m.Headers = nil, []kafka.Header{truncatedFrom(l)}
	}
	m.Headers = append(m.Headers, headers(l.Headers())...)
	return m
}

// truncated is what a broker takes of any record: the begin of its key and payload, and none of its own headers.
func truncated(l *worker.DeadLetter) kafka.Message {
	return kafka.Message{
		Key:     l.Record.Key[:min(len(l.Record.Key), keptOfKey)],
		Value:   l.Record.Value[:min(len(l.Record.Value), keptOfTruncated)],
		Headers: append(headers(l.Facts()), truncatedFrom(l)),
	}
}

func truncatedFrom(l *worker.DeadLetter) kafka.Header {
	return kafka.Header{Key: worker.HeaderTruncated, Value: []byte(strconv.Itoa(len(l.Record.Value)))}
}

func headers(own []worker.Header) (out []kafka.Header) {
	for _, h := range own {
		out = append(out, kafka.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// Close ends the connections.
func (u *TopicUndertaker) Close() error { return u.writer.Close() }
