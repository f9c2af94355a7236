package chunk

import (
	"fmt"
	"strconv"
)

// packBytes is the number of bytes before packing at which a pack is full. A reader of one column decodes a whole
// pack.
const packBytes = 8 << 10

// What the index of a pack may take: indexBytes in all, and columnBytes for the statistics of a column.
const (
	indexBytes  = 40 << 10
	columnBytes = 100
)

// placed is a column and its label set.
type placed struct {
	*Column
	group int
}

// appendPacks appends the columns in runs: names and statistics in one string, values in another.
func (e *encoder) appendPacks(f Frame) error {
	var columns []placed
	for i := range f.Groups {
		for j := range f.Groups[i].Columns {
			columns = append(columns, placed{&f.Groups[i].Columns[j], i})
		}
	}
	for from := 0; from < len(columns); {
		n := e.packOf(columns, from)
		if from > 0 {
			e.doc = append(e.doc, ',')
		}
		e.doc = append(e.doc, `{"pack":`...)
		e.doc = strconv.AppendInt(e.doc, int64(n), 10)
		err := e.appendData("index", e.indexOf(columns[from:from+n]))
		if err == nil {
			err = e.appendData("data", e.section(from+1, from+n))
		}
		if err != nil {
			return fmt.Errorf("columns %s to %s: %w", columns[from].Metric, columns[from+n-1].Metric, err)
		}
		e.doc = append(e.doc, '}')
		from += n
	}
	return nil
}

// packOf returns the number of columns in the pack that begins with one, at least that one.
func (e *encoder) packOf(columns []placed, from int) int {
	begin, index := e.ends[from], 0
	n := 0
	for ; from+n < len(columns) && n < maxPack; n++ {
		index += columnBytes + len(columns[from+n].Metric)
		end := e.ends[from+n+1]
		if n > 0 && (index > indexBytes || end.plain-begin.plain+end.packed-begin.packed > packBytes) {
			break
		}
	}
	return n
}

// indexOf returns the section of the index of a run of columns. It is valid until the next call.
func (e *encoder) indexOf(columns []placed) section {
	x := &e.index
	x.reset()
	before := ""
	for _, c := range columns {
		s := StatsOf(c.Column)
		x.add(c.group, c.Column, before, &s)
		before = c.Metric
	}
	values := e.s
	e.s = section{e.indexed.plain[:0], e.indexed.packed[:0]}
	e.writeIndex(x, columns)
	e.indexed, e.s = e.s, values
	return e.indexed
}
