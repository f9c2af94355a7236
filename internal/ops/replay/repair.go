package replay

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"
)

// Why dead letters are not published again.
const (
	leftStretch  = "they stand for stretches of the log that can't be read"
	leftRest     = "they stand for elements that they don't name"
	leftPayload  = "their payload is not all there, and the log does not have the record any more"
	leftTimeless = "their time is their record's, which neither they nor the log tell any more"
	leftSchema   = "their schema is in a registry: they can only be published as they are"
	leftLarge    = "they are larger than the broker takes"
	leftElements = "some of their elements, which would be refused again: " // and the reason
	leftRefused  = "they would be refused again: "                          // and the reason
)

// repaired is the record that is published for a dead letter.
type repaired struct {
	id        deadletter.ID
	partition int // the record's original partition; -1 for another record, which the key places
	message   kafka.Message
	spans     map[string]telemetry.Range // range of the readings' times by tenant, both ends inclusive
	rest      string                     // why some of its elements are not published; empty: all are
}

// repairer makes the record that is published for a dead letter: the refused record unchanged, if it was refused as a
// whole and nothing must be mended, else the refused readings.
type repairer struct {
	set      decode.Names
	decoder  *decode.Decoder
	other    *decode.Decoder // for records that are read for their times
	original func(ctx context.Context, l *deadletter.DeadLetter) (r kafka.Record, found bool, err error)
	elements map[int32]int64        // the record of a partition's last dead letter, if that was of an element
	whole    *deadletter.DeadLetter // the last one with the payload of its record
}

func newRepairer(opts decode.Options, topic string, set decode.Names) *repairer {
	opts = opts.ForTopic(topic)
	opts.Set = set
	return &repairer{set: set, decoder: decode.New(opts), other: decode.New(opts), elements: map[int32]int64{}}
}

// follow records a dead letter, selected or not, and reports whether it covers the rest of a record: dead letters
// before it have named some of its elements. A partition's dead letters come in its order; between them lie dead
// letters of other partitions, which other workers write.
func (m *repairer) follow(l *deadletter.DeadLetter) (rest bool) {
	if l.Truncated < 0 {
		m.whole = l
	}
	if l.Index == decode.Whole {
		offset, known := m.elements[l.Partition]
		return known && offset == l.Offset
	}
	m.elements[l.Partition] = l.Offset
	return false
}

// repair returns what is published for a dead letter, or why nothing is.
func (m *repairer) repair(ctx context.Context, l *deadletter.DeadLetter) (out repaired, left string, err error) {
	out.id = l.ID()
	if l.Through >= 0 {
		return out, leftStretch, nil
	}
	if w := m.whole; l.Truncated >= 0 && w != nil && w.Partition == l.Partition && w.Offset == l.Offset &&
		w.Published == l.Published {
		l.Key, l.Value, l.Headers, l.Truncated = w.Key, w.Value, w.Headers, -1
	}
	if l.Truncated >= 0 {
		r, found, err := m.original(ctx, l)
		if err != nil || !found {
			return out, leftPayload, err
		}
		restore(l, r)
	}
	got, own := m.read(l)
	if !own && l.Published < 0 {
		r, found, err := m.original(ctx, l)
		if err != nil || !found {
			return out, leftTimeless, err
		}
		restore(l, r)
		got, _ = m.read(l)
	}
	if got.Unknown != nil && (m.set != (decode.Names{}) || l.Index > 0 || l.Count() > 1) {
		return out, leftSchema, nil
	}
	if why := m.stillBad(got, l); why != "" {
		return out, leftRefused + string(why), nil
	}
	out.partition = int(l.Partition)
	readings := chosen(got, l)
	if alone := l.Index == decode.Whole || len(got.Bad) == 0 && len(readings) == len(got.Readings); alone && own &&
		m.set == (decode.Names{}) {
		out.message = kafka.Message{Key: l.Key, Value: l.Value, Headers: l.Headers}
	} else {
		out.message = asJSON(readings, l)
		if m.set != (decode.Names{}) {
			out.partition = -1
		}
	}
	for _, b := range got.Bad {
		if b.Index != decode.Whole && isOf(b, l) {
			out.rest = leftElements + string(b.Reason)
		}
	}
	out.spans = spansOf(readings)
	return out, "", nil
}

func restore(l *deadletter.DeadLetter, r kafka.Record) {
	l.Key, l.Value, l.Published = r.Key, r.Value, r.Time
	l.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h kafka.Header) bool {
		return h.Key == deadletter.HeaderReplayOf
	})
}

// read decodes a dead letter's payload; own reports whether its readings have times of their own, which publishing them
// later does not change.
func (m *repairer) read(l *deadletter.DeadLetter) (got decode.Result, own bool) {
	r := decode.RecordOf(l.Value, l.Headers, l.Published)
	got = m.decoder.Decode(r)
	r.Timestamp += telemetry.DayMillis
	again := m.other.Decode(r)
	return got, slices.EqualFunc(got.Readings, again.Readings, func(a, b telemetry.Reading) bool {
		return a.Time == b.Time
	})
}

// stillBad returns why a dead letter's element would be refused again, empty if nothing is known that speaks against
// it.
func (m *repairer) stillBad(got decode.Result, l *deadletter.DeadLetter) decode.Reason {
	if got.Unknown != nil {
		return ""
	}
	none := len(chosen(got, l)) == 0
	for _, b := range got.Bad {
		if b.Index == decode.Whole || none && isOf(b, l) ||
			l.Index == decode.Whole && (none || m.set != (decode.Names{})) {
			return b.Reason
		}
	}
	if none {
		return decode.Empty
	}
	return ""
}

// isOf reports whether what is wrong with a payload is one of a dead letter's elements.
func isOf(b decode.Bad, l *deadletter.DeadLetter) bool {
	return l.Elements.Overlaps(deadletter.Elements{{First: b.Index, Last: b.Index + b.More}})
}

func chosen(got decode.Result, l *deadletter.DeadLetter) (out []telemetry.Reading) {
	if l.Index == decode.Whole {
		return got.Readings
	}
	for i, r := range got.Readings {
		if l.Elements.Has(got.Index[i]) {
			out = append(out, r)
		}
	}
	return out
}

// asJSON returns a message of some readings. Of the record's own headers the backfill's alone is kept: others say how
// the payload was to be read.
func asJSON(readings []telemetry.Reading, l *deadletter.DeadLetter) kafka.Message {
	value := []byte{'['}
	for i, r := range readings {
		if i > 0 {
			value = append(value, ',')
		}
		value = decode.AppendJSON(value, r)
	}
	value = append(value, ']')
	if len(readings) == 1 {
		value = value[1 : len(value)-1]
	}
	m := kafka.Message{Key: []byte(readings[0].Tenant + "/" + readings[0].Device), Value: value, Headers: headers}
	for _, h := range l.Headers {
		if h.Key == control.BackfillHeader {
			m.Headers = append(slices.Clip(headers), h)
		}
	}
	return m
}

func spansOf(readings []telemetry.Reading) map[string]telemetry.Range {
	out := map[string]telemetry.Range{}
	for _, r := range readings {
		widen(out, r.Tenant, telemetry.Range{From: r.Time, To: r.Time})
	}
	return out
}

// widen makes a tenant's span hold another one.
func widen(spans map[string]telemetry.Range, tenant string, by telemetry.Range) {
	r, ok := spans[tenant]
	if !ok {
		r = by
	}
	spans[strings.Clone(tenant)] = telemetry.Range{From: min(r.From, by.From), To: max(r.To, by.To)}
}

// sameRecord reports whether a record of the log is the one that a dead letter was made of, as far as it shows.
func sameRecord(l *deadletter.DeadLetter, r *kafka.Record) bool {
	if r.Offset != l.Offset || l.Published >= 0 && r.Time != l.Published || !bytes.HasPrefix(r.Key, l.Key) ||
		!bytes.HasPrefix(r.Value, l.Value) {
		return false
	}
	return l.Truncated < 0 || len(r.Value) == l.Truncated
}
