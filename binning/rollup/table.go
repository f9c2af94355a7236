package rollup

import (
	"cmp"
	"slices"
)

// Table is buckets of one metric in memory, series by series: what documents are made of, and what they are decoded
// into. Cell row*Buckets+k of a column is bucket k of the row's series; a slice from row*Buckets on, Buckets long, is
// one series. Columns of families that it is without are nil. Other columns than N and Stale count only where N is not
// 0. Goroutines may fill in different rows at the same time.
type Table struct {
	Rows, Buckets int // series, and each one's buckets
	columns
	// Resets are, by row, the buckets that have resets, ascending.
	Resets [][]Reset
	// Rounded are the rows with a value that was rounded: an integer that no float64 holds.
	Rounded []bool
}

// columns of a Table, by family.
type columns struct {
	N      []uint32  // samples, without stale markers
	Stale  []bool    // the newest sample is a stale marker
	LastT  []int32   // ms before the end of the bucket
	Last   []float64 //
	FirstT []int32   // ms before the end of the bucket
	First  []float64
	Hi, Lo []float64
	Size   []Size
	Min    []float64
	Max    []float64
}

// Reset is the values of a bucket that a lower one follows in it, in their order.
type Reset struct {
	Bucket int32
	Values []float64
}

// Sample is a value that may be missing. A stale marker is one.
type Sample struct {
	Present bool
	V       float64
}

// NewTable makes an empty table with the columns of families.
func NewTable(rows, buckets int, families Families) *Table {
	t := &Table{Rows: rows, Buckets: buckets, Rounded: make([]bool, rows)}
	n := rows * buckets
	for _, f := range families {
		switch f {
		case Last:
			t.N, t.Stale = make([]uint32, n), make([]bool, n)
			t.LastT, t.Last = make([]int32, n), make([]float64, n)
		case First:
			t.FirstT, t.First, t.Resets = make([]int32, n), make([]float64, n), make([][]Reset, rows)
		case Sum:
			t.Hi, t.Lo, t.Size = make([]float64, n), make([]float64, n), make([]Size, n)
		case Extremes:
			t.Min, t.Max = make([]float64, n), make([]float64, n)
		}
	}
	return t
}

// Bytes returns about how much memory a table takes.
func Bytes(rows, buckets int, families Families) int64 {
	per := map[Family]int64{Last: 16, First: 12, Sum: 20, Extremes: 16}
	n := int64(0)
	for _, f := range families {
		n += per[f]
	}
	return n * int64(rows) * int64(buckets)
}

// ResetBytes returns about how much memory the resets of a table take.
func (t *Table) ResetBytes() (n int64) {
	for _, resets := range t.Resets {
		for i := range resets {
			n += 32 + 8*int64(len(resets[i].Values))
		}
	}
	return n
}

// Put replaces a bucket of a row. The last instant of the bucket is end.
func (t *Table) Put(row, bucket int, b *Bucket, end int64) {
	at := row*t.Buckets + bucket
	t.N[at], t.Stale[at] = b.N, b.Stale
	if b.N == 0 {
		return
	}
	t.LastT[at], t.Last[at] = int32(end-b.LastT), b.Last
	if t.First != nil {
		t.FirstT[at], t.First[at] = int32(end-b.FirstT), b.First
		t.putResets(row, bucket, b.Resets)
	}
	if t.Hi != nil {
		t.Hi[at], t.Lo[at], t.Size[at] = b.Hi, b.Lo, b.Size
	}
	if t.Min != nil {
		t.Min[at], t.Max[at] = b.Min, b.Max
	}
}

// Get returns a bucket of a row as Put was given it, of the families that there are. The last instant of the bucket is
// end. Its Resets share the table's memory.
func (t *Table) Get(row, bucket int, end int64) (b Bucket) {
	at := row*t.Buckets + bucket
	if b.N, b.Stale = t.N[at], t.Stale[at]; b.N == 0 {
		return b
	}
	b.LastT, b.Last = end-int64(t.LastT[at]), t.Last[at]
	if t.First != nil {
		b.FirstT, b.First = end-int64(t.FirstT[at]), t.First[at]
		b.Resets = t.resets(row, bucket)
	}
	if t.Hi != nil {
		b.Hi, b.Lo, b.Size = t.Hi[at], t.Lo[at], t.Size[at]
	}
	if t.Min != nil {
		b.Min, b.Max = t.Min[at], t.Max[at]
	}
	return b
}

func (t *Table) findResets(row, bucket int) (at int, found bool) {
	return slices.BinarySearchFunc(t.Resets[row], int32(bucket), func(f Reset, b int32) int {
		return cmp.Compare(f.Bucket, b)
	})
}

func (t *Table) resets(row, bucket int) []float64 {
	if at, found := t.findResets(row, bucket); found {
		return t.Resets[row][at].Values
	}
	return nil
}

func (t *Table) putResets(row, bucket int, values []float64) {
	at, found := t.findResets(row, bucket)
	switch {
	case found && len(values) == 0:
		t.Resets[row] = slices.Delete(t.Resets[row], at, at+1)
	case found:
		t.Resets[row][at].Values = slices.Clone(values)
	case len(values) > 0:
		t.Resets[row] = slices.Insert(t.Resets[row], at, Reset{int32(bucket), slices.Clone(values)})
	}
}

// addReset adds the value of a reset behind all others.
func (t *Table) addReset(row int, bucket int32, v float64) error {
	all := t.Resets[row]
	switch n := len(all); {
	case n > 0 && all[n-1].Bucket > bucket:
		return corrupt("resets out of order")
	case n > 0 && all[n-1].Bucket == bucket:
		all[n-1].Values = append(all[n-1].Values, v)
	default:
		t.Resets[row] = append(all, Reset{bucket, []float64{v}})
	}
	return nil
}
