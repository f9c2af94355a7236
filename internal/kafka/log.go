package kafka

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errChecksum says that a batch is not as it was sent. Another replica, or the same one later, may have it right.
var errChecksum = errors.New("a batch with a wrong checksum")

// enoughBytes is from how much memory on no further batch of an answer is unpacked: it is fetched again.
const enoughBytes = 16 << 20

// frame is one entry of a log as it lies there: a record batch, or, before Kafka 0.11, a message that may hold
// others. The offset, the length of what follows, and the seventeenth byte, which says which one it is, are common to
// all.
type frame []byte

const (
	frameHead  = 12 // offset, length
	frameMagic = 16
	frameLeast = 17 + 9 // the shortest message, of version 0, has so many
)

func (f frame) offset() int64 { return int64(binary.BigEndian.Uint64(f)) }
func (f frame) magic() byte   { return f[frameMagic] }

// nextFrame cuts the first entry off; there is none when its end is missing, as brokers leave the last one.
func nextFrame(set []byte) (f frame, rest []byte, err error) {
	if len(set) <= frameMagic {
		return nil, nil, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(set[8:]))) + frameHead
	if length < frameLeast {
		return nil, nil, fmt.Errorf("an entry of %d bytes: %w", length, errChecksum)
	}
	if length > int64(len(set)) {
		return nil, nil, nil
	}
	return frame(set[:length]), set[length:], nil
}

// logReader takes the entries of one answer apart.
type logReader struct {
	unpack  *unpacker
	from    int64
	aborted aborted
	out     Batch
}

// readLog returns the committed records from an offset on that the entries of an answer have.
func readLog(u *unpacker, set []byte, transactions []kmsg.FetchResponseTopicPartitionAbortedTransaction,
	from int64) (Batch, error) {
	r := logReader{unpack: u, from: from, aborted: newAborted(transactions), out: Batch{Next: from}}
	for r.out.Bytes < enoughBytes {
		f, rest, err := nextFrame(set)
		if err == nil && f == nil {
			break
		}
		refused := (*Refusal)(nil)
		if err == nil {
			refused, err = r.entry(f)
		}
		switch {
		case (err != nil || refused != nil) && r.out.Next > from:
			return r.out, nil // what there is counts; the next fetch begins with the faulty one
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

// entry takes one entry. The error is about how it came, the refusal about what it is.
func (r *logReader) entry(f frame) (*Refusal, error) {
	switch f.magic() {
	case 0, 1:
		return r.messages(f)
	case 2:
		return r.batch(f)
	}
	if f.offset() < r.from {
		return nil, nil
	}
	return &Refusal{
		First: f.offset(), Through: f.offset(), Time: -1, Bytes: len(f),
		Why: fmt.Sprintf("an entry of version %d", f.magic()),
	}, nil
}

// aborted are the transactions of an answer that were aborted, as far as their records have not been passed.
type aborted struct {
	coming []kmsg.FetchResponseTopicPartitionAbortedTransaction // by their first offset
	open   map[int64]bool                                       // by producer
}

func newAborted(all []kmsg.FetchResponseTopicPartitionAbortedTransaction) aborted {
	coming := slices.Clone(all)
	slices.SortFunc(coming, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	return aborted{coming, map[int64]bool{}}
}

// has reports whether a producer's records in a batch that ends at an offset are of an aborted transaction. Batches are
// asked for in their order.
func (a *aborted) has(producer, last int64) bool {
	for len(a.coming) > 0 && a.coming[0].FirstOffset <= last {
		a.open[a.coming[0].ProducerID] = true
		a.coming = a.coming[1:]
	}
	return a.open[producer]
}

// ends takes the marker that ends a producer's transaction.
func (a *aborted) ends(producer int64) { delete(a.open, producer) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
