package kafka

import (
	"context"
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

var codecs = map[string]kafkago.Compression{
	"none": 0, "gzip": kafkago.Gzip, "snappy": kafkago.Snappy, "lz4": kafkago.Lz4, "zstd": kafkago.Zstd,
}

// ErrTooLarge is the error of a message that exceeds the limit of the broker.
var ErrTooLarge = errors.New("the message exceeds the limit of the broker")

// batchBytes is the size of a request before compression unless a single message is longer: with overhead it is below
// Kafka's default limit of a batch, 1,048,588 bytes.
const batchBytes = 1_000_000

// batchOverhead bounds the bytes of a request without its records; names of topics count.
const batchOverhead = 1 << 10

// Produce appends messages to one partition, in their order, and returns nil once all replicas in sync have all of
// them. It sends as many requests as their size needs. done is the number of acknowledged messages, from the first on;
// later ones may have been appended too. ErrTooLarge is about the message at done.
func (t *Topic) Produce(ctx context.Context, partition int, messages []Message) (done int, err error) {
	return t.ProduceTo(ctx, partition, messages, func(int64, int) {})
}

// ProduceTo does what Produce does, and calls landed after each acknowledged request with the offset of its first
// message and the number of its messages.
func (t *Topic) ProduceTo(ctx context.Context, partition int, messages []Message,
	landed func(base int64, n int)) (done int, err error) {
	for done < len(messages) {
		var base int64
		n, err := t.request(messages[done:])
		if err == nil {
			base, err = t.produce(ctx, partition, messages[done:done+n])
		}
		if n > 1 && errors.Is(err, ErrTooLarge) {
			// The limit of the broker is below Kafka's default: sent one by one, the message that exceeds it shows.
			n = 1
			base, err = t.produce(ctx, partition, messages[done:done+1])
		}
		if err != nil {
			return done, fmt.Errorf("produce to %s/%d: %w", t.name, partition, err)
		}
		landed(base, n)
		done += n
	}
	return done, nil
}

// request returns how many messages go into the next request.
func (t *Topic) request(messages []Message) (n int, err error) {
	limit := batchBytes
	if own := t.client.cfg.MaxRequestBytes; own > 0 {
		limit = min(limit, own)
	}
	size := batchOverhead
	for i := range messages {
		if size += messages[i].Bytes(); size > limit && i > 0 {
			return i, nil
		}
		if own := t.client.cfg.MaxRequestBytes; own > 0 && size > own {
			return 0, ErrTooLarge
		}
	}
	return len(messages), nil
}

// produce sends one request and returns the offset of the first message.
func (t *Topic) produce(ctx context.Context, partition int, messages []Message) (base int64, err error) {
	records := make([]kafkago.Record, len(messages))
	for i := range messages {
		records[i] = messages[i].record()
	}
	res, err := t.client.api.Produce(ctx, &kafkago.ProduceRequest{
		Topic: t.name, Partition: partition, RequiredAcks: kafkago.RequireAll, Compression: t.client.codec,
		Records: kafkago.NewRecordReader(records...),
	})
	if err == nil {
		err = res.Error
	}
	switch {
	case err == nil:
		return res.BaseOffset, nil
	case errors.Is(err, kafkago.MessageSizeTooLarge), errors.Is(err, kafkago.RecordListTooLarge):
		return 0, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return 0, t.client.explain(ctx, t.name, err)
}

// IsPermanent reports whether retrying can't resolve an error: Kafka's errors that are not marked as temporary.
// All others come from the network or from a broker that is away.
func IsPermanent(err error) bool {
	var k kafkago.Error
	return errors.Is(err, ErrTooLarge) || errors.As(err, &k) && !k.Temporary()
}

// IsUnknownTopic reports whether the error is that of a topic or partition that does not exist.
func IsUnknownTopic(err error) bool { return errors.Is(err, kafkago.UnknownTopicOrPartition) }
