package replay

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
)

// The replay log records what was published of the dead letters, in the partition of the dead letter: a log drops the
// dead letter before it drops what became of it. A claim comes before anything is published, so that a replay that
// finds one without an end knows where to look for what a replay that died has published.
const headerReceipt = "binnacle-receipt"

// Kinds of receipts.
const (
	claimKind   = "claim"   // the dead letters are about to be published by a run, into logs that end where it says
	doneKind    = "done"    // they are published
	releaseKind = "release" // they are not, and will not be by this run
)

// receipt is what a run says of some dead letters.
type receipt struct {
	Run  string        `json:"run"`
	IDs  []string      `json:"letters"`
	Ends map[int]int64 `json:"ends,omitempty"` // of the topic's partitions

	// Secret is the key of the MACs by which the copies that the run publishes are recognised. Claims have it. It is
	// written to the dead-letter topic alone, so that producers of readings cannot learn it.
	Secret string `json:"secret,omitempty"`
}

// copyKey makes the MACs of the copies that one run publishes in a topic.
type copyKey struct{ secret, topic string }

// mac returns the part of a copy's header that only a run with the secret can compute.
func (k copyKey) mac(id deadletter.ID) string {
	mac := hmac.New(sha256.New, []byte(k.secret))
	_, _ = fmt.Fprintf(mac, "%s\n%s", k.topic, id) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// proves reports whether mac proves that a run with the secret published a copy of the dead letter. An empty secret
// proves nothing.
func (k copyKey) proves(id deadletter.ID, mac string) bool {
	return k.secret != "" && hmac.Equal([]byte(mac), []byte(k.mac(id)))
}

// record returns the receipt as a record.
func (c receipt) record(kind, topic string) kafka.Message {
	value, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return kafka.Message{Value: value, Headers: []kafka.Header{
		{Key: headerReceipt, Value: []byte(kind)}, {Key: deadletter.HeaderTopic, Value: []byte(topic)},
	}}
}

// receiptOf returns the receipt that a record holds, for a topic's dead letters; kind is empty where it is none. A dead
// letter is none, whatever headers its record was sent with: nobody but a replay says what became of dead letters.
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

// claim is one that a dead letter has.
type claim struct {
	run    string
	secret string
	at     int64 // ms
	ends   map[int]int64
}

// entry is what is kept of a dead letter: the partition of its topic, and why it was refused.
type entry struct {
	partition int
	reason    decode.Reason
}

// replayLog has what the dead-letter topic says about the dead letters of one topic: which there are, and what became
// of them.
type replayLog struct {
	topic  string
	wanted func(l *deadletter.DeadLetter, at int64) bool // reports whether a dead letter is selected

	deadLetters map[deadletter.ID]entry // those that are
	done        map[deadletter.ID]bool
	claims      map[deadletter.ID][]claim // that have no end
	read        map[int]int64             // partitions, and up to where they were read

	repeats int // further copies of selected dead letters
}

func newReplayLog(topic string, wanted func(l *deadletter.DeadLetter, at int64) bool) *replayLog {
	return &replayLog{topic: topic, wanted: wanted, deadLetters: map[deadletter.ID]entry{}, done: map[deadletter.ID]bool{},
		claims: map[deadletter.ID][]claim{}, read: map[int]int64{}}
}

// follow reads a partition on, up to an offset. f sees each receipt, in its order, before it counts; nil sees none.
func (l *replayLog) follow(ctx context.Context, from *kafka.Topic, partition int, to int64,
	f func(kind string, c receipt) error, step func(int64)) error {
	err := from.Each(ctx, kafka.Span{Partition: partition, From: l.read[partition], To: to}, func(r *kafka.Record) error {
		kind, c, err := receiptOf(r, l.topic)
		switch {
		case err != nil:
			return err
		case kind == "":
			l.addDeadLetter(partition, r)
			return nil
		}
		if f != nil {
			if err := f(kind, c); err != nil {
				return err
			}
		}
		return l.addReceipt(kind, c, r.Time)
	}, step)
	if err == nil {
		l.read[partition] = max(to, l.read[partition])
	}
	return err
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

func (l *replayLog) addReceipt(kind string, c receipt, at int64) error {
	for _, text := range c.IDs {
		id, err := deadletter.ParseID(text)
		if err != nil {
			return fmt.Errorf("a receipt of run %s: %w", c.Run, err)
		}
		switch kind {
		case claimKind:
			l.claims[id] = append(l.claims[id], claim{c.Run, c.Secret, at, c.Ends})
		case doneKind:
			l.done[id] = true
			delete(l.claims, id)
		case releaseKind:
			l.claims[id] = slices.DeleteFunc(l.claims[id], func(old claim) bool { return old.run == c.Run })
			if len(l.claims[id]) == 0 {
				delete(l.claims, id)
			}
		}
	}
	return nil
}

// open returns the selected dead letters that were claimed and have no later entry.
func (l *replayLog) open() map[deadletter.ID][]claim {
	out := map[deadletter.ID][]claim{}
	for id, all := range l.claims {
		if _, wanted := l.deadLetters[id]; wanted && !l.done[id] {
			out[id] = all
		}
	}
	return out
}

// others reports whether another run than the given one has claimed a dead letter.
func (l *replayLog) others(id deadletter.ID, run string) bool {
	return slices.ContainsFunc(l.claims[id], func(c claim) bool { return c.run != run })
}

// from returns where the publications of claims may begin, by partition.
func from(all map[deadletter.ID][]claim) map[int]int64 {
	out := map[int]int64{}
	for _, claims := range all {
		for _, c := range claims {
			for partition, end := range c.ends {
				if old, known := out[partition]; !known || end < old {
					out[partition] = end
				}
			}
		}
	}
	return out
}

// copies returns the dead letters with a copy in the topic, at or after the given offset of each partition. A
// record counts as a copy only if of accepts its MAC: everybody who may produce can write the header.
func copies(ctx context.Context, topic *kafka.Topic, from map[int]int64,
	of func(id deadletter.ID, mac string) bool) (map[deadletter.ID]bool, error) {
	found := map[deadletter.ID]bool{}
	for partition, begin := range from {
		first, end, err := topic.Bounds(ctx, partition)
		if kafka.IsUnknownTopic(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		span := kafka.Span{Partition: partition, From: max(first, begin), To: end}
		err = topic.Each(ctx, span, func(r *kafka.Record) error {
			for _, h := range r.Headers {
				if h.Key != deadletter.HeaderReplayOf {
					continue
				}
				text, mac, _ := strings.Cut(string(h.Value), " ")
				if id, err := deadletter.ParseID(text); err == nil && of(id, mac) {
					found[id] = true
				}
			}
			return nil
		}, nil)
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
