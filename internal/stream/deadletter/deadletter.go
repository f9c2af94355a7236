// Package deadletter is the form of a dead letter: the headers that say why a record, or one element of it, was refused
// and where it stood. docs/reference/payloads.md specifies it.
//
// It knows nothing of how dead letters are published or read.
package deadletter

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"binnacle/ingest/decode"
)

// The headers of a dead letter. A record's own headers stand before them, so of several the last one counts.
const (
	HeaderReason    = "binnacle-reason"
	HeaderDetail    = "binnacle-detail"
	HeaderTopic     = "binnacle-topic"
	HeaderPartition = "binnacle-partition"
	HeaderOffset    = "binnacle-offset"
	HeaderIndex     = "binnacle-index"
	HeaderElements  = "binnacle-elements"  // all elements of the dead letter, the first included; missing for one
	HeaderTimestamp = "binnacle-timestamp" // Kafka timestamp of the record, ms since 1970
	HeaderThrough   = "binnacle-through"   // the last offset, where a dead letter covers a stretch of the log

	// HeaderTruncated is the length of a payload that was left out in part or as a whole. The record itself is where
	// HeaderOffset says, while the log keeps it.
	HeaderTruncated = "binnacle-truncated"
)

// HeaderReplayOf is the header of a record that was published again: the ID of its dead letter. Earlier releases append
// a space and a MAC, which means nothing any more.
const HeaderReplayOf = "binnacle-replay-of"

// binnacleHeaders are the headers that are Binnacle's, not the record's.
var binnacleHeaders = []string{
	HeaderReason, HeaderDetail, HeaderTopic, HeaderPartition, HeaderOffset, HeaderIndex, HeaderElements, HeaderTimestamp,
	HeaderThrough, HeaderTruncated, HeaderReplayOf,
}

// DeadLetter is a dead letter that was read. Key, Value and what the headers hold are the record's own.
type DeadLetter struct {
	Topic     string
	Partition int32
	Offset    int64
	Index     int      // first element of the record that was refused, decode.Whole for all of it
	Elements  Elements // the elements refused for the reason; nil for Whole
	Through   int64    // the last offset of a stretch of the log, -1 where the dead letter is of one record
	Published int64    // Kafka timestamp of the record, ms; -1 where the dead letter does not tell
	Truncated int      // length of a payload that is not all there, -1 where it is
	Reason    decode.Reason
	Detail    string
	Key       []byte
	Value     []byte
	Headers   []decode.Header // without those that Binnacle adds
}

// Parse makes a dead letter of a record of the dead-letter topic; it is false for a record that is none. The dead
// letter shares the record's bytes.
func Parse(key, value []byte, headers []decode.Header) (DeadLetter, bool) {
	l := DeadLetter{Key: key, Value: value, Through: -1, Published: -1, Truncated: -1}
	ok := true
	said := binnacleHeadersOf(headers)
	number := func(name string, otherwise int64) int64 {
		text, there := last(said, name)
		n, err := strconv.ParseInt(text, 10, 64)
		if there && err != nil {
			ok = false
		}
		if !there {
			return otherwise
		}
		return n
	}
	const missing = -2
	l.Topic, _ = last(said, HeaderTopic)
	reason, _ := last(said, HeaderReason)
	l.Reason = decode.Reason(reason)
	l.Detail, _ = last(said, HeaderDetail)
	partition, index := number(HeaderPartition, missing), number(HeaderIndex, missing)
	l.Offset = number(HeaderOffset, missing)
	l.Through, l.Published = number(HeaderThrough, -1), number(HeaderTimestamp, -1)
	l.Truncated = int(number(HeaderTruncated, -1))
	l.Partition, l.Index = int32(partition), int(index)
	if l.Index >= 0 {
		l.Elements = Elements{{l.Index, l.Index}}
	}
	if text, there := last(said, HeaderElements); there {
		all, err := ParseElements(text)
		if l.Elements = all; err != nil || all[0].First != l.Index {
			ok = false
		}
	}
	if !ok || l.Topic == "" || reason == "" || partition < 0 || partition != int64(l.Partition) || l.Offset < 0 ||
		index < decode.Whole || l.Index != int(int32(l.Index)) {
		return DeadLetter{}, false
	}
	for _, h := range headers {
		if !slices.Contains(binnacleHeaders, h.Key) {
			l.Headers = append(l.Headers, h)
		}
	}
	return l, true
}

// binnacleHeadersOf returns the headers that Binnacle has added: from the first header that every dead letter has.
// Earlier headers are the record's own, and say nothing about the dead letter, whatever their names: a record that
// was sent with binnacle-through is no stretch of the log.
func binnacleHeadersOf(headers []decode.Header) []decode.Header {
	begin := len(headers)
	for _, name := range []string{HeaderReason, HeaderTopic, HeaderPartition, HeaderOffset, HeaderIndex} {
		for i := len(headers) - 1; i >= 0; i-- {
			if headers[i].Key == name {
				begin = min(begin, i)
				break
			}
		}
	}
	return headers[begin:]
}

func last(headers []decode.Header, name string) (string, bool) {
	for _, h := range slices.Backward(headers) {
		if h.Key == name {
			return string(h.Value), true
		}
	}
	return "", false
}

// ID identifies a dead letter of one topic, and is the same for its repeats.
type ID struct {
	Partition int32
	Index     int32
	Offset    int64
	Published int64  // two lives of a topic have the same offsets, but hardly at the same time; -1 is not known
	Part      uint32 // distinguishes parts of one record: a hash of their elements or content, else 0
}

// Count returns how many elements of records were refused: one for a record as a whole.
func (l *DeadLetter) Count() int { return max(1, l.Elements.Count()) }

// ID returns the dead letter's.
func (l *DeadLetter) ID() ID {
	id := ID{Partition: l.Partition, Index: int32(l.Index), Offset: l.Offset, Published: l.Published}
	if len(l.Elements) > 1 || l.Elements.Count() > 1 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(l.Elements.String())) // never fails
		id.Part = h.Sum32()
	}
	if l.Reason == decode.Unstorable {
		h := fnv.New32a()
		_, _ = h.Write(l.Key) // never fails
		_, _ = h.Write(l.Value)
		id.Part = h.Sum32()
		id.Published = -1 // such a dead letter is made of what was in memory, which does not know
	}
	return id
}

// Reduce removes the elements of earlier dead letters of the same record, and reports whether any is left. A record
// that is read again after a crash may be refused otherwise. taken holds the earlier elements, by record.
func (l *DeadLetter) Reduce(taken map[ID]Elements) bool {
	if l.Elements == nil {
		return true
	}
	record := ID{Partition: l.Partition, Offset: l.Offset, Published: l.Published}
	before := taken[record]
	taken[record] = before.With(l.Elements)
	l.Elements = l.Elements.Without(before)
	return len(l.Elements) > 0
}

// String returns partition, offset, index, and what else identifies a dead letter, such as 3/812/0@1795183200123.
func (id ID) String() string {
	text := fmt.Sprintf("%d/%d/%d", id.Partition, id.Offset, id.Index)
	if id.Published >= 0 {
		text += fmt.Sprintf("@%d", id.Published)
	}
	if id.Part != 0 {
		text += fmt.Sprintf("#%08x", id.Part)
	}
	return text
}

// ParseID returns what String wrote.
func ParseID(text string) (id ID, err error) {
	place, part, parted := strings.Cut(text, "#")
	place, at, timed := strings.Cut(place, "@")
	fields := strings.Split(place, "/")
	if len(fields) != 3 {
		return ID{}, fmt.Errorf("%.80q is no id of a dead letter", text)
	}
	number := func(text string, base, bits int) int64 {
		n, wrong := strconv.ParseInt(text, base, bits)
		if wrong != nil {
			err = fmt.Errorf("%.80q is no id of a dead letter", text)
		}
		return n
	}
	id = ID{Partition: int32(number(fields[0], 10, 32)), Offset: number(fields[1], 10, 64),
		Index: int32(number(fields[2], 10, 32)), Published: -1}
	if timed {
		id.Published = number(at, 10, 64)
	}
	if parted {
		id.Part = uint32(number(part, 16, 33))
	}
	return id, err
}
