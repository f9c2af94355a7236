package httpapi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/klauspost/compress/zstd"
)

// blockBytes is how much of a spool is compressed at a time. A spool that stays below it is never compressed.
const blockBytes = 256 << 10

// nameBytes estimates the memory of a new device, metric or label set without its characters.
const nameBytes = 100

// packer compresses blocks. It is safe for any number of callers.
type packer struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newPacker() (packer, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(blockBytes),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		return packer{}, err
	}
	d, err := zstd.NewReader(nil)
	return packer{e, d}, err
}

// rowBuffer keeps rows, compressed, until they are asked for. It is owned by one goroutine.
type rowBuffer struct {
	packer packer
	limit  int64         // bytes of full blocks and of names
	memory *query.Memory // counts them
	err    error         // first error of memory
	blocks [][]byte
	open   []byte
	last   int64 // the time of the row before

	devices dictionary
	metrics dictionary
	sets    dictionary         // label sets, as keys
	labels  []telemetry.Labels // label sets by number
	key     []byte
}

// dictionary numbers strings in the order in which they come.
type dictionary struct {
	names []string
	index map[string]uint64
}

func (d *dictionary) add(name []byte) (n uint64, isNew bool) {
	if n, ok := d.index[string(name)]; ok {
		return n, false
	}
	n = uint64(len(d.names))
	s := string(name)
	d.names, d.index[s] = append(d.names, s), n
	return n, true
}

func newRowBuffer(p packer, limit int64, memory *query.Memory) *rowBuffer {
	s := &rowBuffer{packer: p, limit: limit, memory: memory}
	for _, d := range []*dictionary{&s.devices, &s.metrics, &s.sets} {
		d.index = make(map[string]uint64)
	}
	return s
}

func (s *rowBuffer) number(d *dictionary, name []byte) uint64 {
	n, isNew := d.add(name)
	if isNew {
		s.keep(nameBytes + int64(len(name)))
	}
	return n
}

// add takes a row: device, time since the row before, label set, number of values, and of each value its metric, its
// kind and itself. It fails with a *query.LimitError when the spool is full, and with query.ErrBusy when others hold
// too much.
func (s *rowBuffer) add(r query.Row) error {
	s.key = r.Labels.AppendKey(s.key[:0])
	set := s.number(&s.sets, s.key)
	if set == uint64(len(s.labels)) {
		s.labels = append(s.labels, r.Labels)
	}
	b := binary.AppendUvarint(s.open, s.number(&s.devices, []byte(r.Device)))
	b = binary.AppendVarint(b, r.Time-s.last)
	b = binary.AppendUvarint(b, set)
	b = binary.AppendUvarint(b, uint64(len(r.Values)))
	for _, f := range r.Values {
		b = binary.AppendUvarint(b, s.number(&s.metrics, []byte(f.Metric)))
		b = append(b, byte(f.Value.Kind()))
		if f.Value.Kind() == telemetry.Text {
			b = binary.AppendUvarint(b, uint64(len(f.Value.Text())))
			b = append(b, f.Value.Text()...)
		} else {
			b = binary.LittleEndian.AppendUint64(b, f.Value.Bits())
		}
	}
	s.open, s.last = b, r.Time
	if len(b) >= blockBytes {
		block := s.packer.encoder.EncodeAll(b, nil)
		s.blocks, s.open = append(s.blocks, block), b[:0]
		s.keep(int64(cap(block)))
	}
	if errors.Is(s.err, query.ErrMemory) {
		limit := fmt.Sprintf("the %d MiB in which a wide CSV may be held back", s.limit>>20)
		return &query.LimitError{Limit: limit, Narrow: []string{
			"ask for a shorter range (from, to)", "for fewer devices or metrics (device, metric)",
			"take layout=long or format=ndjson, which are not held back",
		}}
	}
	return s.err
}

func (s *rowBuffer) keep(n int64) {
	if s.err == nil {
		s.err = s.memory.Take(n)
	}
}

// bufferedRow is a row as a spool gives it back; it is valid until the next one.
type bufferedRow struct {
	device string
	time   int64
	labels telemetry.Labels
	values []telemetry.Field
}

// each calls f with every row, in the order in which they were added.
func (s *rowBuffer) each(f func(bufferedRow) error) error {
	var row bufferedRow
	var plain []byte
	for i := range len(s.blocks) + 1 {
		b := s.open
		if i < len(s.blocks) {
			var err error
			if plain, err = s.packer.decoder.DecodeAll(s.blocks[i], plain[:0]); err != nil {
				return fmt.Errorf("unpack held rows: %w", err)
			}
			b = plain
		}
		for len(b) > 0 {
			b = s.read(b, &row)
			if err := f(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// read takes a row, which add has written, from the front of b.
func (s *rowBuffer) read(b []byte, row *bufferedRow) (rest []byte) {
	number := func() uint64 {
		n, used := binary.Uvarint(b)
		b = b[used:]
		return n
	}
	row.device = s.devices.names[number()]
	since, used := binary.Varint(b)
	row.time, b = row.time+since, b[used:]
	row.labels = s.labels[number()]
	row.values = row.values[:0]
	for range number() {
		f := telemetry.Field{Metric: s.metrics.names[number()]}
		kind := telemetry.Kind(b[0])
		b = b[1:]
		if kind == telemetry.Text {
			n := number()
			f.Value, b = telemetry.TextValue(string(b[:n])), b[n:]
		} else {
			f.Value, b = telemetry.BitsValue(kind, binary.LittleEndian.Uint64(b)), b[8:]
		}
		row.values = append(row.values, f)
	}
	return b
}
