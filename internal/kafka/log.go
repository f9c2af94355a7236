package kafka

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// errChecksum is the error of a batch that was damaged on its way. Another replica, or the same one later, may have it
// right.
var errChecksum = errors.New("a batch with a wrong checksum")

// maxAnswerBeforeLast is the memory of an answer's records from which on its further batches are fetched again.
const maxAnswerBeforeLast = 16 << 20

// frame is one encoded entry of a log: a record batch, or a message from before Kafka 0.11. All begin with the offset
// and the length of the rest; the seventeenth byte is the version of the format.
type frame []byte

const (
	frameHead  = 12 // offset, length
	frameMagic = 16

	// frameVersion is the version of record batches.
	frameVersion = 2
)

func (f frame) offset() int64 { return int64(binary.BigEndian.Uint64(f)) }
func (f frame) magic() byte   { return f[frameMagic] }

// nextFrame splits off the first entry. It returns none when the end is missing: brokers may cut the last one short.
func nextFrame(set []byte) (f frame, rest []byte, err error) {
	if len(set) <= frameMagic {
		return nil, nil, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(set[8:]))) + frameHead
	if length <= frameMagic {
		return nil, nil, fmt.Errorf("an entry of %d bytes: %w", length, errChecksum)
	}
	if length > int64(len(set)) {
		return nil, nil, nil
	}
	return frame(set[:length]), set[length:], nil
}

// logReader decodes the entries of one answer.
type logReader struct {
	*memory
	from    int64
	aborted aborted
	out     Batch
}

// newLogReader returns a reader of the committed records from an offset on.
func newLogReader(m *memory, from int64, transactions []transaction) *logReader {
	slices.SortFunc(transactions, func(a, b transaction) int { return cmp.Compare(a.first, b.first) })
	return &logReader{memory: m, from: from, aborted: aborted{transactions, map[int64]bool{}},
		out: Batch{Next: from, Records: m.made[:0]}}
}

func (r *logReader) read(set []byte) (Batch, error) {
	for r.out.Bytes < maxAnswerBeforeLast {
		f, rest, err := nextFrame(set)
		if err == nil && f == nil {
			break
		}
		refused := (*Refusal)(nil)
		if err == nil {
			refused, err = r.entry(f)
		}
		switch {
		case (err != nil || refused != nil) && r.out.Next > r.from:
			return r.out, nil // the next fetch begins with the faulty entry
		case err != nil:
			return Batch{}, err
		case refused != nil:
			r.out.Refused, r.out.Next = refused, refused.Through+1
			return r.out, nil
		}
		set = rest
	}
	return r.out, nil
}

// entry decodes one entry. The error is about its transport or about a log that is too old, the refusal about its
// content.
func (r *logReader) entry(f frame) (*Refusal, error) {
	switch {
	case f.magic() == frameVersion:
		return r.batch(f)
	case f.offset() < r.from:
		return nil, nil
	case f.magic() < frameVersion:
		return nil, fmt.Errorf("the message at offset %d is in format %d, from before Kafka 0.11, which is not read: "+
			"copy the topic to a new one, with MirrorMaker for example, or move the group's offset behind such messages",
			f.offset(), f.magic())
	}
	return &Refusal{
		First: f.offset(), Through: f.offset(), Time: -1, Bytes: len(f),
		Why: fmt.Sprintf("an entry of version %d", f.magic()),
	}, nil
}

// transaction is an aborted transaction of a producer, from its first offset on.
type transaction struct{ producer, first int64 }

// aborted holds the aborted transactions of an answer until their records have been passed.
type aborted struct {
	coming []transaction  // sorted by first offset
	open   map[int64]bool // producers with an open one
}

// has reports whether a producer's records in a batch that ends at an offset belong to an aborted transaction. Callers
// must ask in the order of batches.
func (a *aborted) has(producer, last int64) bool {
	for len(a.coming) > 0 && a.coming[0].first <= last {
		a.open[a.coming[0].producer] = true
		a.coming = a.coming[1:]
	}
	return a.open[producer]
}

// ends records the marker that ends a producer's transaction.
func (a *aborted) ends(producer int64) { delete(a.open, producer) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
