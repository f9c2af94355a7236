package binning

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Bin is readings of one device and day, in the order of their offsets: the older ones as blocks, the others as Rows.
// As with Rows, a copy of the struct is a snapshot that stays valid while the original grows. The zero Bin is empty.
//
// What fails fails because a Shelf has lost rows.
type Bin struct {
	sealed *sealed // nil: none
	open   Rows
}

// sealed is blocks, and what they have in all. It is never changed, so that it can be part of snapshots.
type sealed struct {
	blocks                         []Block
	readings, values, bytes, width int
}

var none sealed

func (b *Bin) old() *sealed {
	if b.sealed == nil {
		return &none
	}
	return b.sealed
}

// NewBin returns an empty Bin. It takes the names of metrics from names, which all bins of one owner share.
func NewBin(names *Names) Bin { return Bin{open: NewRows(names)} }

// BinOf returns a Bin of blocks, ordered by their offsets. No block reaches into the next one.
func BinOf(names *Names, blocks []Block) Bin {
	b := NewBin(names)
	b.add(blocks...)
	return b
}

// add appends blocks.
func (b *Bin) add(blocks ...Block) {
	if len(blocks) == 0 {
		return
	}
	s := *b.old()
	if n := len(s.blocks); n+len(blocks) > cap(s.blocks) {
		s.blocks = append(make([]Block, 0, n+len(blocks)+n/8+2), s.blocks...) // append would double it
	}
	s.blocks = append(s.blocks, blocks...)
	for i := range blocks {
		x := &blocks[i]
		s.readings += x.Rows
		s.values += x.Values
		s.bytes += x.Bytes()
		s.width = max(s.width, x.Width())
	}
	b.sealed = &s
}

// Append takes a reading of the record at offset, which must not be lower than any before it. It reports whether some
// open reading before has the same metrics and kinds, and some the same labels.
func (b *Bin) Append(offset int64, reading telemetry.Reading) (repeats bool) {
	if blocks := b.Blocks(); len(b.open.rows) == 0 && len(blocks) > 0 && blocks[len(blocks)-1].Rows >= partOfBlock {
		b.open.grow(partOfBlock, len(reading.Fields)) // there will be as many again
	}
	return b.open.Append(offset, reading)
}

// Ripe reports whether the open rows should become a block before a record at offset is taken: they have reached a
// number of rows or of values, and none of them is of that record.
func (b *Bin) Ripe(offset int64, rows int) bool {
	n := len(b.open.rows)
	return n > 0 && (n >= rows || n >= leastBlockRows && len(b.open.cells) >= blockValues) && b.open.Through() < offset
}

// Seal makes a block of the open rows. It reports false when they make none: then they stay as they are.
func (b *Bin) Seal(s *Schemas) bool {
	if len(b.open.rows) == 0 {
		return false
	}
	x, ok := b.BlockOf(0, len(b.open.rows), s)
	if ok {
		b.add(x)
		b.open = NewRows(b.open.names)
	}
	return ok
}

// Join makes one block of the first ones that together have so many rows, or many bytes, as long as the next one makes
// more of them: as they are, end to end. Blocks stay apart that do not lie above one offset and up to another, are
// shelved, have another schema, or are large.
func (b *Bin) Join(above, through int64, enough int) {
	from, one, all := 0, Block{}, b.Blocks()
	for i := range all {
		x := &all[i]
		fits := one.Rows+x.Rows <= enough && int(one.length)+len(x.data) <= joinedBytes
		if !fits && x.schema == one.schema && i-from > 1 {
			one.data = slices.Grow([]byte(nil), int(one.length))
			for _, x := range all[from:i] {
				one.data = append(one.data, x.data...)
			}
			one.length, b.sealed = 0, nil
			b.add(slices.Concat(all[:from], []Block{one}, all[i:])...)
			return
		}
		if x.Through > through {
			return
		}
		apart := x.First <= above || x.data == nil || x.Rows > enough/2 || len(x.data) > joinedBytes/2
		if apart || x.schema != one.schema {
			from, one = i, Block{First: x.First, From: x.From, To: x.To, schema: x.schema}
		}
		if apart {
			one.schema = nil
			continue
		}
		one.extend(x)
		one.length += uint32(len(x.data))
	}
}

// BlockOf returns a block of the open rows from i to j; ok is false when they make none, as when they are too many.
func (b *Bin) BlockOf(i, j int, s *Schemas) (x Block, ok bool) {
	run := b.open.run(i, j, &s.run)
	x, err := s.block(&run)
	s.run.forget()
	return x, err == nil
}

// Blocks returns the older readings; the caller must not change them.
func (b *Bin) Blocks() []Block { return b.old().blocks }

// Open returns the newest readings.
func (b *Bin) Open() *Rows { return &b.open }

// Readings returns how many readings were taken, before the readings of one instant are merged.
func (b *Bin) Readings() int { return b.old().readings + len(b.open.rows) }

// Values returns how many values the readings have.
func (b *Bin) Values() int { return b.old().values + len(b.open.cells) }

// Width returns about how many columns the readings become.
func (b *Bin) Width() int { return max(b.old().width, b.open.Width()) }

// Bytes returns about how much memory the readings take, without the struct itself, names and schemas.
func (b *Bin) Bytes() int { return b.old().bytes + b.open.Bytes() }

// First returns the offset of the first record; there must be one.
func (b *Bin) First() int64 {
	if len(b.Blocks()) > 0 {
		return b.Blocks()[0].First
	}
	return b.open.First()
}

// Through returns the offset of the last record; there must be one.
func (b *Bin) Through() int64 {
	if len(b.open.rows) > 0 {
		return b.open.Through()
	}
	return b.Blocks()[len(b.Blocks())-1].Through
}

// Span returns the least and the greatest event time; there must be a reading.
func (b *Bin) Span() (from, to int64) {
	from, to = math.MaxInt64, math.MinInt64
	for _, x := range b.Blocks() {
		from, to = min(from, x.From), max(to, x.To)
	}
	for _, x := range b.open.rows {
		from, to = min(from, x.time), max(to, x.time)
	}
	return from, to
}

// Shelve puts the rows of blocks on a shelf, and returns how much memory that has freed, also when it fails in between.
// Blocks above an offset that lie one behind another there become one. Snapshots keep theirs.
func (b *Bin) Shelve(shelf Shelf, above int64) (freed int, err error) {
	before, blocks := b.Bytes(), slices.Clone(b.Blocks())
	_, err = Shelve(blocks, shelf)
	kept := blocks[:0]
	for i := range blocks {
		x, n := &blocks[i], len(kept)
		if n > 0 && x.follows(&kept[n-1]) && kept[n-1].First > above {
			kept[n-1].extend(x)
			continue
		}
		kept = append(kept, *x)
	}
	b.sealed = nil
	b.add(kept...)
	return before - b.Bytes(), err
}

// Shelvable returns how much memory Shelve would free.
func (b *Bin) Shelvable() int { return b.old().bytes - len(b.Blocks())*blockBytes }

// ReadingsThrough returns how many readings are of records up to an offset.
func (b *Bin) ReadingsThrough(offset int64) (n int, err error) {
	for i := range b.Blocks() {
		x := &b.Blocks()[i]
		if x.First > offset {
			return n, nil
		}
		if x.Through > offset {
			run, err := x.run([]string{}, new(opener))
			return n + sort.Search(len(run.Offsets), func(k int) bool { return run.Offsets[k] > offset }), err
		}
		n += x.Rows
	}
	return n + b.open.RowsThrough(offset), nil
}

// UpTo cuts behind the records up to an offset. The rest takes the place of b, which must not be appended to any more.
func (b *Bin) UpTo(offset int64, s *Schemas) (head, rest Bin, err error) {
	n, err := b.ReadingsThrough(offset)
	switch {
	case err != nil:
		return Bin{}, Bin{}, err
	case n == b.Readings():
		return *b, Bin{}, nil
	case n == 0:
		return b.cutBlocks(0)
	}
	return b.SplitAt(n, s)
}

// SplitAt cuts between records: head has about n readings, at least one record, rest has the others. The rest takes the
// place of b, which must not be appended to any more.
func (b *Bin) SplitAt(n int, s *Schemas) (head, rest Bin, err error) {
	left := n
	for i := range b.Blocks() {
		if x := b.Blocks()[i].Rows; left >= x {
			left -= x
			continue
		}
		if left <= 0 && i > 0 {
			return b.cutBlocks(i)
		}
		parts, err := b.Blocks()[i].parts()
		if err != nil {
			return Bin{}, Bin{}, err
		}
		if len(parts) > 1 {
			apart := BinOf(b.open.names, slices.Concat(b.Blocks()[:i], parts, b.Blocks()[i+1:]))
			apart.open = b.open
			return apart.SplitAt(n, s)
		}
		if head, rest, err = b.cutInside(i, left, s); err == nil && i > 0 && head.open.Readings() > left {
			return b.cutBlocks(i) // the first record of the block lies across the cut
		}
		return head, rest, err
	}
	if left <= 0 && len(b.Blocks()) > 0 || len(b.open.rows) == 0 {
		return b.cutBlocks(len(b.Blocks()))
	}
	head = BinOf(b.open.names, b.Blocks())
	head.open, rest.open = b.open.SplitAt(left)
	return head, rest, nil
}

// Parts returns snapshots that together have the Bin's rows: one for each block up to an offset, one for the rest.
func (b *Bin) Parts(through int64) (parts []Bin) {
	blocks := b.Blocks()
	i := 0
	for ; i < len(blocks) && blocks[i].Through <= through; i++ {
		parts = append(parts, BinOf(b.open.names, blocks[i:i+1]))
	}
	rest := BinOf(b.open.names, blocks[i:])
	rest.open = b.open
	if rest.Readings() > 0 {
		parts = append(parts, rest)
	}
	return parts
}

// cutBlocks cuts before block i.
func (b *Bin) cutBlocks(i int) (head, rest Bin, err error) {
	head, rest = BinOf(b.open.names, b.Blocks()[:i]), BinOf(b.open.names, b.Blocks()[i:])
	rest.open = b.open
	return head, rest, nil
}

// cutInside cuts inside block i, behind about n of its rows.
func (b *Bin) cutInside(i, n int, s *Schemas) (head, rest Bin, err error) {
	run, err := b.Blocks()[i].run(nil, new(opener))
	if err != nil {
		return Bin{}, Bin{}, err
	}
	rows := NewRows(b.open.names)
	rows.AppendRun(&run)
	head, rest = BinOf(b.open.names, b.Blocks()[:i]), NewBin(b.open.names)
	head.open, rest.open = rows.SplitAt(n)
	if len(rest.open.rows) > 0 && !rest.Seal(s) {
		return Bin{}, Bin{}, errTooLarge
	}
	rest.add(b.Blocks()[i+1:]...)
	rest.open = b.open
	return head, rest, nil
}

// Concat returns the readings of b followed by the readings of c, which have higher offsets.
func (b *Bin) Concat(c *Bin, s *Schemas) (Bin, error) {
	out := BinOf(b.open.names, b.Blocks())
	switch {
	case len(c.Blocks()) == 0:
		out.open = b.open.Concat(&c.open)
		return out, nil
	case len(b.open.rows) > 0:
		out.open = b.open
		if !out.Seal(s) {
			return Bin{}, errTooLarge
		}
	}
	out.add(c.Blocks()...)
	out.open = c.open
	return out, nil
}

// Each calls visit with every reading as it was taken, without tenant and device, and with the offset of its record.
// The next call overwrites the reading's Fields.
func (b *Bin) Each(visit func(int64, telemetry.Reading)) error {
	var o opener
	for i := range b.Blocks() {
		run, err := b.Blocks()[i].run(nil, &o)
		if err != nil {
			return err
		}
		var rows Rows
		rows.AppendRun(&run)
		for offset, reading := range rows.Each() {
			visit(offset, *reading)
		}
	}
	for offset, reading := range b.open.Each() {
		visit(offset, *reading)
	}
	return nil
}

// Selection selects readings: of records above and below an offset, with an instant in Span, and with one of Metrics,
// or of any metric when Metrics is nil.
type Selection struct {
	Above, Below int64
	Span         telemetry.Range
	Metrics      []string

	// schema is the schema that block looked at last.
	schema *chunk.Schema
	some   bool // schema has some of Metrics
}

// block reports whether a block may have selected readings.
func (s *Selection) block(x *Block) bool {
	if x.First >= s.Below || x.Through <= s.Above || x.From >= s.Span.To || x.To < s.Span.From {
		return false
	}
	if s.schema != x.schema {
		s.schema, s.some = x.schema, x.schema.HasAny(s.Metrics)
	}
	return s.some
}

// whole reports whether all of a block's records are above and below the offsets.
func (s *Selection) whole(x *Block) bool { return x.First > s.Above && x.Through < s.Below }

// blocks returns the blocks that may have selected readings, and how many readings these have.
func (s *Selection) blocks(b *Bin) (asked []*Block, readings int) {
	all := b.Blocks()
	for i := range all {
		if x := &all[i]; s.block(x) {
			if asked == nil {
				asked = make([]*Block, 0, len(all)-i)
			}
			asked, readings = append(asked, x), readings+x.Rows
		}
	}
	return asked, readings
}

// Frame returns the selected readings as columns. It merges readings of one instant and label set, the value with the
// highest offset winning, metric by metric.
func (b *Bin) Frame(s Selection) (chunk.Frame, error) {
	open := b.open.Below(s.Below)
	from := open.RowsThrough(s.Above)
	asked, left := s.blocks(b)
	if len(asked) == 0 && from == 0 && !open.alike(0, len(open.rows)) {
		return open.Frame(s.Span, s.Metrics), nil
	}
	var o opener
	left += len(open.rows) - from
	runs := runCollector{metrics: s.Metrics}
	for _, x := range asked {
		data, err := o.rows(x)
		if err == nil {
			err = runs.decode(x.schema, left, data)
			left -= x.Rows
		}
		if err != nil {
			return chunk.Frame{}, fmt.Errorf("the block of offsets %d to %d: %w", x.First, x.Through, err)
		}
	}
	if n := len(open.rows); n > from {
		runs.runs = append(runs.runs, open.Run(from, n, s.Metrics))
	}
	return runs.frame(s), nil
}

// SelectBlocks returns blocks that hold the selected readings, and others of the same blocks outside of the span, with
// the columns of the metrics. Framer makes the frame of them. The result is nil where no block is whole.
func (b *Bin) SelectBlocks(s Selection) ([]chunk.Blocks, error) {
	asked, left := s.blocks(b)
	if !slices.ContainsFunc(asked, s.whole) {
		return nil, nil
	}
	t := blockCollector{metrics: s.Metrics, left: left + len(b.open.rows)}
	for _, x := range asked {
		if s.whole(x) {
			if err := t.block(x, s.Span); err != nil {
				return nil, err
			}
			continue
		}
		run, err := x.run(s.Metrics, &t.opener)
		if err == nil {
			err = t.run(run.Where(func(k int) bool {
				return run.Offsets[k] > s.Above && run.Offsets[k] < s.Below && run.Valued(k)
			}))
		}
		if err != nil {
			return nil, err
		}
	}
	open := b.open.Below(s.Below)
	if from, n := open.RowsThrough(s.Above), len(open.rows); n > from {
		run := open.Run(from, n, s.Metrics)
		if !valued(&run) {
			run = run.Where(run.Valued)
		}
		if err := t.run(run); err != nil {
			return nil, err
		}
	}
	return t.out, nil
}

// blockCollector collects blocks for a caller outside the package.
type blockCollector struct {
	opener
	metrics []string
	out     []chunk.Blocks
	// of is the schema of the last blocks in out, nil if a run made them.
	of *chunk.Schema
	// part selects the metrics in blocks of that schema.
	part chunk.Part
	data []byte // the rows, end to end
	left int    // how many rows come at most
}

// block takes a block as it is, but for rows of a joined one that lie outside of a span.
func (t *blockCollector) block(x *Block, span telemetry.Range) error {
	data, err := t.rows(x)
	if err != nil {
		return err
	}
	begins := t.of != x.schema
	if begins {
		t.of, t.part = x.schema, x.schema.Part(t.metrics)
	}
	all := chunk.RowsOf(data) == x.Rows || x.From >= span.From && x.To < span.To
	for len(data) > 0 {
		from, times := len(t.data), span
		if t.data, data, err = t.part.Append(t.data, data, x.First); err == nil && !all {
			times, err = chunk.TimesOf(t.data[from:])
		}
		if err != nil {
			return fmt.Errorf("the block of offsets %d to %d: %w", x.First, x.Through, err)
		}
		if times.From >= span.To || times.To <= span.From {
			t.data = t.data[:from]
			continue
		}
		if begins {
			begins, t.out = false, append(t.out, chunk.Blocks{Schema: t.part.Schema()})
		}
		t.add(from)
	}
	if begins {
		t.of = nil
	}
	return nil
}

// run takes the readings of a run, if there are any.
func (t *blockCollector) run(run chunk.Run) error {
	if run.Rows() == 0 {
		return nil
	}
	schema, err := chunk.ParseSchema(chunk.AppendSchema(nil, &run))
	if err != nil {
		return err
	}
	from := len(t.data)
	if t.data, err = chunk.AppendRows(t.data, &run); err != nil {
		return err
	}
	t.of, t.out = nil, append(t.out, chunk.Blocks{Schema: schema})
	t.add(from)
	return nil
}

// add makes a block of the rows appended to data since from. Rows before from may stay where they were.
func (t *blockCollector) add(from int) {
	last, rows := &t.out[len(t.out)-1], chunk.RowsOf(t.data[from:])
	t.left = max(0, t.left-rows)
	if last.Rows == nil {
		last.Rows = make([][]byte, 0, 1+t.left/rows)
	}
	last.Rows = append(last.Rows, t.data[from:len(t.data):len(t.data)])
	if from == 0 {
		t.data = slices.Grow(t.data, t.left/rows*len(t.data)) // room for blocks as large as this one
	}
}

// Framer makes frames of blocks, of one device after another. Frames that follow each other share equal instants. The
// zero Framer is ready for use.
type Framer struct{ last, scratch []int64 }

// Frame returns the readings of blocks that follow each other, with an instant in span, as columns (FrameOf).
func (f *Framer) Frame(blocks []chunk.Blocks, span telemetry.Range) (chunk.Frame, error) {
	left := 0
	for i := range blocks {
		left += blocks[i].Readings()
	}
	if left > chunk.MaxValues { // more readings no bin has
		return chunk.Frame{}, fmt.Errorf("blocks of more than %d readings", chunk.MaxValues)
	}
	runs := runCollector{skipOffsets: true, scratch: f.scratch[:0]}
	for i := range blocks {
		if err := runs.decode(blocks[i].Schema, left, blocks[i].Rows...); err != nil {
			return chunk.Frame{}, err
		}
		left -= blocks[i].Readings()
	}
	out := runs.frame(Selection{Span: span})
	if len(out.Groups) == 1 { // otherwise none has instants of runs
		if g := &out.Groups[0]; !slices.Equal(g.Times, f.last) {
			f.last = slices.Clone(g.Times)
		}
		f.scratch, out.Groups[0].Times = out.Groups[0].Times, f.last
	}
	return out, nil
}
