package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"
)

// The replay log records which dead letters are published, in the partition of the dead letter: a log drops the dead
// letter before it drops what became of it. Earlier releases also wrote claims and releases, which count for nothing.
const (
	headerReceipt = "binnacle-receipt"
	doneKind      = "done"
)

// receipt says that some dead letters are published.
type receipt struct {
	IDs []string `json:"letters"`
}

// record returns the receipt as a record, for a topic's dead letters.
func (c receipt) record(topic string) kafka.Message {
	value, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings always encode
	}
	return kafka.Message{Value: value, Headers: []kafka.Header{
		{Key: headerReceipt, Value: []byte(doneKind)}, {Key: deadletter.HeaderTopic, Value: []byte(topic)},
	}}
}

// receiptOf returns a record's receipt for a topic's dead letters, and its kind, which is empty for other records. A
// dead letter is no receipt, whatever headers its record was sent with: only a replay writes receipts.
func receiptOf(r *kafka.Record, topic string) (kind string, c receipt, err error) {
	of := ""
	for _, h := range r.Headers {
		switch h.Key {
		case deadletter.HeaderReason:
			return "", c, nil
		case headerReceipt:
			kind = string(h.Value)
		case deadletter.HeaderTopic:
			of = string(h.Value)
		}
	}
	if kind == "" || of != topic {
		return "", c, nil
	}
	if err := json.Unmarshal(r.Value, &c); err != nil {
		return "", c, fmt.Errorf("the receipt at offset %d: %w", r.Offset, err)
	}
	return kind, c, nil
}

// entry is what is kept of a dead letter: the partition of its topic, and why it was refused.
type entry struct {
	partition int
	reason    decode.Reason
}

// replayLog has what the dead-letter topic says about the dead letters of one topic: which there are, and which of them
// are published.
type replayLog struct {
	topic  string
	wanted func(l *deadletter.DeadLetter, at int64) bool // reports whether a dead letter is selected

	deadLetters map[deadletter.ID]entry // the selected ones
	done        map[deadletter.ID]bool
	repeats     int // further copies of selected dead letters
}

// read reads a part of the dead-letter topic.
func (l *replayLog) read(ctx context.Context, from *kafka.Topic, span kafka.Span, step func(int64)) error {
	return from.Each(ctx, span, func(r *kafka.Record) error {
		kind, c, err := receiptOf(r, l.topic)
		switch {
		case err != nil:
			return err
		case kind == "":
			l.addDeadLetter(span.Partition, r)
		case kind == doneKind:
			return l.addReceipt(c)
		}
		return nil
	}, step)
}

func (l *replayLog) addDeadLetter(partition int, r *kafka.Record) {
	of, ok := deadletter.Parse(r.Key, r.Value, r.Headers)
	if !ok || of.Topic != l.topic || !l.wanted(&of, r.Time) {
		return
	}
	id := of.ID()
	if _, known := l.deadLetters[id]; known {
		l.repeats++
		return
	}
	l.deadLetters[id] = entry{partition, of.Reason}
}

func (l *replayLog) addReceipt(c receipt) error {
	for _, text := range c.IDs {
		id, err := deadletter.ParseID(text)
		if err != nil {
			return fmt.Errorf("a receipt of a replay: %w", err)
		}
		l.done[id] = true
	}
	return nil
}

// parseTime returns the milliseconds since 1970, rounded down, that a cell of a table names: a number, RFC 3339, or
// what timestampOf makes RFC 3339 of.
func parseTime(s string) (millis int64, ok bool) {
	if s == "" || len(s) > 64 {
		return 0, false
	}
	if millis, ok := telemetry.ParseEpoch(s); ok {
		return millis, true
	}
	t, ok := telemetry.ParseRFC3339(s)
	if !ok {
		t, ok = telemetry.ParseRFC3339(timestampOf(s))
	}
	return t.UnixMilli(), ok
}

// timestampOf returns a time in RFC 3339 where a text has a blank between date and time, no time, no seconds, a decimal
// comma, no zone, which is UTC, a blank before the zone, or no colon in it.
func timestampOf(s string) string {
	const date = len("2006-01-02")
	if len(s) <= date {
		return s + "T00:00:00Z"
	}
	clock, zone := s[date+1:], "Z"
	if s[date] != ' ' && s[date] != 'T' && s[date] != 't' {
		return ""
	}
	if i := strings.IndexAny(clock, "Zz+-"); i >= 0 {
		clock, zone = strings.TrimSuffix(clock[:i], " "), clock[i:]
	}
	if len(clock) == len("15:04") {
		clock += ":00"
	}
	if len(zone) == len("+0100") {
		zone = zone[:3] + ":" + zone[3:]
	}
	return s[:date] + "T" + strings.Replace(clock, ",", ".", 1) + zone
}
