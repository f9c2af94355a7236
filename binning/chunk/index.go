package chunk

import (
	"slices"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

// The index of a pack describes its columns, as the entries of a chunk with a string per column do: label sets, kinds,
// names and statistics, each of all columns together.

// indexed is what an index says of the columns of a pack, as integer streams.
type indexed struct {
	groups, kinds, prefixes, suffixes []int64
	counts                            [4][]int64 // values that count, NaN, +infinity, -infinity
	floats, ints                      statistics
}

// statistics are the numbers of all columns that have some, of one of the two number types.
type statistics struct {
	values []uint64 // each column's first, last, min, max
	sums   []uint64 // each column's sum, 0 for none
	summed []int64  // 1 where there is a sum
}

// perColumn is the number of values without the sum.
const perColumn = 4

// reset empties x without giving memory back.
func (x *indexed) reset() {
	for _, s := range []*[]int64{&x.groups, &x.kinds, &x.prefixes, &x.suffixes, &x.floats.summed, &x.ints.summed} {
		*s = (*s)[:0]
	}
	for i := range x.counts {
		x.counts[i] = x.counts[i][:0]
	}
	for _, s := range []*[]uint64{&x.floats.values, &x.floats.sums, &x.ints.values, &x.ints.sums} {
		*s = (*s)[:0]
	}
}

func (x *indexed) of(kind telemetry.Kind) *statistics {
	if kind == telemetry.Float {
		return &x.floats
	}
	return &x.ints
}

// add takes a column; before is the name of the one before it in the pack, empty for the first.
func (x *indexed) add(group int, c *Column, before string, s *Stats) {
	shared := 0
	for shared < min(len(before), len(c.Metric)) && before[shared] == c.Metric[shared] {
		shared++
	}
	x.groups = append(x.groups, int64(group))
	x.kinds = append(x.kinds, int64(c.Kind))
	x.prefixes = append(x.prefixes, int64(shared))
	x.suffixes = append(x.suffixes, int64(len(c.Metric)-shared))
	for i, n := range []int{s.Count, s.NaN, s.PosInf, s.NegInf} {
		x.counts[i] = append(x.counts[i], int64(n))
	}
	if c.Kind == telemetry.Text || s.Count == 0 {
		return
	}
	to := x.of(c.Kind)
	to.values = append(to.values, s.First.Bits(), s.Last.Bits(), s.Min.Bits(), s.Max.Bits())
	to.sums, to.summed = append(to.sums, s.Sum.Bits()), append(to.summed, 1)
	if s.Sum.Kind() == 0 {
		to.summed[len(to.summed)-1] = 0
	}
}

// writeIndex appends the section of a pack's index.
func (e *encoder) writeIndex(x *indexed, columns []placed) {
	for _, s := range [][]int64{x.groups, x.kinds, x.prefixes, x.suffixes, x.counts[0], x.counts[1], x.counts[2],
		x.counts[3]} {
		e.writeInts(s, planInts(s, false))
	}
	for i, c := range columns {
		e.s.packed = append(e.s.packed, c.Metric[x.prefixes[i]:]...)
	}
	e.writeStatistics(telemetry.Float, &x.floats)
	e.writeStatistics(telemetry.Int, &x.ints)
}

func (e *encoder) writeStatistics(kind telemetry.Kind, s *statistics) {
	if len(s.sums) == 0 {
		return
	}
	e.writeInts(s.summed, planInts(s.summed, false))
	for _, v := range [][]uint64{s.values, s.sums} {
		e.direct.plan(kind, v, e.brief)
		e.writeNumbers(&e.direct, 0)
	}
}

// openPacks reads the indexes of the document's packs into r.columns.
func (r *reader) openPacks(c *Chunk) error {
	d := takeDecoder()
	defer d.release()
	for _, p := range r.packs {
		if len(r.columns)+p.columns > MaxColumns {
			return corrupt("more than %d columns", MaxColumns)
		}
		if _, err := d.open(p.index); err != nil {
			return err
		}
		if err := r.readIndex(d, p.columns); err != nil {
			return err
		}
		if err := d.closePacket(); err != nil {
			return err
		}
		c.shared = append(c.shared, shared{holds: make([]held, p.columns)})
	}
	return nil
}

// readIndex reads the index of a pack of n columns from the open packet.
func (r *reader) readIndex(d *decoder, n int) error {
	x := &d.index
	for _, s := range []*[]int64{&x.groups, &x.kinds, &x.prefixes, &x.suffixes, &x.counts[0], &x.counts[1], &x.counts[2],
		&x.counts[3]} {
		var err error
		if *s, err = d.readInts(*s, n); err != nil {
			return err
		}
	}
	from := len(r.columns)
	numbers := [2]int{}
	for i := range n {
		c, err := r.readName(d, x, i)
		if err != nil {
			return err
		}
		if c.stats.Count > 0 && c.kind != telemetry.Text {
			numbers[familyOf(c.kind)]++
		}
		r.columns = append(r.columns, c)
	}
	if err := d.readStatistics(telemetry.Float, &x.floats, numbers[0]); err != nil {
		return err
	}
	if err := d.readStatistics(telemetry.Int, &x.ints, numbers[1]); err != nil {
		return err
	}
	at := [2]int{}
	for i := from; i < len(r.columns); i++ {
		if c := &r.columns[i]; c.stats.Count > 0 && c.kind != telemetry.Text {
			family := familyOf(c.kind)
			if err := x.of(c.kind).give(at[family], c); err != nil {
				return err
			}
			at[family]++
		}
	}
	return nil
}

// familyOf returns 0 for floats and 1 for the kinds with integer statistics.
func familyOf(kind telemetry.Kind) int {
	if kind == telemetry.Float {
		return 0
	}
	return 1
}

// readName reads the index's entry for column i, without its numbers.
func (r *reader) readName(d *decoder, x *indexed, i int) (rawColumn, error) {
	c := rawColumn{group: int(x.groups[i]), kind: telemetry.Kind(x.kinds[i])}
	if x.groups[i] < 0 || x.groups[i] >= MaxRows || x.kinds[i] < int64(telemetry.Float) ||
		x.kinds[i] > int64(telemetry.Text) {
		return c, corrupt("a column of kind %d and label set %d", x.kinds[i], x.groups[i])
	}
	var before []byte
	if i > 0 {
		before = r.columns[len(r.columns)-1].metric
	}
	prefix, suffix := x.prefixes[i], x.suffixes[i]
	if prefix < 0 || prefix > int64(len(before)) || suffix < 0 || suffix > int64(len(d.s.packed)) || prefix+suffix == 0 {
		return c, corrupt("a name of %d and %d bytes", prefix, suffix)
	}
	rest, err := d.takePacked(int(suffix))
	if err != nil {
		return c, err
	}
	if len(r.names)+int(prefix+suffix) > maxUnpacked {
		return c, corrupt("names of more than %d bytes", maxUnpacked)
	}
	at := len(r.names)
	r.names = append(append(r.names, before[:prefix]...), rest...)
	if c.metric = r.names[at:]; !utf8.Valid(c.metric) {
		return c, corrupt("a metric's name is not UTF-8")
	}
	c.wanted = r.wanted.hasRaw(c.metric)
	for k, into := range []*int{&c.stats.Count, &c.stats.NaN, &c.stats.PosInf, &c.stats.NegInf} {
		count := x.counts[k][i]
		if count < 0 || count > MaxRows || k > 0 && count > 0 && c.kind != telemetry.Float {
			return c, corrupt("a count of %d", count)
		}
		*into = int(count)
	}
	return c, nil
}

// readStatistics reads what writeStatistics wrote, for n columns.
func (d *decoder) readStatistics(kind telemetry.Kind, s *statistics, n int) (err error) {
	if n == 0 {
		return nil
	}
	if s.summed, err = d.readInts(s.summed, n); err != nil {
		return err
	}
	s.values = slices.Grow(s.values[:0], perColumn*n)[:perColumn*n]
	s.sums = slices.Grow(s.sums[:0], n)[:n]
	for _, v := range [][]uint64{s.values, s.sums} {
		form, err := d.byte()
		if err != nil {
			return err
		}
		if (kind == telemetry.Int) != (form == formInts) {
			return corrupt("form %d of statistics", form)
		}
		if err := d.readNumbers(form, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *statistics) give(k int, c *rawColumn) error {
	v, to := s.values[perColumn*k:], []*telemetry.Value{&c.stats.First, &c.stats.Last, &c.stats.Min, &c.stats.Max}
	for i, into := range to {
		if c.kind == telemetry.Bool && v[i] > 1 || c.kind == telemetry.Float && !finite(v[i]) {
			return corrupt("statistics that are no %s", c.kind)
		}
		*into = telemetry.BitsValue(c.kind, v[i])
	}
	kind := c.kind
	if kind == telemetry.Bool {
		kind = telemetry.Int
	}
	switch {
	case s.summed[k] != 0 && s.summed[k] != 1, kind == telemetry.Float && !finite(s.sums[k]):
		return corrupt("a sum of %s", c.kind)
	case s.summed[k] == 1:
		c.stats.Sum = telemetry.BitsValue(kind, s.sums[k])
	}
	return nil
}
