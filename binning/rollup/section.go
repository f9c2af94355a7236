package rollup

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"binnacle/binning/chunk"
	"binnacle/internal/wire/jsonscan"
	"binnacle/internal/wire/jsontext"
)

// Slice is the part of a table that becomes a section: some of its rows, numbered by their places in a series index,
// and some of its buckets. A section has a value for every bucket of every row; a bucket without samples repeats the
// one before it, which costs nothing and counts for nothing.
type Slice struct {
	Table    *Table
	Rows     []int32 // ascending
	From, To int     // buckets
	At0      []Sample
}

func (s *Slice) fits(f Family) bool {
	resets := 0
	if f == First {
		s.eachReset(func(int32, float64) { resets++ })
	}
	return len(s.Rows) <= MaxSeries && len(s.Rows)*(s.To-s.From) <= MaxCells && resets <= MaxResets
}

// AppendSection appends a section: one family of a metric. At0, by row of the table, goes with Last; nil for none.
func AppendSection(dst []byte, metric string, f Family, s Slice) []byte {
	dst = append(dst, `{"metric":`...)
	dst = jsontext.AppendString(dst, metric)
	dst = append(append(dst, `,"family":"`...), byte(f), '"')
	dst = appendInteger(dst, "series", int64(len(s.Rows)))
	dst = appendInteger(dst, "buckets", int64(s.To-s.From))
	if n := len(s.Rows); n > 0 && (s.Rows[0] != 0 || int(s.Rows[n-1]) != n-1) {
		dst = appendInts(dst, "rows", s.Rows)
	}
	t := s.Table
	switch f {
	case Last:
		dst = appendInts(dst, "n", gather(&s, t.N, nil))
		dst = appendInts(dst, "t", gather(&s, t.LastT, t.N))
		dst = appendFloats(dst, "v", gather(&s, t.Last, t.N))
		dst = s.appendStale(dst)
		dst = s.appendAt0(dst)
	case First:
		dst = appendInts(dst, "t", gather(&s, t.FirstT, t.N))
		dst = appendFloats(dst, "v", gather(&s, t.First, t.N))
		dst = s.appendResets(dst)
	case Sum:
		dst = appendFloats(dst, "hi", gather(&s, t.Hi, t.N))
		dst = appendFloats(dst, "lo", gather(&s, t.Lo, t.N))
		dst = appendInts(dst, "size", gather(&s, t.Size, t.N))
	case Extremes:
		dst = appendFloats(dst, "min", gather(&s, t.Min, t.N))
		dst = appendFloats(dst, "max", gather(&s, t.Max, t.N))
	}
	return append(s.appendRounded(dst), '}')
}

// gather returns the cells of a slice in one run. Where there are counts, cells without samples are as the one before
// them in their row, or else as the first one that has some.
func gather[T ~int32 | ~uint32 | float64](s *Slice, column []T, counts []uint32) []T {
	n := s.To - s.From
	out := make([]T, 0, n*len(s.Rows))
	for _, row := range s.Rows {
		at := int(row)*s.Table.Buckets + s.From
		out = append(out, column[at:at+n]...)
		if counts != nil {
			fillIn(out[len(out)-n:], counts[at:at+n])
		}
	}
	return out
}

func fillIn[T any](v []T, counts []uint32) {
	first := 0
	for first < len(counts) && counts[first] == 0 {
		first++
	}
	if first == len(counts) {
		clear(v)
		return
	}
	for i := range v {
		switch {
		case i < first:
			v[i] = v[first]
		case counts[i] == 0:
			v[i] = v[i-1]
		}
	}
}

func (s *Slice) appendStale(dst []byte) []byte {
	var at []int32
	for i, row := range s.Rows {
		for k := s.From; k < s.To; k++ {
			if s.Table.Stale[int(row)*s.Table.Buckets+k] {
				at = append(at, int32(i*(s.To-s.From)+k-s.From))
			}
		}
	}
	return appendSparse(dst, "stale", at, nil)
}

func (s *Slice) appendAt0(dst []byte) []byte {
	var at []int32
	var v []float64
	for i, row := range s.Rows {
		if s.At0 != nil && s.At0[row].Present {
			at, v = append(at, int32(i)), append(v, s.At0[row].V)
		}
	}
	return appendSparse(dst, "at0", at, v)
}

func (s *Slice) appendRounded(dst []byte) []byte {
	var at []int32
	for i, row := range s.Rows {
		if s.Table.Rounded[row] {
			at = append(at, int32(i))
		}
	}
	return appendSparse(dst, "rounded", at, nil)
}

// appendResets appends every value that a lower one follows, with its cell, as often as that has some.
func (s *Slice) appendResets(dst []byte) []byte {
	var at []int32
	var v []float64
	s.eachReset(func(cell int32, x float64) { at, v = append(at, cell), append(v, x) })
	return appendSparse(dst, "resets", at, v)
}

func (s *Slice) eachReset(visit func(cell int32, v float64)) {
	for i, row := range s.Rows {
		for _, f := range s.Table.Resets[row] {
			if int(f.Bucket) < s.From || int(f.Bucket) >= s.To {
				continue
			}
			for _, x := range f.Values {
				visit(int32(i*(s.To-s.From)+int(f.Bucket)-s.From), x)
			}
		}
	}
}

// appendSparse appends places, and values where there are some, and nothing if there are no places.
func appendSparse(dst []byte, name string, at []int32, v []float64) []byte {
	if len(at) == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":{"count":`...)
	dst = strconv.AppendInt(dst, int64(len(at)), 10)
	dst = appendInts(dst, "at", at)
	if v != nil {
		dst = appendFloats(dst, "v", v)
	}
	return append(dst, '}')
}

func appendInteger(dst []byte, name string, v int64) []byte {
	return strconv.AppendInt(append(append(append(dst, `,"`...), name...), `":`...), v, 10)
}

func appendInts[T ~int32 | ~uint32](dst []byte, name string, v []T) []byte {
	wide := make([]int64, len(v))
	for i, x := range v {
		wide[i] = int64(x)
	}
	dst = append(append(append(dst, `,"`...), name...), `":"`...)
	return append(chunk.AppendInts(dst, wide), '"')
}

func appendFloats(dst []byte, name string, v []float64) []byte {
	dst = append(append(append(dst, `,"`...), name...), `":"`...)
	return append(chunk.AppendFloats(dst, v), '"')
}

// Section is a family of a metric in a document that was parsed and is not decoded. It refers to the document's bytes.
type Section struct {
	Metric  string
	Family  Family
	Grid    Grid // its document's, or its own
	Series  int  // rows
	Buckets int  // in each row

	rows    []byte // nil: places 0 to Series-1 of the series index
	columns [3][]byte
	stale   sparseCells
	at0     sparseCells
	resets  sparseCells
	rounded sparseCells
}

type sparseCells struct {
	count int
	at, v []byte
}

func (s *Section) property(r *jsonscan.Scanner, name []byte) (err error) {
	switch string(name) {
	case "metric":
		s.Metric, err = text(r)
	case "family":
		var f string
		if f, err = text(r); err == nil && len(f) == 1 {
			s.Family = Family(f[0])
		}
	case "grid":
		var n int
		n, err = within(r, 1, int(HalfHour))
		s.Grid = Grid(n)
	case "series":
		s.Series, err = within(r, 0, MaxSeries)
	case "buckets":
		s.Buckets, err = within(r, 1, Minute.PerDay())
	case "rows":
		s.rows, err = rawText(r)
	case "n", "hi", "min":
		s.columns[0], err = rawText(r)
	case "t", "lo", "max":
		s.columns[1], err = rawText(r)
	case "v", "size":
		s.columns[2], err = rawText(r)
	case "stale":
		err = s.stale.read(r)
	case "at0":
		err = s.at0.read(r)
	case "resets":
		err = s.resets.read(r)
	case "rounded":
		err = s.rounded.read(r)
	default:
		err = r.Skip()
	}
	return err
}

func (p *sparseCells) read(r *jsonscan.Scanner) error {
	return r.Object(func(name []byte) (err error) {
		switch string(name) {
		case "count":
			p.count, err = within(r, 1, MaxResets)
		case "at":
			p.at, err = rawText(r)
		case "v":
			p.v, err = rawText(r)
		default:
			err = r.Skip()
		}
		return err
	})
}

func (s *Section) check() error {
	if s.Metric == "" || !AllFamilies.Has(s.Family) || s.Buckets == 0 || s.Series*s.Buckets > MaxCells {
		return corrupt("a section of metric %q, family %q, %d series of %d buckets", s.Metric, s.Family, s.Series,
			s.Buckets)
	}
	return nil
}

// SeriesNumbers returns where in the series index the section's series stand.
func (s *Section) SeriesNumbers() ([]int32, error) {
	if s.rows == nil {
		out := make([]int32, s.Series)
		for i := range out {
			out[i] = int32(i)
		}
		return out, nil
	}
	return ints[int32](s.rows, s.Series, 0, MaxSeries-1)
}

// Has returns the columns that the section can be decoded into.
func (s *Section) Has() Columns { return columnsOf[s.Family] }

// Decode makes columns of a table that has a row for each of the section's series, and its buckets: the wanted ones
// that the section has. Counts come with the samples at 00:00 by row; At0 is nil where the section does not begin the
// day. After an error the table means nothing.
func (s *Section) Decode(t *Table, want Columns) (err error) {
	if t.Rounded == nil {
		t.Rounded = make([]bool, s.Series)
		err = s.rounded.each(s.Series, func(row int, _ float64) error { t.Rounded[row] = true; return nil })
	}
	cells := s.Series * s.Buckets
	if want.Has(Counts) && s.Family == Last {
		err = errors.Join(err, decodeInts(&t.N, s.columns[0], cells, math.MaxUint32))
	}
	if want.Has(Newest) && s.Family == Last {
		t.Stale = make([]bool, cells)
		err = errors.Join(err, decodeInts(&t.LastT, s.columns[1], cells, int64(HalfHour)),
			decodeFloats(&t.Last, s.columns[2], cells),
			s.stale.each(cells, func(cell int, _ float64) error { t.Stale[cell] = true; return nil }))
	}
	if want.Has(Oldest) && s.Family == First {
		t.Resets = make([][]Reset, s.Series)
		err = errors.Join(err, decodeInts(&t.FirstT, s.columns[1], cells, int64(HalfHour)),
			decodeFloats(&t.First, s.columns[2], cells),
			s.resets.each(cells, func(cell int, v float64) error {
				return t.addReset(cell/s.Buckets, int32(cell%s.Buckets), v)
			}))
	}
	if want.Has(Sums) && s.Family == Sum {
		err = errors.Join(err, decodeFloats(&t.Hi, s.columns[0], cells), decodeFloats(&t.Lo, s.columns[1], cells),
			decodeInts(&t.Size, s.columns[2], cells, maxSize))
	}
	if want.Has(Lowest) && s.Family == Extremes {
		err = errors.Join(err, decodeFloats(&t.Min, s.columns[0], cells))
	}
	if want.Has(Highest) && s.Family == Extremes {
		err = errors.Join(err, decodeFloats(&t.Max, s.columns[1], cells))
	}
	return err
}

// SamplesAtMidnight returns the samples at 00:00 by row.
func (s *Section) SamplesAtMidnight() ([]Sample, error) {
	out := make([]Sample, s.Series)
	return out, s.at0.each(s.Series, func(row int, v float64) error { out[row] = Sample{true, v}; return nil })
}

// each calls take with each place, below a bound, and its value, 0 where there are none.
func (p *sparseCells) each(bound int, take func(at int, v float64) error) error {
	if p.count == 0 {
		return nil
	}
	at, err := ints[int32](p.at, p.count, 0, int64(bound)-1)
	if err != nil {
		return err
	}
	v := make([]float64, p.count)
	if p.v != nil {
		if v, err = floats(p.v, p.count); err != nil {
			return err
		}
	}
	for i, x := range at {
		if err := take(int(x), v[i]); err != nil {
			return err
		}
	}
	return nil
}

func decodeInts[T ~int32 | ~uint32](column *[]T, stream []byte, n int, highest int64) (err error) {
	*column, err = ints[T](stream, n, 0, highest)
	return err
}

func decodeFloats(column *[]float64, stream []byte, n int) (err error) {
	*column, err = floats(stream, n)
	return err
}

func ints[T ~int32 | ~uint32](stream []byte, n int, lowest, highest int64) ([]T, error) {
	out, err := chunk.ReadInts[T](stream, n, lowest, highest)
	return out, numbers(err)
}

func floats(stream []byte, n int) ([]float64, error) {
	out := make([]float64, n)
	return out, numbers(chunk.ReadFloats(stream, out))
}

func numbers(err error) error {
	if err != nil {
		return corrupt("%v", err)
	}
	return nil
}

func text(r *jsonscan.Scanner) (string, error) {
	raw, err := r.Value()
	if err != nil {
		return "", err
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", corrupt("%v", err)
	}
	return s, nil
}

func rawText(r *jsonscan.Scanner) ([]byte, error) {
	if r.Next() != '"' {
		return nil, r.Fail("no string")
	}
	return r.Opaque()
}

func within(r *jsonscan.Scanner, lowest, highest int) (int, error) {
	r.Next()
	n, err := r.Number()
	if err != nil {
		return 0, err
	}
	f, err := n.Float()
	if i := int(f); err == nil && f >= float64(lowest) && f <= float64(highest) && float64(i) == f {
		return i, nil
	}
	return 0, corrupt("%.40s where %d to %d can be", n.Text, lowest, highest)
}
