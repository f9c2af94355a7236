package chunk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"binnacle/internal/bytesread"
	"binnacle/internal/telemetry"
)

// A block is a Run in bytes: some readings of an open bin, as memory and the journal keep them until they are cut. Its
// schema, names and label sets, stands apart from its rows, so that the blocks of a device can share one in memory.
// docs/format/block.md specifies both.

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

// blockVersion is the layout of blocks that is written and read.
const blockVersion = 1

// AppendSchema appends the schema of a run that keeps its rules.
func AppendSchema(dst []byte, r *Run) []byte {
	dst = binary.AppendUvarint(append(dst, blockVersion), uint64(len(r.Sets)))
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
	if v := p.Byte(); v != blockVersion {
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

// schemaReader reads a schema.
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
	e.writeInts(r.Offsets, planInts(r.Offsets))
	e.writeInts(r.Times, planInts(r.Times))
	if len(r.Sets) > 1 {
		places := e.direct.ints[:0]
		for i := range r.Times {
			places = append(places, int64(r.set(i)))
		}
		e.writeInts(places, planInts(places))
		e.direct.ints = places
	}
	for i := range r.Columns {
		e.writeColumn(&r.Columns[i], r.Rows())
	}
	if len(e.s.packed) > maxUnpacked {
		return nil, fmt.Errorf("encode a block: %d bytes are above %d: %w", len(e.s.packed), maxUnpacked, ErrTooLarge)
	}
	return e.appendPacket(dst, e.s), nil
}

// set returns the place of a row's label set.
func (r *Run) set(i int) uint32 {
	if r.Labels == nil {
		return 0
	}
	return r.Labels[i]
}

// Rows decodes the rows of a block of this schema, of the columns those of the metrics, all if metrics is nil. The
// run is the caller's, but for its Sets. What are no rows of the schema gives ErrCorrupt.
func (s *Schema) Rows(data []byte, metrics []string) (Run, error) {
	d := takeDecoder()
	defer d.release()
	if _, err := d.openPacket(data); err != nil {
		return Run{}, err
	}
	n, err := d.length(MaxRows)
	if err != nil || n == 0 {
		return Run{}, corrupt("a block of %d rows", n)
	}
	r := Run{Sets: s.sets}
	if r.Offsets, err = d.readInts(nil, n); err != nil {
		return Run{}, err
	}
	if r.Times, err = d.readInts(nil, n); err != nil {
		return Run{}, err
	}
	if len(s.sets) > 1 {
		if err := d.readPlaces(&r); err != nil {
			return Run{}, err
		}
	}
	if err := r.checkRows(); err != nil {
		return Run{}, corrupt("%v", err)
	}
	return r, s.readColumns(d, &r, wantedOf(metrics))
}

// readPlaces reads the rows' label sets.
func (d *decoder) readPlaces(r *Run) (err error) {
	if d.ints, err = d.readInts(d.ints, r.Rows()); err != nil {
		return err
	}
	r.Labels = make([]uint32, r.Rows())
	for i, x := range d.ints {
		if uint64(x) >= uint64(len(r.Sets)) {
			return corrupt("label set %d of %d", x, len(r.Sets))
		}
		r.Labels[i] = uint32(x)
	}
	return nil
}

// readColumns reads the columns that are wanted, and what follows to the end.
func (s *Schema) readColumns(d *decoder, r *Run, w wanted) error {
	for i := range s.columns {
		c := &s.columns[i]
		if d.cells -= r.Rows(); d.cells < 0 {
			return corrupt("more than %d cells", MaxCells)
		}
		if !w.has(c.metric) {
			if err := d.skipColumn(r.Rows()); err != nil {
				return err
			}
			continue
		}
		if r.Columns == nil {
			r.Columns = make([]Column, 0, len(s.columns)-i)
		}
		r.Columns = append(r.Columns, Column{Metric: c.metric, Kind: c.kind})
		if err := d.readColumn(&r.Columns[len(r.Columns)-1], r.Rows()); err != nil {
			return fmt.Errorf("column %s: %w", c.metric, err)
		}
		if err := (&Group{Columns: r.Columns}).checkOrder(len(r.Columns) - 1); err != nil {
			return corrupt("%v", err)
		}
	}
	return d.closePacket()
}

// AppendSplit appends a block of which schema and rows are there already: what SplitBlock takes apart.
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
