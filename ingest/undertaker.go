package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

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
		BatchBytes:   64 << 20, // whatever came in must fit; the broker's own limit decides
		Compression:  kafka.Lz4,
	}}
}

// HeaderTruncated is the length of a payload that the broker would not take back together with the headers that
// say why it was refused. The record itself is where HeaderOffset says, as long as the log keeps it.
const HeaderTruncated = "binnacle-truncated"

const keptOfTruncated = 256 << 10

// Bury is Undertaker.
func (u *TopicUndertaker) Bury(ctx context.Context, letters []DeadLetter) error {
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
			m := messages[i]
			m.Headers = append(m.Headers, kafka.Header{Key: HeaderTruncated, Value: []byte(strconv.Itoa(len(m.Value)))})
			m.Value = m.Value[:min(len(m.Value), keptOfTruncated)]
			err = u.write(ctx, m)
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

func message(l *DeadLetter) kafka.Message {
	m := kafka.Message{Key: l.Record.Key, Value: l.Record.Value}
	for _, h := range l.Headers() {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	return m
}

// Close ends the connections.
func (u *TopicUndertaker) Close() error { return u.writer.Close() }
