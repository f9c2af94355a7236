package binning

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// BlockRows is how many readings become a block, unless they are wide. Record 5 of docs/internals/adr weighs it.
const BlockRows = 64

// A block of readings with many values has fewer of them: open rows take ten times the memory.
const (
	blockValues    = 16 << 10
	leastBlockRows = 8
)

// FirstBlock returns after how many readings the first block of a device's bin is made: the part of BlockRows that the
// device's hash decides, so that a fleet that begins a day together does not make its blocks together.
func FirstBlock(device string) int {
	return leastBlockRows + int(FirstHold(device, BlockRows-leastBlockRows))
}

// The last blocks of a bin become one of so many rows or bytes at most, since each block has its price in memory. What
// the runtime allocates for a little less than those bytes is a few per cent more.
const (
	JoinedRows  = 16 * BlockRows
	joinedBytes = 6912
)

// Block is some readings of one device and day, encoded: whole records, in the order of their offsets. It is immutable.
type Block struct {
	Rows, Values   int
	First, Through int64 // offsets of the first and the last record
	From, To       int64 // least and greatest event time, both inclusive

	schema     *chunk.Schema
	data       []byte // the rows, as they were encoded one after another; nil while they are on a shelf
	piece      *piece // the shelved piece that has the rows
	at, length uint32 // the rows' place in it
}

// blockBytes is the memory of the struct, among others in a list that grows.
const blockBytes = 112

// piece is the rows of some blocks, end to end, on a shelf. Each such thing has its price in memory.
type piece struct{ kept Shelved }

// follows reports whether the rows lie behind those of another block of the same schema on a shelf.
func (b *Block) follows(x *Block) bool {
	return x.data == nil && x.piece == b.piece && x.schema == b.schema && x.at+x.length == b.at
}

// extend adds the rows of the next block, but for its data in memory.
func (b *Block) extend(next *Block) {
	b.Rows, b.Values, b.Through = b.Rows+next.Rows, b.Values+next.Values, next.Through
	b.From, b.To, b.length = min(b.From, next.From), max(b.To, next.To), b.length+next.length
}

// maxPieceBytes bounds the rows that go to a shelf in one, unless a single block has more.
const maxPieceBytes = 256 << 10

// Shelve puts the rows of blocks on a shelf, in place, and returns how much memory that has freed, also on failure.
func Shelve(blocks []Block, shelf Shelf) (freed int, err error) {
	var data []byte
	for i := 0; i < len(blocks); {
		j := i
		for data = data[:0]; j < len(blocks) && (j == i || len(data)+len(blocks[j].data) <= maxPieceBytes); j++ {
			data = append(data, blocks[j].data...)
		}
		if len(data) > 0 {
			kept, err := shelf.Put(data)
			if err != nil {
				return freed, err
			}
			p, at := &piece{kept}, 0
			for k := range blocks[i:j] {
				if b := &blocks[i+k]; b.data != nil {
					freed += cap(b.data)
					b.piece, b.at, b.length = p, uint32(at), uint32(len(b.data))
					at, b.data = at+len(b.data), nil
				}
			}
		}
		i = j
	}
	return freed, nil
}

// opener gets the rows of blocks. It gets a piece once for all blocks in it that follow each other.
type opener struct {
	piece *piece
	data  []byte
}

// rows returns the rows of a block, encoded.
func (o *opener) rows(b *Block) ([]byte, error) {
	if b.data != nil {
		return b.data, nil
	}
	if o.piece != b.piece {
		data, err := b.piece.kept.Get()
		if err != nil {
			return nil, fmt.Errorf("the block of offsets %d to %d: %w", b.First, b.Through, err)
		}
		o.piece, o.data = b.piece, data
	}
	return o.data[b.at : b.at+b.length], nil
}

// Shelf keeps the rows of blocks outside memory. It may lose them: reading them then fails.
type Shelf interface {
	Put(data []byte) (Shelved, error)
}

// Shelved is data on a Shelf, which keeps it while a reference to it exists. It is safe for any number of callers.
type Shelved interface {
	Get() ([]byte, error)
}

// Schemas has the schemas of many blocks, so that equal ones are in memory once. One goroutine owns it.
type Schemas struct {
	known   map[string]*chunk.Schema
	bytes   int
	scratch []byte
	// run is scratch of the block being made.
	run runScratch
}

// NewSchemas makes Schemas without one.
func NewSchemas() *Schemas { return &Schemas{known: map[string]*chunk.Schema{}} }

// maxSchemas is the memory above which all schemas are forgotten. Blocks keep the schemas that they have.
const maxSchemas = 4 << 20

// schemaShare is about how many bytes of memory a schema takes for each byte of its names, with what points to them.
const schemaShare = 4

// Bytes returns about how much memory the schemas take.
func (s *Schemas) Bytes() int { return s.bytes }

// Schema returns the schema that b spells; b is not kept. What is no schema gives chunk.ErrCorrupt.
func (s *Schemas) Schema(b []byte) (*chunk.Schema, error) {
	if known := s.known[string(b)]; known != nil {
		return known, nil
	}
	parsed, err := chunk.ParseSchema(b)
	if err != nil {
		return nil, err
	}
	if s.bytes > maxSchemas {
		clear(s.known)
		s.bytes = 0
	}
	s.known[string(b)] = parsed
	s.bytes += schemaShare*len(b) + nameBytes
	return parsed, nil
}

// block encodes a run. It fails with chunk.ErrTooLarge when the run is above the limits of a block.
func (s *Schemas) block(run *chunk.Run) (Block, error) {
	s.scratch = chunk.AppendSchema(s.scratch[:0], run)
	schema, err := s.Schema(s.scratch)
	if err != nil {
		return Block{}, err
	}
	if s.scratch, err = chunk.AppendRows(s.scratch[:0], run); err != nil {
		return Block{}, err
	}
	return blockOf(run, schema, s.scratch), nil
}

// Block returns a block made of b, with rows that came from elsewhere, such as the journal, together with their schema.
// It keeps nothing of data.
func (s *Schemas) Block(b Block, data []byte) (Block, error) {
	schema, rows, err := chunk.SplitBlock(data)
	if err != nil {
		return Block{}, err
	}
	if b.schema, err = s.Schema(schema); err != nil {
		return Block{}, err
	}
	b.data = append([]byte(nil), rows...)
	return b, nil
}

func spanOf(times []int64) (from, to int64) {
	from, to = times[0], times[0]
	for _, at := range times[1:] {
		from, to = min(from, at), max(to, at)
	}
	return from, to
}

// Append appends the block in one with its schema, as the journal takes it: its rows encoded in one.
func (b *Block) Append(dst []byte) ([]byte, error) {
	rows, err := new(opener).rows(b)
	if err == nil && chunk.RowsOf(rows) < b.Rows {
		var run chunk.Run
		if run, err = b.schema.Rows(rows, nil); err == nil {
			rows, err = chunk.AppendRows(nil, &run)
		}
	}
	if err != nil {
		return nil, err
	}
	return chunk.AppendSplit(dst, b.schema.Bytes(), rows), nil
}

// Bytes returns about how much memory the block takes.
func (b *Block) Bytes() int { return blockBytes + cap(b.data) }

// Width returns how many columns the block becomes at most.
func (b *Block) Width() int { return b.schema.Width() }

// SameSchema reports whether two blocks have the same columns and label sets. It may miss equal ones: it compares
// pointers.
func (b *Block) SameSchema(c *Block) bool { return b.schema == c.schema }

// Fields returns every metric with every kind that the block has values of, without them.
func (b *Block) Fields() (fields []telemetry.Field) {
	for metric, kind := range b.schema.Columns() {
		v := telemetry.TextValue("")
		if kind != telemetry.Text {
			v = telemetry.BitsValue(kind, 0)
		}
		fields = append(fields, telemetry.Field{Metric: metric, Value: v})
	}
	return fields
}

// Sets returns the label sets of the block's readings; the caller must not change them.
func (b *Block) Sets() []telemetry.Labels { return b.schema.Sets() }

// run decodes the block: the columns of the metrics only, or all columns if metrics is nil.
func (b *Block) run(metrics []string, o *opener) (chunk.Run, error) {
	data, err := o.rows(b)
	if err != nil {
		return chunk.Run{}, err
	}
	run, err := b.schema.Rows(data, metrics)
	if err != nil {
		return chunk.Run{}, fmt.Errorf("the block of offsets %d to %d: %w", b.First, b.Through, err)
	}
	return run, nil
}

// parts returns the blocks that became this one by Join, itself if none did.
func (b *Block) parts() (parts []Block, err error) {
	rest, err := new(opener).rows(b)
	if err == nil && chunk.RowsOf(rest) == b.Rows {
		return []Block{*b}, nil
	}
	for err == nil && len(rest) > 0 {
		var first []byte
		var run chunk.Run
		if first, rest, err = b.schema.Cut(rest); err == nil {
			run, err = b.schema.Rows(first, nil)
		}
		if err == nil {
			parts = append(parts, blockOf(&run, b.schema, first))
		}
	}
	return parts, err
}

// blockOf returns a block of the rows of a run, encoded. It copies data.
func blockOf(run *chunk.Run, schema *chunk.Schema, data []byte) Block {
	n := run.Rows()
	b := Block{Rows: n, Values: run.Values(), First: run.Offsets[0], Through: run.Offsets[n-1], schema: schema,
		data: append([]byte(nil), data...)}
	b.From, b.To = spanOf(run.Times)
	return b
}

// Between returns the readings of records from one offset on and below another, as a block of their own; ok is false
// when there are none.
func (b *Block) Between(from, below int64, s *Schemas) (part Block, ok bool, err error) {
	if b.First >= from && b.Through < below {
		return *b, true, nil
	}
	if b.Through < from || b.First >= below {
		return Block{}, false, nil
	}
	run, err := b.run(nil, new(opener))
	if err != nil {
		return Block{}, false, err
	}
	run = run.Where(func(k int) bool { return run.Offsets[k] >= from && run.Offsets[k] < below })
	if run.Rows() == 0 {
		return Block{}, false, nil
	}
	part, err = s.block(&run)
	return part, err == nil, err
}

// Merge returns the readings of blocks that may hold the same records, each record once, in the order of their offsets,
// of those from one offset on and below another. It takes the blocks in the order of their first offsets.
func (s *Schemas) Merge(blocks []Block, from, below int64) (merged []Block, err error) {
	slices.SortStableFunc(blocks, func(a, b Block) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Through, b.Through))
	})
	for i := 0; i < len(blocks); {
		j, through := i+1, blocks[i].Through
		for j < len(blocks) && blocks[j].First <= through {
			through = max(through, blocks[j].Through)
			j++
		}
		if j == i+1 {
			part, ok, err := blocks[i].Between(from, below, s)
			if err != nil {
				return nil, err
			}
			if ok {
				merged = append(merged, part)
			}
		} else {
			united, err := s.unite(blocks[i:j], from, below)
			if err != nil {
				return nil, err
			}
			merged = append(merged, united...)
		}
		i = j
	}
	return merged, nil
}

// record is the readings of one record in a run.
type record struct {
	offset   int64
	run      *chunk.Run
	from, to int
}

// unite returns the readings of blocks that reach into each other, as blocks that do not.
func (s *Schemas) unite(blocks []Block, from, below int64) ([]Block, error) {
	var records []record
	var o opener
	for i := range blocks {
		run, err := blocks[i].run(nil, &o)
		if err != nil {
			return nil, err
		}
		for k := 0; k < run.Rows(); {
			r := record{run.Offsets[k], &run, k, k + 1}
			for r.to < run.Rows() && run.Offsets[r.to] == r.offset {
				r.to++
			}
			if k = r.to; r.offset >= from && r.offset < below {
				records = append(records, r)
			}
		}
	}
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.offset, b.offset) })
	records = slices.CompactFunc(records, func(a, b record) bool { return a.offset == b.offset })
	out := NewBin(NewNames())
	for _, r := range records {
		if out.Ripe(r.offset, BlockRows) && !out.Seal(s) {
			return nil, errTooLarge
		}
		one := r.run.Where(func(k int) bool { return k >= r.from && k < r.to })
		out.open.AppendRun(&one)
	}
	if out.open.Readings() > 0 && !out.Seal(s) {
		return nil, errTooLarge
	}
	return out.Blocks(), nil
}

// errTooLarge is of readings that were blocks, and together are more than a block takes.
var errTooLarge = errors.New("readings of blocks are more than a block takes")
