// Package binning holds readings in memory until they are worth a document: Rows is what was taken, in
// the order of the log; Policy says when and where to cut.
//
// It has no I/O, no clock and no goroutine: now is an argument. It knows nothing of Kafka, of Cosmos DB or
// of how a chunk is encoded; package chunk beside it does that.
package binning

import (
	"iter"
	"slices"
	"sort"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Rows are readings of one device and day, in the order of their offsets. They only grow: a copy of the
// struct is a snapshot that stays valid while the original goes on, so that a query can read what a
// worker is still filling. The zero Rows is empty.
type Rows struct {
	rows  []row
	cells []cell
	texts []string

	firstCell uint32 // number of cells[0]; cells and texts are numbered through, also where a cut took the first ones away
	firstText uint64 // number of texts[0]

	metrics []string
	labels  []telemetry.Labels

	metricIndex map[string]uint32 // read and written by the owner only
	labelIndex  map[string]uint32
	scratch     []byte
	textBytes   int
}

type row struct {
	offset int64
	time   int64
	labels uint32
	end    uint32 // number of the cell after the row's last one; it begins where the row before ends
}

type cell struct {
	bits   uint64 // for text: its number
	metric uint32
	kind   telemetry.Kind
}

// Approximate sizes in memory, in bytes: the structs above, with slices that are on average three quarters full.
const (
	rowBytes  = 32
	cellBytes = 21
	nameBytes = 64
)

// Append takes a reading of the record at offset, which must not be lower than any before it.
func (r *Rows) Append(offset int64, reading telemetry.Reading) {
	if r.metricIndex == nil {
		r.metricIndex = make(map[string]uint32)
		r.labelIndex = make(map[string]uint32)
	}
	before := r.lastCells()
	for i, f := range reading.Fields {
		c := cell{bits: f.Value.Bits(), kind: f.Value.Kind()}
		if i < len(before) && r.metrics[before[i].metric] == f.Metric {
			c.metric = before[i].metric // as a rule a reading has the metrics of the one before
		} else {
			c.metric = r.metric(f.Metric)
		}
		if c.kind == telemetry.Text {
			c.bits = r.firstText + uint64(len(r.texts))
			r.texts = append(r.texts, f.Value.Text())
			r.textBytes += textBytes(f.Value.Text())
		}
		r.cells = append(r.cells, c)
	}
	r.rows = append(r.rows, row{offset: offset, time: reading.Time, labels: r.label(reading.Labels), end: r.firstCell + uint32(len(r.cells))})
}

// lastCells is the cells of the last row.
func (r *Rows) lastCells() []cell {
	if len(r.rows) == 0 {
		return nil
	}
	return r.cellsOf(len(r.rows) - 1)
}

func textBytes(text string) int { return len(text) + 16 }

func (r *Rows) metric(name string) uint32 {
	i, ok := r.metricIndex[name]
	if !ok {
		i = uint32(len(r.metrics))
		r.metrics = append(r.metrics, name)
		r.metricIndex[name] = i
	}
	return i
}

func (r *Rows) label(l telemetry.Labels) uint32 {
	if n := len(r.rows); n > 0 {
		if last := r.rows[n-1].labels; slices.Equal(r.labels[last], l) {
			return last
		}
	}
	r.scratch = l.AppendKey(r.scratch[:0])
	i, ok := r.labelIndex[string(r.scratch)]
	if !ok {
		i = uint32(len(r.labels))
		r.labels = append(r.labels, l)
		r.labelIndex[string(r.scratch)] = i
	}
	return i
}

// Readings is how many readings were taken, before those of one instant are merged.
func (r *Rows) Readings() int { return len(r.rows) }

// Values is how many values the readings have.
func (r *Rows) Values() int { return len(r.cells) }

// Bytes is about how much memory the rows take.
func (r *Rows) Bytes() int {
	return len(r.rows)*rowBytes + len(r.cells)*cellBytes + r.textBytes + (len(r.metrics)+len(r.labels))*nameBytes
}

// First is the offset of the first record; there must be one.
func (r *Rows) First() int64 { return r.rows[0].offset }

// Through is the offset of the last record; there must be one.
func (r *Rows) Through() int64 { return r.rows[len(r.rows)-1].offset }

// Span is the least and the greatest event time; there must be a reading.
func (r *Rows) Span() (from, to int64) {
	from, to = r.rows[0].time, r.rows[0].time
	for _, x := range r.rows[1:] {
		from, to = min(from, x.time), max(to, x.time)
	}
	return from, to
}

// Columns is every metric with every kind that it has values of, each once.
func (r *Rows) Columns() iter.Seq2[string, telemetry.Kind] {
	return func(yield func(string, telemetry.Kind) bool) {
		told := make([]uint8, len(r.metrics)) // bits of the kinds
		for _, c := range r.cells {
			if told[c.metric]&(1<<c.kind) == 0 {
				told[c.metric] |= 1 << c.kind
				if !yield(r.metrics[c.metric], c.kind) {
					return
				}
			}
		}
	}
}

// Upto is how many readings are of records up to an offset.
func (r *Rows) Upto(offset int64) int {
	return sort.Search(len(r.rows), func(i int) bool { return r.rows[i].offset > offset })
}

// After is the rows of records above an offset (rule W4). It takes the place of r, which must not be appended to any more.
func (r *Rows) After(offset int64) Rows {
	return r.from(r.Upto(offset))
}

// Below is the rows of records below an offset, as a snapshot: nothing is appended to it.
func (r *Rows) Below(offset int64) Rows {
	n := r.Upto(offset - 1)
	if n == len(r.rows) {
		return *r
	}
	out := *r
	out.rows, out.cells = r.rows[:n:n], r.cells[:r.begin(n)]
	return out
}

// SplitAt cuts between records: head has about n readings, at least one record, tail has the rest.
// A record that lies across the cut goes to the head when it is the first one there, else to the tail.
// The tail takes the place of r, which must not be appended to any more. The time that it takes follows the head: to cut
// piece after piece off a long bin takes as long as to copy it twice.
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

// from is the rows from n on. It shares memory with r, unless more of that would be idle than in use.
func (r *Rows) from(n int) Rows {
	if n == len(r.rows) {
		return Rows{}
	}
	gone := r.begin(n)
	if r.firstCell+gone > uint32(len(r.cells))-gone {
		return r.slice(n, len(r.rows))
	}
	out := *r
	out.rows = r.rows[n:]
	out.cells, out.firstCell = r.cells[gone:], r.firstCell+gone
	for _, c := range r.cells[:gone] {
		if c.kind == telemetry.Text {
			out.textBytes -= textBytes(r.text(c))
			out.texts, out.firstText = out.texts[1:], out.firstText+1
		}
	}
	return out
}

// Records is how many records the readings came from.
func (r *Rows) Records() int {
	n := 0
	for i := range r.rows {
		if i == 0 || r.rows[i].offset != r.rows[i-1].offset {
			n++
		}
	}
	return n
}

// Concat is r followed by s, whose offsets are higher.
func (r *Rows) Concat(s *Rows) Rows {
	out := r.slice(0, len(r.rows))
	out.copyFrom(s, 0, len(s.rows))
	return out
}

// slice copies the rows from i to j, with only the names that they use.
func (r *Rows) slice(i, j int) Rows {
	var out Rows
	out.copyFrom(r, i, j)
	return out
}

func (r *Rows) copyFrom(s *Rows, i, j int) {
	reading := telemetry.Reading{}
	for ; i < j; i++ {
		reading.Time = s.rows[i].time
		reading.Labels = s.labels[s.rows[i].labels]
		reading.Fields = reading.Fields[:0]
		for _, c := range s.cellsOf(i) {
			reading.Fields = append(reading.Fields, telemetry.Field{Metric: s.metrics[c.metric], Value: s.value(c)})
		}
		r.Append(s.rows[i].offset, reading)
	}
}

func (r *Rows) cellsOf(i int) []cell {
	return r.cells[r.begin(i) : r.rows[i].end-r.firstCell]
}

// begin is the index of the first cell of row i.
func (r *Rows) begin(i int) uint32 {
	if i == 0 {
		return 0
	}
	return r.rows[i-1].end - r.firstCell
}

func (r *Rows) text(c cell) string { return r.texts[c.bits-r.firstText] }

func (r *Rows) value(c cell) telemetry.Value {
	if c.kind == telemetry.Text {
		return telemetry.TextValue(r.text(c))
	}
	return telemetry.BitsValue(c.kind, c.bits)
}

// All is a range that holds every valid event time.
var All = telemetry.Range{From: 0, To: telemetry.MaxMillis}

// Frame is the rows with an instant in span as columns: those of one instant and label set merged,
// the value with the highest offset winning, metric by metric. With metrics given, only those are in it,
// and rows that have none of them are left out.
func (r *Rows) Frame(span telemetry.Range, metrics []string) chunk.Frame {
	return newFramer(r, span, metrics).frame()
}
