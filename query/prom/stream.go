package prom

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// packed is a series as XOR chunks, which take a fraction of its samples.
type packed struct {
	query  int
	labels labels.Labels
	chunks []prompb.Chunk
}

const (
	chunkSamples = 120     // of an XOR chunk, as Prometheus cuts them
	chunkBytes   = 128     // beside its data, and what that may have grown too much
	frameBytes   = 1 << 20 // of chunks in a frame, about
)

// streamed returns an answer in frames, each a ChunkedReadResponse with a series or a part of one. It packs a series
// when it has read it, and makes frames when they are sent: an answer holds its chunks, and one series unpacked.
func (c *call) streamed(ctx context.Context, queries []*prompb.Query) (answer, error) {
	var all []packed
	for i, q := range queries {
		from := len(all)
		err := c.readOf(ctx, q, func(one *series) (kept bool, err error) {
			p := packed{query: i, labels: one.labels}
			if p.chunks, err = c.pack(one); err != nil {
				return false, err
			}
			all = append(all, p)
			return false, nil
		})
		if err != nil {
			return answer{}, err
		}
		slices.SortFunc(all[from:], func(a, b packed) int { return labels.Compare(a.labels, b.labels) })
	}
	return answer{frames: framesOf(all)}, nil
}

// pack makes chunks of a series, and counts them.
func (t *tenantStorage) pack(s *series) (out []prompb.Chunk, err error) {
	for from := 0; from < len(s.times); from += chunkSamples {
		to := min(from+chunkSamples, len(s.times))
		chunk := chunkenc.NewXORChunk()
		appender, err := chunk.Appender()
		if err != nil {
			return nil, err
		}
		for i := from; i < to; i++ {
			appender.Append(0, s.times[i], s.values[i])
		}
		chunk.Compact()
		if err := t.memory.Take(int64(len(chunk.Bytes()) + chunkBytes)); err != nil {
			return nil, err
		}
		out = append(out, prompb.Chunk{
			Type: prompb.Chunk_XOR, MinTimeMs: s.times[from], MaxTimeMs: s.times[to-1], Data: chunk.Bytes(),
		})
	}
	return out, nil
}

// framesOf returns the frames of series, in pieces that are valid until the next one.
func framesOf(all []packed) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var b []byte
		for _, s := range all {
			for from, to := 0, 0; from < len(s.chunks); from = to {
				for n := 0; to < len(s.chunks) && n < frameBytes; to++ {
					n += s.chunks[to].Size()
				}
				b = appendFrame(b, &prompb.ChunkedReadResponse{QueryIndex: int64(s.query), ChunkedSeries: []*prompb.ChunkedSeries{
					{Labels: prompb.FromLabels(s.labels, nil), Chunks: s.chunks[from:to]},
				}})
				if len(b) >= pieceBytes {
					if !yield(b) {
						return
					}
					b = b[:0]
				}
			}
		}
		if len(b) > 0 {
			yield(b)
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends a message with its length, as a varint, and its checksum before it.
func appendFrame(b []byte, m *prompb.ChunkedReadResponse) []byte {
	n := m.Size()
	b = slices.Grow(binary.AppendUvarint(b, uint64(n)), 4+n)
	data := b[len(b)+4 : len(b)+4+n]
	if _, err := m.MarshalToSizedBuffer(data); err != nil {
		panic(err) // it has the size that it says
	}
	return append(binary.BigEndian.AppendUint32(b, crc32.Checksum(data, castagnoli)), data...)
}
