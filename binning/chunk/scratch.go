package chunk

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// keptScratch is the most bytes of one buffer, or of a document that a parser has read, that are kept for later calls.
const keptScratch = 1 << 20

// encodersAtOnce bounds the memory of concurrent calls: zstd's tables at its best level are 34 MB an encoder. Two encoders
// take 20 million values a second, which is what some twenty cores decode from JSON.
const encodersAtOnce = 2

// idle are the encoders that no call uses. They are kept, unlike in a sync.Pool: with chunks seconds apart the garbage
// collector would have the tables made anew for almost every one.
var idle = struct {
	slots    chan struct{} // one for each call at work
	mu       sync.Mutex    // guards encoders
	encoders []*encoder    // the last used on top
}{slots: make(chan struct{}, encodersAtOnce)}

// takeEncoder waits for a slot and gives the encoder used last, or a new one.
func takeEncoder() *encoder {
	idle.slots <- struct{}{}
	idle.mu.Lock()
	defer idle.mu.Unlock()
	n := len(idle.encoders)
	if n == 0 {
		return newEncoder()
	}
	e := idle.encoders[n-1]
	idle.encoders = idle.encoders[:n-1]
	return e
}

// release gives e back for later calls, without memory that only an unusual frame needs.
func (e *encoder) release() {
	if cap(e.s.packed) > keptScratch {
		e.s.packed, e.frame, e.huffed = nil, nil, nil
	}
	idle.mu.Lock()
	idle.encoders = append(idle.encoders, e)
	idle.mu.Unlock()
	<-idle.slots
}

func newEncoder() *encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return &encoder{zstd: w, texts: map[string]int64{}}
}

// decoders are small, and queries come in bursts: the garbage collector may have the idle ones.
var decoders = sync.Pool{New: func() any { return newDecoder() }}

// takeDecoder gives a decoder that may decode one chunk.
func takeDecoder() *decoder {
	d := decoders.Get().(*decoder)
	d.values, d.cells, d.unpackable = MaxValues, MaxCells, maxUnpacked
	return d
}

// release gives d back for later calls, without memory that only an unusual chunk needs.
func (d *decoder) release() {
	d.s = section{}
	d.index.reset()
	if cap(d.unpacked) > keptScratch {
		d.unpacked = nil
	}
	decoders.Put(d)
}

func newDecoder() *decoder {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return &decoder{zstd: r}
}
