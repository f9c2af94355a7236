// Package chunk is the stored form of readings: it turns a Frame, rows of one device and day in columns, into the JSON
// document that Cosmos DB keeps, and back.
//
// Every float64 bit pattern, int64, bool and text survives. Encode is deterministic and safe for concurrent use; Parse
// and Chunk.Frame take any bytes and return ErrCorrupt rather than panic, loop or grow beyond the limits below.
//
// The document and the byte layout are specified in docs/internals/format/chunk.md. Every later version reads
// documents of a released version, so the bytes may only change together with the version number.
//
// The package is pure: no I/O, no clock, no log, no goroutine. It must not know how bins are cut, what a partition key
// is, or where a document goes.
package chunk

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

// Run is readings of one device in the order of their offsets, in columns: what a block holds. Instants may stand in
// any order and more than once, and a reading may have no value.
type Run struct {
	// Offsets are the offsets of the readings' records: none is below the one before; nil: left out.
	Offsets []int64
	Times   []int64            // milliseconds since 1970 UTC
	Sets    []telemetry.Labels // label sets, each once, in any order; at least one
	// Labels is each reading's place in Sets; nil: all 0.
	Labels  []uint32
	Columns []Column // sorted by Metric, then Kind

	ascending int // as many of the first instants are known to ascend
}

// Rows returns the number of readings.
func (r *Run) Rows() int { return len(r.Times) }

// Ascends reports whether each instant is after the one before.
func (r *Run) Ascends() bool {
	for i := max(r.ascending, 1); i < len(r.Times); i++ {
		if r.Times[i] <= r.Times[i-1] {
			return false
		}
	}
	return true
}

// Values returns the number of values of all columns.
func (r *Run) Values() int {
	n := 0
	for i := range r.Columns {
		n += r.Columns[i].Len()
	}
	return n
}

// Valued reports whether reading k has a value.
func (r *Run) Valued(k int) bool {
	for i := range r.Columns {
		if r.Columns[i].Present.Has(k) {
			return true
		}
	}
	return false
}

// Of returns the run with the columns of the metrics alone, itself if metrics is nil.
func (r Run) Of(metrics []string) Run {
	if metrics == nil {
		return r
	}
	w := wantedOf(metrics)
	all := r.Columns
	r.Columns = nil
	for i := range all {
		if w.has(all[i].Metric) {
			r.Columns = append(r.Columns, all[i])
		}
	}
	return r
}

// Where returns the readings for which keep reports true, given their places. Columns without a value are left out,
// label sets are not.
func (r Run) Where(keep func(k int) bool) Run {
	out := Run{Sets: r.Sets}
	kept := NewBitmap(r.Rows())
	for k := range r.Rows() {
		if !keep(k) {
			continue
		}
		kept.Set(k)
		out.Times = append(out.Times, r.Times[k])
		if r.Offsets != nil {
			out.Offsets = append(out.Offsets, r.Offsets[k])
		}
		if r.Labels != nil {
			out.Labels = append(out.Labels, r.Labels[k])
		}
	}
	for i := range r.Columns {
		if c := r.Columns[i].where(kept, r.Rows(), len(out.Times)); c.Len() > 0 {
			out.Columns = append(out.Columns, c)
		}
	}
	return out
}

// where returns the values of the rows that are kept. There is at least one.
func (c *Column) where(kept Bitmap, rows, some int) Column {
	out := Column{Metric: c.Metric, Kind: c.Kind, Present: NewBitmap(some)}
	next, at := 0, 0
	for k := range rows {
		has := c.Present.Has(k)
		if kept.Has(k) {
			if has {
				out.Present.Set(at)
				if c.Kind == telemetry.Text {
					out.Texts = append(out.Texts, c.Texts[next])
				} else {
					out.Bits = append(out.Bits, c.Bits[next])
				}
			}
			at++
		}
		if has {
			next++
		}
	}
	if out.Len() == some {
		out.Present = nil
	}
	return out
}

// check returns an error that names the rule of Run that r breaks, or the limit that it exceeds.
func (r *Run) check() error {
	rows := r.Rows()
	switch {
	case rows == 0 || len(r.Offsets) != rows || (r.Labels != nil && len(r.Labels) != rows):
		return fmt.Errorf("%d instants, %d offsets and %d label sets", rows, len(r.Offsets), len(r.Labels))
	case rows > MaxRows || r.Values() > MaxValues || rows*len(r.Columns) > MaxCells || len(r.Columns) > MaxColumns ||
		len(r.Sets) > MaxRows:
		return fmt.Errorf("%d rows of %d columns, with %d values: %w", rows, len(r.Columns), r.Values(), ErrTooLarge)
	case len(r.Sets) == 0:
		return fmt.Errorf("no label set")
	}
	if !r.checkTimes(0, 0) {
		return fmt.Errorf("an instant out of bounds")
	}
	if err := r.checkRows(0); err != nil {
		return err
	}
	for _, set := range r.Sets {
		for i, l := range set {
			if !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) || (i > 0 && set[i-1].Name >= l.Name) {
				return fmt.Errorf("label %q is not in order or not UTF-8", l.Name)
			}
		}
	}
	for i := range r.Columns {
		if err := r.Columns[i].check(rows); err != nil {
			return fmt.Errorf("column %s of %s: %w", r.Columns[i].Metric, r.Columns[i].Kind, err)
		}
		if err := (&Group{Columns: r.Columns}).checkOrder(i); err != nil {
			return err
		}
	}
	return nil
}

// checkTimes reports whether the instants of the rows from one on lie within bounds, and learns whether they ascend.
// step is the same between all of them, if it is not 0. There is at least one.
func (r *Run) checkTimes(from int, step int64) bool {
	times := r.Times[from:]
	bounded := func(at int64) bool { return uint64(at) < telemetry.MaxMillis } // and not below 0
	if n := len(times); step > 0 && step <= telemetry.MaxMillis/int64(n) && bounded(times[0]) && bounded(times[n-1]) {
		if r.ascending == from && (from == 0 || times[0] > r.Times[from-1]) {
			r.ascending += n
		}
		return true
	}
	return !slices.ContainsFunc(times, func(at int64) bool { return !bounded(at) })
}

// checkRows holds offsets and places in Sets to their order and their bounds, of the rows from one on.
func (r *Run) checkRows(from int) error {
	for i := from; i < len(r.Offsets); i++ {
		if o := r.Offsets[i]; o < 0 || o > maxExact || i > 0 && o < r.Offsets[i-1] {
			return fmt.Errorf("offset %d in row %d", o, i)
		}
	}
	for i := from; i < len(r.Labels); i++ {
		if r.Labels[i] >= uint32(len(r.Sets)) {
			return fmt.Errorf("label set %d of %d", r.Labels[i], len(r.Sets))
		}
	}
	return nil
}

// Version is the layout that Encode writes, and the newest that Parse reads.
const Version = 1

// Limits of one chunk. They bound the memory that a hostile document can make a reader allocate. Encode refuses more
// with ErrTooLarge, so code that fills a Frame must stop before.
const (
	// MaxRows is the most rows of a chunk: a day at a row a second, with room.
	MaxRows = 1 << 17
	// MaxValues is the most values of a chunk.
	MaxValues = 1 << 20
	// MaxColumns is the most columns of a chunk.
	MaxColumns = 1 << 16
	// MaxCells is the most rows times columns, summed over the groups: a bit each in the presence bitmaps.
	MaxCells = 1 << 24
	// MaxDocument is the largest document in bytes: the service's own limit for an item.
	MaxDocument = 2 << 20
	// MaxString is the most characters of one string in the document; longer ones the service keeps in a costlier form
	// (JsonBinaryEncoding of azure-cosmos-dotnet-v3: strings up to 65,535 bytes are packed).
	MaxString = 65535

	// maxPack is the most columns of a pack.
	maxPack = 1 << 10
	// maxUnpacked bounds the bytes that all zstd frames of a chunk unpack to.
	maxUnpacked = 32 << 20
	// maxExact is the largest integer up to which float64 holds every one; the service stores JSON numbers as float64.
	maxExact = 1 << 53
)

// ErrCorrupt is what Parse and Chunk.Frame wrap when bytes are not a chunk of a version that this release knows.
var ErrCorrupt = errors.New("corrupt chunk")

// ErrTooLarge is what Encode wraps when a frame doesn't fit the limits of one chunk.
var ErrTooLarge = errors.New("too large for one chunk")

// patterns is which columns the rows of a block have values in: rows with values in the same columns are of one
// pattern. A column then has a flag for each pattern, instead of one for each row, that is set if it has a value.
// Devices that send several kinds of message have a pattern for each.
type patterns struct {
	// byRow numbers each row's pattern. The pattern of the first row is 0, the next new one 1.
	byRow []int64
	n     int
	// next is scratch: the new number of a pattern with and without a value in the next column, 0 for none.
	next []int64
}

func (p *patterns) find(r *Run) {
	p.byRow = slices.Grow(p.byRow[:0], r.Rows())[:r.Rows()]
	clear(p.byRow)
	p.n = 1
	for i := range r.Columns {
		if present := r.Columns[i].Present; present != nil && p.n < r.Rows() {
			p.split(present)
		}
	}
}

func (p *patterns) split(present Bitmap) {
	p.next = slices.Grow(p.next[:0], 2*p.n)[:2*p.n]
	clear(p.next)
	n := 0
	for row, of := range p.byRow {
		at := 2 * of
		if present.Has(row) {
			at++
		}
		if p.next[at] == 0 {
			n++
			p.next[at] = int64(n)
		}
		p.byRow[row] = p.next[at] - 1
	}
	p.n = n
}

// bytes returns how many bytes a bit for each pattern takes.
func (p *patterns) bytes() int { return (p.n + 7) / 8 }

func (p *patterns) appendPresent(dst []byte, present Bitmap) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, p.bytes())...)
	for row, of := range p.byRow {
		if present.Has(row) {
			dst[at+int(of)/8] |= 1 << (of % 8)
		}
	}
	return dst
}

func (p *patterns) read(d *decoder, rows int) (err error) {
	if p.n = 1; len(d.s.plain) == 0 {
		return nil
	}
	if p.byRow, err = d.readInts(p.byRow, rows); err != nil {
		return err
	}
	for _, of := range p.byRow {
		if of < 0 || of > int64(p.n) {
			return corrupt("pattern %d follows %d", of, p.n)
		}
		p.n = max(p.n, int(of)+1)
	}
	return nil
}
