package kafka

import (
	"context"
	"errors"
	"fmt"
)

// AppendBytes is what the messages of one Append may take, by Message.Bytes: less than any broker's limit of a batch as
// it is by default, so that what a broker refuses for its size is one message alone.
const AppendBytes = 900_000

var errNothing = errors.New("there is nothing to append")

// Append appends messages to one partition by exactly one request, and returns the offset of the first one once all
// replicas in sync have all of them; the others follow it without a gap. It never asks twice.
//
// ErrTooLarge says that nothing was appended, because the messages are more than AppendBytes together, or more than the
// broker or the client's own bound takes. Fewer of them may fit. After any other error the messages may be in the log
// all the same, now or later: their sender can't tell.
func (t *Topic) Append(ctx context.Context, partition int, messages []Message) (base int64, err error) {
	if base, err = t.append(ctx, partition, messages); err != nil {
		return 0, fmt.Errorf("append to %s/%d: %w", t.name, partition, err)
	}
	return base, nil
}

func (t *Topic) append(ctx context.Context, partition int, messages []Message) (base int64, err error) {
	if len(messages) == 0 {
		return 0, errNothing // for which the client would tell offset 0
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
