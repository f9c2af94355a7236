// Package binning holds readings in memory until they are worth a document: Rows is what was taken, in
// the order of the log; Policy says when and where to cut.
//
// It has no I/O, no clock and no goroutine: now is an argument. It knows nothing of Kafka, of Cosmos DB or
// of how a chunk is encoded: package chunk does that.
package binning

import (
	"iter"
	"slices"
	"sort"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Rows are readings of one device and day, in the order of their offsets. They only grow: a copy of the
// struct is a snapshot that stays valid while the original grows, so that a query can read what a
// worker is still filling. The zero Rows is empty.
type Rows struct {
	rows   []row
	cells  []uint64 // values, as their bits; a text as its number
	lists  []column // the metrics and kinds of the values: successive rows share a list
	texts  []string
	labels []telemetry.Labels

	firstCell uint32 // number of cells[0]: cells are numbered through, also where a cut took the first ones away

	names   *Names   // used by the owner only
	metrics []string // names as far as they are used here

	// labelIndex finds label sets once there are many. Only the owner uses it.
	labelIndex map[string]uint32
	kept       int // bytes of texts, label sets and of what a cut has left idle in front
}

type row struct {
	offset int64
	time   int64
	end    uint32 // number of the cell after the row's last one; it begins where the row before ends
	list   uint32 // where its columns begin in lists
	labels uint32
}

// column is the number of a metric, and a kind.
type column uint32

const kindBits = 3

func (c column) metric() uint32       { return uint32(c) >> kindBits }
func (c column) kind() telemetry.Kind { return telemetry.Kind(c & (1<<kindBits - 1)) }

// Sizes of the structs above in memory, in bytes.
const (
	rowBytes    = 32
	cellBytes   = 8
	columnBytes = 4
	textBytes   = 16
	labelsBytes = 24
	labelBytes  = 32
)

// NewRows returns empty Rows. They take the names of metrics from names, which all rows of one owner share.
func NewRows(names *Names) Rows { return Rows{names: names} }

// Append takes a reading of the record at offset, which must not be lower than any before it. It reports whether some
// reading before has the same metrics and kinds, and some the same labels.
func (r *Rows) Append(offset int64, reading telemetry.Reading) (repeats bool) {
	if len(r.rows) == cap(r.rows) || len(r.cells)+len(reading.Fields) > cap(r.cells) {
		r.grow(moreRows(len(r.rows)), len(reading.Fields))
	}
	lists, sets := len(r.lists), len(r.labels)
	list, labels := r.columns(reading.Fields), r.label(reading.Labels)
	for i := range reading.Fields {
		v := &reading.Fields[i].Value
		bits := v.Bits()
		if v.Kind() == telemetry.Text {
			bits = r.textNumber(v.Text())
		}
		r.cells = append(r.cells, bits)
	}
	r.rows = append(r.rows, row{offset, reading.Time, r.firstCell + uint32(len(r.cells)), list, labels})
	return len(r.lists) == lists && len(r.labels) == sets
}

// partOfBlock is how many rows there is room for at first where as many as a block are expected.
const partOfBlock = BlockRows / 4

// moreRows returns how many rows to make room for where n rows fill the room there is. Few steps leave little garbage.
func moreRows(n int) int {
	if n < BlockRows {
		return max(1, min(n, BlockRows-n))
	}
	return n / 2
}

// grow makes room for that many more rows and width values in each, or for one row's values if those are too many.
func (r *Rows) grow(rows, width int) {
	r.rows = append(slices.Grow([]row(nil), len(r.rows)+rows), r.rows...)
	if more := max(width, min(rows*width, max(blockValues, len(r.cells)/2))); more > 0 {
		r.cells = append(slices.Grow([]uint64(nil), len(r.cells)+more), r.cells...)
	}
}

// lookBack is how many rows, label sets or texts are looked at to find the same again: devices repeat themselves.
const lookBack = 8

// columns returns where the list of the fields' metrics and kinds begins.
func (r *Rows) columns(fields []telemetry.Field) uint32 {
	for i := len(r.rows) - 1; i >= max(0, len(r.rows)-lookBack); i-- {
		if r.listed(i, fields) {
			return r.rows[i].list
		}
	}
	if r.names == nil {
		r.names = NewNames()
	}
	begin := len(r.lists)
	for i := range fields {
		r.lists = append(r.lists, column(r.names.number(fields[i].Metric)<<kindBits)|column(fields[i].Value.Kind()))
	}
	r.metrics = r.names.list
	return uint32(begin)
}

func (r *Rows) listed(i int, fields []telemetry.Field) bool {
	list := r.list(i)
	if len(list) != len(fields) {
		return false
	}
	for k, c := range list {
		if f := &fields[k]; c.kind() != f.Value.Kind() || r.metrics[c.metric()] != f.Metric {
			return false
		}
	}
	return true
}

func (r *Rows) textNumber(text string) uint64 {
	for i := len(r.texts) - 1; i >= max(0, len(r.texts)-lookBack); i-- {
		if r.texts[i] == text {
			return uint64(i)
		}
	}
	r.texts = append(r.texts, text)
	r.kept += allocated(len(text))
	return uint64(len(r.texts) - 1)
}

func (r *Rows) label(l telemetry.Labels) uint32 {
	if n := len(r.rows); n > 0 {
		if last := r.rows[n-1].labels; slices.Equal(r.labels[last], l) {
			return last
		}
	}
	if len(r.labels) <= lookBack {
		for i, have := range r.labels {
			if slices.Equal(have, l) {
				return uint32(i)
			}
		}
		return r.addLabels(l)
	}
	if r.labelIndex == nil {
		r.labelIndex = make(map[string]uint32)
		for i, have := range r.labels {
			r.indexLabels(have, i)
		}
	}
	if i, ok := r.labelIndex[string(l.AppendKey(nil))]; ok {
		return i
	}
	i := r.addLabels(l)
	r.indexLabels(l, int(i))
	return i
}

// noLabels is the label sets of rows without labels, which most are.
var noLabels = []telemetry.Labels{nil}

func (r *Rows) addLabels(l telemetry.Labels) uint32 {
	if len(r.labels) == 0 && len(l) == 0 {
		r.labels = noLabels
		return 0
	}
	r.labels = append(r.labels, l)
	if len(l) > 0 {
		r.kept += len(l) * labelBytes
	}
	for i := range l {
		r.kept += allocated(len(l[i].Value))
	}
	return uint32(len(r.labels) - 1)
}

func (r *Rows) indexLabels(l telemetry.Labels, i int) {
	key := string(l.AppendKey(nil))
	r.labelIndex[key] = uint32(i)
	r.kept += nameBytes + allocated(len(key))
}

// Readings returns how many readings were taken, before the readings of one instant are merged.
func (r *Rows) Readings() int { return len(r.rows) }

// Width returns about how many columns the rows become, at least as many.
func (r *Rows) Width() int {
	return min(min(len(r.lists), len(r.metrics))*max(1, len(r.labels)), len(r.cells))
}

// Bytes returns about how much memory the rows take, without the struct itself and the names of their metrics.
func (r *Rows) Bytes() int {
	values := cap(r.rows)*rowBytes + cap(r.cells)*cellBytes + cap(r.lists)*columnBytes
	values += cap(r.texts)*textBytes + r.kept
	if cap(r.labels) > len(noLabels) {
		values += cap(r.labels) * labelsBytes
	}
	return values
}

// First returns the offset of the first record; there must be one.
func (r *Rows) First() int64 { return r.rows[0].offset }

// Through returns the offset of the last record; there must be one.
func (r *Rows) Through() int64 { return r.rows[len(r.rows)-1].offset }

// Span returns the least and the greatest event time; there must be a reading.
func (r *Rows) Span() (from, to int64) {
	from, to = r.rows[0].time, r.rows[0].time
	for _, x := range r.rows[1:] {
		from, to = min(from, x.time), max(to, x.time)
	}
	return from, to
}

// RowsThrough returns how many readings are of records up to an offset.
func (r *Rows) RowsThrough(offset int64) int {
	return sort.Search(len(r.rows), func(i int) bool { return r.rows[i].offset > offset })
}

// Below returns the rows of records below an offset, as a snapshot: nothing is appended to it.
func (r *Rows) Below(offset int64) Rows {
	n := r.RowsThrough(offset - 1)
	if n == len(r.rows) {
		return *r
	}
	out := *r
	out.rows, out.cells = r.rows[:n:n], r.cells[:r.begin(n)]
	return out
}

// SplitAt cuts between records: head has about n readings, at least one record, tail has the rest. A record that lies
// across the cut goes to the head when it is the first one there, else to the tail. The tail takes the place of r,
// which must not be appended to any more. The time that it takes follows the head: to cut piece after piece off a
// long bin takes the time of copying it twice.
func (r *Rows) SplitAt(n int) (head, tail Rows) {
	n = min(max(n, 1), len(r.rows))
	for n > 0 && n < len(r.rows) && r.rows[n].offset == r.rows[n-1].offset {
		n--
	}
	for n == 0 || n < len(r.rows) && r.rows[n].offset == r.rows[n-1].offset {
		n++
	}
	return r.slice(0, n), r.from(n)
}

// from returns the rows from n on. It shares memory with r, unless more of that would be idle than in use.
func (r *Rows) from(n int) Rows {
	gone := r.begin(n)
	if n == len(r.rows) || r.firstCell+gone > uint32(len(r.cells))-gone {
		return r.slice(n, len(r.rows))
	}
	out := *r
	out.rows = r.rows[n:]
	out.cells, out.firstCell = r.cells[gone:], r.firstCell+gone
	out.kept += n*rowBytes + int(gone)*cellBytes
	return out
}

// Concat returns r followed by s, which has higher offsets.
func (r *Rows) Concat(s *Rows) Rows {
	out := r.slice(0, len(r.rows))
	out.copyFrom(s, 0, len(s.rows))
	return out
}

// slice copies the rows from i to j, with only the texts and label sets that they use.
func (r *Rows) slice(i, j int) Rows {
	out := NewRows(r.names)
	out.copyFrom(r, i, j)
	return out
}

func (r *Rows) copyFrom(s *Rows, i, j int) {
	if i < j {
		r.rows = slices.Grow(r.rows, j-i)
		r.cells = slices.Grow(r.cells, int(s.begin(j)-s.begin(i)))
	}
	for offset, reading := range s.readings(i, j) {
		r.Append(offset, *reading)
	}
}

// Each returns the readings as they were taken, without tenant and device, each with the offset of its record. Each is
// overwritten by the next.
func (r *Rows) Each() iter.Seq2[int64, *telemetry.Reading] { return r.readings(0, len(r.rows)) }

// readings returns the readings of rows i to j.
func (r *Rows) readings(i, j int) iter.Seq2[int64, *telemetry.Reading] {
	return func(yield func(int64, *telemetry.Reading) bool) {
		var reading telemetry.Reading
		for ; i < j; i++ {
			reading.Time = r.rows[i].time
			reading.Labels = r.labels[r.rows[i].labels]
			reading.Fields = reading.Fields[:0]
			bits := r.bits(i)
			for k, c := range r.list(i) {
				f := telemetry.Field{Metric: r.metrics[c.metric()], Value: r.value(c.kind(), bits[k])}
				reading.Fields = append(reading.Fields, f)
			}
			if !yield(r.rows[i].offset, &reading) {
				return
			}
		}
	}
}

// list returns the columns of row i, and bits its values.
func (r *Rows) list(i int) []column {
	begin := r.rows[i].list
	return r.lists[begin : begin+(r.rows[i].end-r.firstCell-r.begin(i))]
}

func (r *Rows) bits(i int) []uint64 { return r.cells[r.begin(i) : r.rows[i].end-r.firstCell] }

// begin returns the index of the first cell of row i, which may be the one after the last.
func (r *Rows) begin(i int) uint32 {
	if i == 0 {
		return 0
	}
	return r.rows[i-1].end - r.firstCell
}

func (r *Rows) value(kind telemetry.Kind, bits uint64) telemetry.Value {
	if kind == telemetry.Text {
		return telemetry.TextValue(r.texts[bits])
	}
	return telemetry.BitsValue(kind, bits)
}

// All is a range that holds every valid event time.
var All = telemetry.Range{From: 0, To: telemetry.MaxMillis}

// Frame returns the rows with an instant in span as columns. It merges rows of one instant and label set, the value
// with the highest offset winning, metric by metric. With metrics given, the frame has those metrics only, and no
// rows without them.
func (r *Rows) Frame(span telemetry.Range, metrics []string) chunk.Frame {
	return newFramer(r, span, metrics).frame()
}
