package headhttp

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"binnacle/internal/wire/bytesread"

	"github.com/klauspost/compress/zstd"
)

// sender writes messages into a zstd stream.
type sender struct {
	out io.Writer
	// zip compresses the first frame, and flush flushes the writer below the stream.
	zip      *zstd.Encoder
	flush    func() error
	err      error // the first one; nothing is written after it
	buf      message
	raw      bool   // the first frame has ended, the rest is not compressed
	rawBlock []byte // and not written yet
}

// zips has encoders between answers: each takes a megabyte and a half.
var zips = sync.Pool{New: func() any {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(256<<10))
	if err != nil {
		panic(err) // only wrong options are refused
	}
	return zip
}}

// newSender makes a sender, which must be closed.
func newSender(w io.Writer, flush func() error) *sender {
	zip := zips.Get().(*zstd.Encoder)
	zip.Reset(w)
	return &sender{out: w, zip: zip, flush: flush, buf: message{bytesread.Codec{Appends: true}}}
}

// send writes one message, with the content that fill writes.
func (s *sender) send(k kind, fill func(m *message)) error {
	if s.err != nil {
		return s.err
	}
	s.buf.Out = s.buf.Out[:0]
	if fill != nil {
		fill(&s.buf)
	}
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = byte(k)
	n := 1 + binary.PutUvarint(head[1:], uint64(len(s.buf.Out)))
	if s.write(head[:n]); s.err == nil {
		s.write(s.buf.Out)
	}
	return s.err
}

func (s *sender) sendText(k kind, text string) error {
	return s.send(k, func(m *message) { m.Text(&text) })
}

func (s *sender) write(b []byte) {
	if !s.raw {
		_, s.err = s.zip.Write(b)
		return
	}
	for len(b) > 0 && s.err == nil {
		if len(s.rawBlock) == cap(s.rawBlock) {
			s.writeRawBlock(false)
		}
		n := min(len(b), cap(s.rawBlock)-len(s.rawBlock))
		s.rawBlock, b = append(s.rawBlock, b[:n]...), b[n:]
	}
}

// A zstd frame (RFC 8878) of raw blocks: its magic number, a header with only the window, which also bounds a block,
// and before each block three bytes: whether it is the last one, 0 for raw, its size.
const (
	rawBlockBytes  = 64 << 10
	rawFrameHeader = "\x28\xb5\x2f\xfd\x00\x30" // 1 << (10 + 0x30>>3) is rawBlockBytes
)

// beginRaw writes all messages from now on uncompressed, in a frame of their own, which a reader takes as the same
// stream: blocks are dense already, and packing them again only takes time.
func (s *sender) beginRaw() {
	if s.raw || s.err != nil {
		return
	}
	if s.err = s.zip.Close(); s.err == nil {
		_, s.err = io.WriteString(s.out, rawFrameHeader)
	}
	s.raw, s.rawBlock = true, make([]byte, 3, 3+rawBlockBytes)
}

// writeRawBlock writes what is kept as a block.
func (s *sender) writeRawBlock(last bool) {
	head := uint32(len(s.rawBlock)-3) << 3
	if last {
		head |= 1
	}
	s.rawBlock[0], s.rawBlock[1], s.rawBlock[2] = byte(head), byte(head>>8), byte(head>>16)
	if s.err == nil {
		_, s.err = s.out.Write(s.rawBlock)
	}
	s.rawBlock = s.rawBlock[:3]
}

// push sends everything written so far.
func (s *sender) push() error {
	switch {
	case s.err != nil:
	case s.raw:
		s.writeRawBlock(false)
	default:
		s.err = s.zip.Flush()
	}
	if s.err == nil {
		s.err = s.flush()
	}
	return s.err
}

// close ends the stream. Nothing may be sent any more.
func (s *sender) close() error {
	if s.raw {
		s.writeRawBlock(true)
	} else if err := s.zip.Close(); s.err == nil {
		s.err = err
	}
	s.zip.Reset(nil)
	zips.Put(s.zip)
	return s.err
}

// receiver reads messages out of a zstd stream. It serves one goroutine.
type receiver struct {
	pool *receivers
	in   *bufio.Reader
	zip  *zstd.Decoder
	buf  []byte
}

// receivers keeps receivers for later streams: their windows and buffers are most of what a small answer takes.
type receivers struct{ kept sync.Pool }

// maxWindow bounds the memory that a stream may ask for.
const maxWindow = 8 << 20

// read reads from r, without a goroutine: closing r ends the receiver.
func (p *receivers) read(r io.Reader) (*receiver, error) {
	if old, ok := p.kept.Get().(*receiver); ok && old.zip.Reset(r) == nil {
		old.in.Reset(old.zip)
		return old, nil
	}
	zip, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return &receiver{pool: p, in: bufio.NewReaderSize(zip, 64<<10), zip: zip}, nil
}

// release keeps the receiver for another stream. Its goroutine calls it once, and does not use the receiver any more.
func (r *receiver) release() {
	if r.zip.Reset(nil) == nil && cap(r.buf) <= maxKeptMessage {
		r.pool.kept.Put(r)
	}
}

// maxKeptMessage bounds the buffer of a receiver that is kept.
const maxKeptMessage = 1 << 20

// next reads a message; its content is valid until the next one. io.EOF means that the stream ended between two
// messages.
func (r *receiver) next() (kind, *message, error) {
	k, err := r.in.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return 0, nil, unexpectedEOF(err)
	}
	if n > maxMessage {
		return 0, nil, fmt.Errorf("%w: a message of %d bytes is above %d", errWire, n, maxMessage)
	}
	if r.buf, err = fill(r.buf[:0], r.in, int(n)); err != nil {
		return 0, nil, unexpectedEOF(err)
	}
	return kind(k), &message{bytesread.Codec{Reader: bytesread.Reader{Rest: r.buf}}}, nil
}

// fill reads n bytes, and takes memory only as they come.
func fill(buf []byte, in io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	for len(buf) < n {
		have, more := len(buf), min(step, n-len(buf))
		if cap(buf) < have+more {
			buf = append(make([]byte, 0, min(n, 2*cap(buf)+more)), buf...)
		}
		buf = buf[:have+more]
		if _, err := io.ReadFull(in, buf[have:]); err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// unexpectedEOF returns an error inside a message, where an end is unexpected.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
