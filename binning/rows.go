// Package binning holds readings in memory until they are worth a document: Rows is what was taken, in
// the order of the log; Policy says when and where to cut.
//
// It has no I/O, no clock and no goroutine: now is an argument. It knows nothing of Kafka, of Cosmos DB or
// of how a chunk is encoded; package chunk beside it does that.
package binning

import (
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
	end    uint32 // index after the row's last cell; it begins where the row before ends
}

type cell struct {
	bits   uint64 // for text: index into texts
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
	for _, f := range reading.Fields {
		c := cell{bits: f.Value.Bits(), metric: r.metric(f.Metric), kind: f.Value.Kind()}
		if c.kind == telemetry.Text {
			c.bits = uint64(len(r.texts))
			r.texts = append(r.texts, f.Value.Text())
			r.textBytes += len(f.Value.Text()) + 16
		}
		r.cells = append(r.cells, c)
	}
	r.rows = append(r.rows, row{offset: offset, time: reading.Time, labels: r.label(reading.Labels), end: uint32(len(r.cells))})
}

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

// After is the rows of records above an offset (rule W4).
func (r *Rows) After(offset int64) Rows {
	n := sort.Search(len(r.rows), func(i int) bool { return r.rows[i].offset > offset })
	return r.slice(n, len(r.rows))
}

// SplitAt cuts between records: head has about n readings, at least one record, tail has the rest.
// A record that lies across the cut goes to the head when it is the first one there, else to the tail.
func (r *Rows) SplitAt(n int) (head, tail Rows) {
	n = min(max(n, 1), len(r.rows))
	for n > 0 && n < len(r.rows) && r.rows[n].offset == r.rows[n-1].offset {
		n--
	}
	for n == 0 || n < len(r.rows) && r.rows[n].offset == r.rows[n-1].offset {
		n++
	}
	return r.slice(0, n), r.slice(n, len(r.rows))
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
	begin := uint32(0)
	if i > 0 {
		begin = r.rows[i-1].end
	}
	return r.cells[begin:r.rows[i].end]
}

func (r *Rows) value(c cell) telemetry.Value {
	if c.kind == telemetry.Text {
		return telemetry.TextValue(r.texts[c.bits])
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
