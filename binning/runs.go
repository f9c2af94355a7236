package binning

import (
	"cmp"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Run returns the rows from i to j as they were taken, in columns: what a block of them holds. It takes the columns of
// some metrics only, or all columns if only is nil.
func (r *Rows) Run(i, j int, only []string) chunk.Run { return r.run(i, j, &runScratch{metrics: only}) }

// runScratch is memory of a run that is done with before the next one is made.
type runScratch struct {
	// metrics names the metrics that have columns in the run; nil stands for all metrics.
	metrics []string

	numbers []int64
	bits    []uint64
	columns []chunk.Column
}

// forget lets go of what only an unusual run needs, and of texts.
func (s *runScratch) forget() {
	clear(s.columns)
	if cap(s.bits) > blockValues {
		*s = runScratch{}
	}
}

// run returns what Run does, in memory of the caller's.
func (r *Rows) run(i, j int, s *runScratch) chunk.Run {
	if r.alike(i, j) {
		return r.transposed(i, j, s)
	}
	n := j - i
	run := chunk.Run{Offsets: make([]int64, n), Times: make([]int64, n)}
	sets := make(map[uint32]uint32, 1)
	places := make([]uint32, n)
	places0 := uint32(0)
	at := make(map[column]int, 16) // index of a column of the rows in run.Columns
	for k := range n {
		row := &r.rows[i+k]
		run.Offsets[k], run.Times[k] = row.offset, row.time
		place, known := sets[row.labels]
		if !known {
			place = uint32(len(run.Sets))
			sets[row.labels] = place
			run.Sets = append(run.Sets, r.labels[row.labels])
		}
		places[k] = place
		places0 |= place
		bits := r.bits(i + k)
		for m, c := range r.list(i + k) {
			x, known := at[c]
			if !known {
				x = len(run.Columns)
				at[c] = x
				run.Columns = append(run.Columns, newColumn(r.metrics[c.metric()], c.kind(), n))
			}
			r.appendValue(&run.Columns[x], k, bits[m])
		}
	}
	if places0 != 0 {
		run.Labels = places
	}
	for x := range run.Columns {
		if c := &run.Columns[x]; c.Len() == n {
			c.Present = nil
		}
	}
	slices.SortFunc(run.Columns, compareColumns)
	return run.Of(s.metrics)
}

// alike reports whether the rows from i to j have the same columns, and the same labels.
func (r *Rows) alike(i, j int) bool {
	if i == j {
		return false
	}
	first, width := &r.rows[i], len(r.list(i))
	for k := i + 1; k < j; k++ {
		if x := &r.rows[k]; x.list != first.list || x.labels != first.labels || int(x.end-r.rows[k-1].end) != width {
			return false
		}
	}
	return true
}

func (r *Rows) transposed(i, j int, s *runScratch) chunk.Run {
	n, list, wanted := j-i, r.list(i), chunk.Wanted(s.metrics)
	s.numbers = slices.Grow(s.numbers[:0], 2*n)[:2*n]
	s.bits, s.columns = slices.Grow(s.bits[:0], n*len(list)), slices.Grow(s.columns[:0], len(list))
	run := chunk.Run{Offsets: s.numbers[:n:n], Times: s.numbers[n:], Sets: []telemetry.Labels{r.labels[r.rows[i].labels]}}
	for k := range n {
		run.Offsets[k], run.Times[k] = r.rows[i+k].offset, r.rows[i+k].time
	}
	cells := r.cells[r.begin(i):]
	for m, c := range list {
		column := chunk.Column{Metric: r.metrics[c.metric()], Kind: c.kind()}
		if !wanted(column.Metric) {
			continue
		}
		if c.kind() == telemetry.Text {
			column.Texts = make([]string, n)
			for k := range n {
				column.Texts[k] = r.texts[cells[k*len(list)+m]]
			}
		} else {
			s.bits = s.bits[:len(s.bits)+n]
			column.Bits = s.bits[len(s.bits)-n : len(s.bits) : len(s.bits)]
			for k := range column.Bits {
				column.Bits[k] = cells[k*len(list)+m]
			}
		}
		s.columns = append(s.columns, column)
	}
	run.Columns = s.columns
	slices.SortFunc(run.Columns, compareColumns)
	return run
}

func newColumn(metric string, kind telemetry.Kind, rows int) chunk.Column {
	c := chunk.Column{Metric: metric, Kind: kind, Present: chunk.NewBitmap(rows)}
	if kind == telemetry.Text {
		c.Texts = make([]string, 0, rows)
	} else {
		c.Bits = make([]uint64, 0, rows)
	}
	return c
}

func (r *Rows) appendValue(c *chunk.Column, k int, bits uint64) {
	c.Present.Set(k)
	if c.Kind == telemetry.Text {
		c.Texts = append(c.Texts, r.value(c.Kind, bits).Text())
		return
	}
	c.Bits = append(c.Bits, bits)
}

func compareColumns(a, b chunk.Column) int {
	return cmp.Or(strings.Compare(a.Metric, b.Metric), cmp.Compare(a.Kind, b.Kind))
}

// AppendRun appends the readings of a run. Their offsets, 0 where it has none, must not be lower than any before.
func (r *Rows) AppendRun(run *chunk.Run) {
	// next has, for each column, the index of the value to be read next.
	next := make([]int, len(run.Columns))
	var reading telemetry.Reading
	for k, at := range run.Times {
		reading.Time, reading.Labels = at, run.Sets[0]
		if run.Labels != nil {
			reading.Labels = run.Sets[run.Labels[k]]
		}
		reading.Fields = reading.Fields[:0]
		for i := range run.Columns {
			if c := &run.Columns[i]; c.Present.Has(k) {
				reading.Fields = append(reading.Fields, telemetry.Field{Metric: c.Metric, Value: c.Value(next[i])})
				next[i]++
			}
		}
		offset := int64(0)
		if run.Offsets != nil {
			offset = run.Offsets[k]
		}
		r.Append(offset, reading)
	}
}

// runCollector decodes blocks that follow each other, into a run for all that have the same schema.
type runCollector struct {
	metrics     []string
	skipOffsets bool
	// scratch is memory for instants of the first run.
	scratch []int64
	runs    []chunk.Run
	// of is the schema of the last run.
	of *chunk.Schema
	// part selects the metrics in blocks of that schema.
	part chunk.Part
}

// decode appends the readings of blocks, with the columns of the metrics. These blocks and all after them have at most
// left readings.
func (c *runCollector) decode(schema *chunk.Schema, left int, blocks ...[]byte) error {
	if c.of != schema {
		c.of, c.part = schema, schema.Part(c.metrics)
		c.part.SkipOffsets = c.skipOffsets
		c.runs, c.scratch = append(c.runs, chunk.Run{Times: c.scratch}), nil
	}
	return c.part.AppendTo(&c.runs[len(c.runs)-1], left, blocks...)
}

// frame returns the selected readings of the runs as columns (FrameOf).
func (c *runCollector) frame(s Selection) chunk.Frame {
	if r, n := c.runs, len(c.runs)-1; c.skipOffsets && n >= 0 && inOrder(r) && s.Span.Contains(r[0].Times[0]) &&
		s.Span.Contains(r[n].Times[r[n].Rows()-1]) {
		return chunk.Frame{Groups: []chunk.Group{join(r)}}
	}
	return FrameOf(c.within(s))
}

// within returns the runs with the readings that have a value, an instant within the selection, and offsets within it
// unless those were skipped.
func (c *runCollector) within(s Selection) (runs []chunk.Run) {
	for _, run := range c.runs {
		all := run
		numbered := func(k int) bool { return c.skipOffsets || all.Offsets[k] > s.Above && all.Offsets[k] < s.Below }
		from, to := spanOf(run.Times)
		if !numbered(0) || !numbered(run.Rows()-1) || from < s.Span.From || to >= s.Span.To || !valued(&run) {
			run = all.Where(func(k int) bool { return numbered(k) && s.Span.Contains(all.Times[k]) && all.Valued(k) })
		}
		if run.Rows() > 0 {
			runs = append(runs, run)
		}
	}
	return runs
}

// FrameOf returns the readings of runs that follow each other as columns. It merges readings of one instant and label
// set, the value with the highest offset winning, metric by metric. As a rule, of one label set and in the order of
// time, they are put together as they are. The runs are part of the frame then.
func FrameOf(runs []chunk.Run) chunk.Frame {
	if len(runs) == 0 {
		return chunk.Frame{}
	}
	if inOrder(runs) {
		return chunk.Frame{Groups: []chunk.Group{join(runs)}}
	}
	var rows Rows
	for i := range runs {
		rows.AppendRun(&runs[i])
	}
	return rows.Frame(All, nil)
}

// inOrder reports whether runs are of one label set, each instant after the one before, and each reading with a value.
func inOrder(runs []chunk.Run) bool {
	last := int64(-1)
	for i := range runs {
		r := &runs[i]
		if r.Labels != nil || r.Sets[0].Compare(runs[0].Sets[0]) != 0 || !valued(r) || !r.Ascends() || r.Times[0] <= last {
			return false
		}
		last = r.Times[r.Rows()-1]
	}
	return true
}

func valued(r *chunk.Run) bool {
	if slices.ContainsFunc(r.Columns, func(c chunk.Column) bool { return c.Present == nil }) {
		return true
	}
	for k := range r.Rows() {
		if !r.Valued(k) {
			return false
		}
	}
	return true
}

// join returns runs in order as one group.
func join(runs []chunk.Run) chunk.Group {
	g := chunk.Group{Labels: runs[0].Sets[0]}
	if extendRun(&runs[0], runs[1:]) {
		g.Times, g.Columns = runs[0].Times, runs[0].Columns
		return g
	}
	rows := 0
	for i := range runs {
		rows += runs[i].Rows()
	}
	g.Times = make([]int64, 0, rows)
	for i := range runs {
		g.Times = append(g.Times, runs[i].Times...)
		for j := range runs[i].Columns {
			c := chunk.Column{Metric: runs[i].Columns[j].Metric, Kind: runs[i].Columns[j].Kind}
			if at, known := slices.BinarySearchFunc(g.Columns, c, compareColumns); !known {
				g.Columns = slices.Insert(g.Columns, at, c)
			}
		}
	}
	for i := range g.Columns {
		joinColumn(&g.Columns[i], runs, rows)
	}
	return g
}

// extendRun appends runs to one with the same columns. It returns false if the columns differ, or a value is missing.
func extendRun(r *chunk.Run, more []chunk.Run) bool {
	for _, next := range append([]chunk.Run{*r}, more...) {
		if len(next.Columns) != len(r.Columns) {
			return false
		}
		for i := range next.Columns {
			if c := &next.Columns[i]; c.Present != nil || compareColumns(*c, r.Columns[i]) != 0 {
				return false
			}
		}
	}
	for k := range more {
		r.Times = append(r.Times, more[k].Times...)
		for i := range r.Columns {
			c, next := &r.Columns[i], &more[k].Columns[i]
			c.Bits, c.Texts = append(c.Bits, next.Bits...), append(c.Texts, next.Texts...)
		}
	}
	return true
}

// joinColumn fills a column, with that many rows, from the columns of runs.
func joinColumn(c *chunk.Column, runs []chunk.Run, rows int) {
	whole := newColumn(c.Metric, c.Kind, rows)
	from := 0
	for i := range runs {
		r := &runs[i]
		if at, has := slices.BinarySearchFunc(r.Columns, *c, compareColumns); has {
			part := &r.Columns[at]
			whole.Bits, whole.Texts = append(whole.Bits, part.Bits...), append(whole.Texts, part.Texts...)
			for k := range r.Rows() {
				if part.Present.Has(k) {
					whole.Present.Set(from + k)
				}
			}
		}
		from += r.Rows()
	}
	if whole.Len() == rows {
		whole.Present = nil
	}
	*c = whole
}
