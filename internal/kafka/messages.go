package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Before Kafka 0.11 logs held messages, of versions 0 and 1, and a message may hold a compressed set of others. They
// take more memory beside their bytes than records do, so such a set may only decompress to a part of the bound.
const messagesShare = 8

const (
	messageCRC   = 12
	messageBegin = 16 // where the range of the checksum begins
)

// messages reads a message and the messages in it.
func (r *logReader) messages(f frame) (*Refusal, error) {
	if crc32.ChecksumIEEE(f[messageBegin:]) != binary.BigEndian.Uint32(f[messageCRC:]) {
		return nil, fmt.Errorf("offset %d: %w", f.offset(), errChecksum)
	}
	bound := boundedDecompressor{r.unpack, 0}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: r.from},
		&kmsg.FetchResponseTopicPartition{RecordBatches: f}, &bound, nil)
	if got.Err != nil {
		if f.offset() < r.from { // a set has the offset of its last message
			return nil, nil
		}
		return &Refusal{
			First: r.from, Through: f.offset(), Time: -1, Bytes: len(f), TooLarge: errors.Is(got.Err, kgo.ErrMaxDecompress),
			Why: got.Err.Error(),
		}, nil
	}
	for _, m := range got.Records {
		rec := Record{Offset: m.Offset, Time: -1, Epoch: -1, Key: m.Key, Value: m.Value}
		if m.Attrs.TimestampType() >= 0 {
			rec.Time = max(m.Timestamp.UnixMilli(), -1)
		}
		r.out.Records = append(r.out.Records, rec)
	}
	r.out.Bytes += max(bound.unpacked, len(f)) + len(got.Records)*recordBytes
	r.out.Next = max(r.out.Next, next)
	return nil, nil
}

// boundedDecompressor is a kgo.Decompressor with a bound.
type boundedDecompressor struct {
	unpack   *unpacker
	unpacked int
}

// Decompress implements kgo.Decompressor.
func (d *boundedDecompressor) Decompress(packed []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	plain, err := d.unpack.unpack(int16(codec), packed, d.unpack.max/messagesShare)
	if errors.Is(err, errExpands) {
		err = kgo.ErrMaxDecompress
	}
	d.unpacked += len(plain)
	return plain, err
}
