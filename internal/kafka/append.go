package kafka

import (
	"context"
	"errors"
	"fmt"
)

// AppendBytes is the most that the messages of one Append may take, by Message.Bytes. It is below the default batch
// limit of all brokers, so that a broker refuses only a single message for its size.
const AppendBytes = 900_000

var errNothing = errors.New("no messages to append")

// Append appends messages to one partition by exactly one request. It returns the offset of the first one once all
// replicas in sync have all of them; the others follow without a gap. It never sends the request again.
//
// After ErrTooLarge nothing was appended: the messages exceed AppendBytes, or the limit of the broker or of the
// client. Fewer of them may fit. After any other error the messages may be in the log, now or later.
func (t *Topic) Append(ctx context.Context, partition int, messages []Message) (base int64, err error) {
	if base, err = t.append(ctx, partition, messages); err != nil {
		return 0, fmt.Errorf("append to %s/%d: %w", t.name, partition, err)
	}
	return base, nil
}

func (t *Topic) append(ctx context.Context, partition int, messages []Message) (base int64, err error) {
	if len(messages) == 0 {
		return 0, errNothing // the client would return offset 0
	}
	size := 0
	for i := range messages {
		size += messages[i].Bytes()
	}
	if own := t.client.cfg.MaxRequestBytes; size > AppendBytes || own > 0 && size+batchOverhead > own {
		return 0, fmt.Errorf("%d messages of %d bytes: %w", len(messages), size, ErrTooLarge)
	}
	return t.produce(ctx, partition, messages)
}
