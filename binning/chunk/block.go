package chunk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/bytesread"
)

// A block is a Run in bytes: some readings of an open bin, as memory and the journal keep them until they are cut.
// Its schema, names and label sets, is kept apart from its rows, so that the blocks of a device can share one in
// memory. docs/internals/format/block.md specifies both.

// Schema is what the rows of a block are: their columns and label sets. It is immutable.
type Schema struct {
	sets    []telemetry.Labels
	columns []schemaColumn
	bytes   []byte
}

type schemaColumn struct {
	metric string
	kind   telemetry.Kind
}

// BlockVersion is the layout of blocks that is written and read.
const BlockVersion = 2

// AppendSchema appends the schema of a run that keeps its rules.
func AppendSchema(dst []byte, r *Run) []byte {
	dst = binary.AppendUvarint(append(dst, BlockVersion), uint64(len(r.Sets)))
	for _, set := range r.Sets {
		dst = binary.AppendUvarint(dst, uint64(len(set)))
		for _, l := range set {
			dst = appendText(appendText(dst, l.Name), l.Value)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Columns)))
	for i := range r.Columns {
		dst = appendText(append(dst, byte(r.Columns[i].Kind)), r.Columns[i].Metric)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// ParseSchema inverts AppendSchema. It keeps nothing of b. What is no schema gives ErrCorrupt.
func ParseSchema(b []byte) (*Schema, error) {
	p := schemaReader{bytesread.Reader{Rest: bytes.Clone(b)}}
	s := &Schema{bytes: p.Rest}
	if v := p.Byte(); v != BlockVersion {
		return nil, corrupt("a block of version %d", v)
	}
	for range p.count(MaxRows) {
		var set telemetry.Labels
		for range p.count(MaxRows) {
			l := telemetry.Label{Name: p.text(), Value: p.text()}
			if len(set) > 0 && set[len(set)-1].Name >= l.Name {
				p.Fail(errSchema)
			}
			set = append(set, l)
		}
		s.sets = append(s.sets, set)
	}
	for range p.count(MaxColumns) {
		c := schemaColumn{kind: telemetry.Kind(p.Byte()), metric: p.text()}
		if c.kind < telemetry.Float || c.kind > telemetry.Text || c.metric == "" {
			p.Fail(errSchema)
		}
		if n := len(s.columns); n > 0 {
			if d := s.columns[n-1]; d.metric > c.metric || d.metric == c.metric && d.kind >= c.kind {
				p.Fail(errSchema)
			}
		}
		s.columns = append(s.columns, c)
	}
	if p.End() != nil || len(s.sets) == 0 {
		return nil, errSchema
	}
	return s, nil
}

type schemaReader struct{ bytesread.Reader }

var errSchema = corrupt("the schema of a block")

// count reads a number of things of at least a byte each.
func (p *schemaReader) count(most int) int {
	n := p.Count(1)
	if n > most {
		p.Fail(errSchema)
		return 0
	}
	return n
}

func (p *schemaReader) text() string {
	s := string(p.Take(p.count(1 << 20)))
	if !utf8.ValidString(s) {
		p.Fail(errSchema)
	}
	return s
}

// Bytes returns the schema as AppendSchema wrote it; the caller must not change it.
func (s *Schema) Bytes() []byte { return s.bytes }

// Width returns how many columns a chunk of such rows has at most.
func (s *Schema) Width() int { return len(s.columns) * len(s.sets) }

// Columns returns every metric with every kind that it has values of.
func (s *Schema) Columns() iter.Seq2[string, telemetry.Kind] {
	return func(yield func(string, telemetry.Kind) bool) {
		for i := range s.columns {
			if !yield(s.columns[i].metric, s.columns[i].kind) {
				return
			}
		}
	}
}

// HasAny reports whether some of the metrics is among the columns; true if metrics is nil.
func (s *Schema) HasAny(metrics []string) bool {
	if metrics == nil {
		return true
	}
	w := wantedOf(metrics)
	return slices.ContainsFunc(s.columns, func(c schemaColumn) bool { return w.has(c.metric) })
}

// Sets returns the label sets of the rows; the caller must not change them.
func (s *Schema) Sets() []telemetry.Labels { return s.sets }

// AppendRows appends the rows of a run, without its schema. The same run always gives the same bytes. A run above the
// limits gives ErrTooLarge; any other error is the caller's mistake.
func AppendRows(dst []byte, r *Run) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("encode a block: %w", err)
	}
	e := takeEncoder(true)
	defer e.release()
	e.s = section{e.s.plain[:0], e.s.packed[:0]}
	e.s.plain = binary.AppendUvarint(e.s.plain, uint64(r.Rows()))
	e.writePart(func() { e.writeInts(r.Offsets, planInts(r.Offsets, true)) })
	e.writePart(func() { e.writeInts(r.Times, planInts(r.Times, true)) })
	if len(r.Sets) > 1 {
		e.writePart(func() { e.writePlaces(r) })
	}
	e.patterns.find(r)
	e.writePart(func() {
		if e.patterns.n > 1 {
			e.writeInts(e.patterns.byRow, planInts(e.patterns.byRow, true))
		}
	})
	for i := range r.Columns {
		e.writePart(func() { e.writeColumn(&r.Columns[i], r.Rows()) })
	}
	if len(e.s.plain) > maxUnpacked {
		return nil, fmt.Errorf("encode a block: %d bytes are above %d: %w", len(e.s.plain), maxUnpacked, ErrTooLarge)
	}
	return append(dst, e.s.plain...), nil
}

// writePart appends what write writes, with its length in front.
func (e *encoder) writePart(write func()) {
	e.s.plain = append(e.s.plain, 0)
	at := len(e.s.plain)
	write()
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(e.s.plain)-at))
	e.s.plain[at-1] = length[0]
	if n > 1 {
		e.s.plain = slices.Insert(e.s.plain, at, length[1:n]...)
	}
}

func (e *encoder) writePlaces(r *Run) {
	places := e.direct.ints[:0]
	for i := range r.Times {
		place := int64(0)
		if r.Labels != nil {
			place = int64(r.Labels[i])
		}
		places = append(places, place)
	}
	e.direct.ints = places
	e.writeInts(places, planInts(places, true))
}

// Rows decodes the rows of a block of this schema: the columns of the metrics only, or all columns if metrics is nil.
// The run is the caller's, but for its Sets. Rows of another schema give ErrCorrupt.
func (s *Schema) Rows(data []byte, metrics []string) (r Run, err error) {
	part := s.Part(metrics)
	err = part.AppendTo(&r, 0, data)
	return r, err
}

// RowsOf returns how many rows a block says that it has.
func RowsOf(data []byte) int {
	n, used := binary.Uvarint(data)
	if used <= 0 || n > MaxRows {
		return 0
	}
	return int(n)
}

// cutPart returns the next part of a block, without its length in front, and what follows.
func cutPart(b []byte) (part, rest []byte, err error) {
	n, head := binary.Uvarint(b)
	if head <= 0 || n > uint64(len(b)-head) {
		return nil, nil, corrupt("the length of a part of a block")
	}
	end := head + int(n)
	return b[head:end], b[end:], nil
}

// shortPart returns where the next part of a block ends, 0 unless its length takes one byte, as a rule.
func shortPart(b []byte) (end int) {
	if len(b) > 0 && b[0] < 1<<7 && int(b[0]) < len(b) {
		return 1 + int(b[0])
	}
	return 0
}

// AppendSplit appends a block from its encoded schema and rows: the inverse of SplitBlock.
func AppendSplit(dst, schema, rows []byte) []byte {
	return append(append(binary.AppendUvarint(dst, uint64(len(schema))), schema...), rows...)
}

// SplitBlock returns schema and rows of a block that AppendSplit wrote; both alias b.
func SplitBlock(b []byte) (schema, rows []byte, err error) {
	r := bytesread.Reader{Rest: b}
	if schema = r.Bytes(); r.Err != nil {
		return nil, nil, corrupt("the length of a block's schema")
	}
	return schema, r.Rest, nil
}
