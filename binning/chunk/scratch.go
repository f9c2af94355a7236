package chunk

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// keptScratch is the most bytes of one buffer, or of a document that a parser has read, that are kept for later calls.
const keptScratch = 1 << 20

// bestAtOnce bounds the memory of concurrent calls: zstd's tables at its best level are 34 MB for each.
const bestAtOnce = 2

// The encoders of zstd are shared by all calls, and made when they are needed: the best one only by what has repeats.
var (
	fastZstd = sync.OnceValue(func() *zstd.Encoder { return newZstd(zstd.WithEncoderLevel(zstd.SpeedFastest)) })
	bestZstd = sync.OnceValue(func() *zstd.Encoder {
		return newZstd(zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(bestAtOnce))
	})
)

func newZstd(options ...zstd.EOption) *zstd.Encoder {
	w, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))...)
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return w
}

var encoders = sync.Pool{New: func() any { return &encoder{texts: map[string]int64{}} }}

// takeEncoder returns an encoder of documents, or of blocks if brief.
func takeEncoder(brief bool) *encoder {
	e := encoders.Get().(*encoder)
	e.brief = brief
	return e
}

// release gives e back for later calls, unless an unusual frame has made it large.
func (e *encoder) release() {
	if max(cap(e.s.packed), cap(e.s.plain), cap(e.doc)) <= keptScratch {
		encoders.Put(e)
	}
}

// decoders are small, and queries come in bursts: the garbage collector may have the idle ones.
var decoders = sync.Pool{New: func() any { return new(decoder) }}

func takeDecoder() *decoder {
	d := decoders.Get().(*decoder)
	d.values, d.cells, d.unpackable = MaxValues, MaxCells, maxUnpacked
	return d
}

// release gives d back for later calls, without memory that only an unusual chunk needs.
func (d *decoder) release() {
	d.s, d.brief = section{}, false
	d.index.reset()
	if cap(d.unpacked) > keptScratch {
		d.unpacked = nil
	}
	decoders.Put(d)
}

// unzstd is shared by all calls. As many unpack at a time as there are processors. It is made at the start of the
// process, since a channel made in a bubble of testing/synctest may not be used outside that bubble.
var unzstd = func() *zstd.Decoder {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return r
}()
