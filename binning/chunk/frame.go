package chunk

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

// Frame is rows of one device in columns: what a bin turns into, what a chunk holds, what a query merges.
// Groups are sorted by Labels, and no two have the same label set.
type Frame struct{ Groups []Group }

// Group is the rows of one label set.
type Group struct {
	Labels  telemetry.Labels
	Times   []int64  // milliseconds since 1970 UTC, strictly ascending
	Columns []Column // sorted by Metric, then Kind
}

// Column is the values of one metric and kind. A metric that changes its type has a column for each kind; at one
// instant at most one of them has a value.
type Column struct {
	Metric  string
	Kind    telemetry.Kind
	Present Bitmap   // rows that have a value; nil: all
	Bits    []uint64 // telemetry.Value.Bits, one per present row; nil for text
	Texts   []string // one per present row; nil for the other kinds
}

// Rows returns the number of rows of all groups.
func (f Frame) Rows() int {
	n := 0
	for i := range f.Groups {
		n += len(f.Groups[i].Times)
	}
	return n
}

// Values returns the number of values of all columns.
func (f Frame) Values() int {
	n := 0
	for i := range f.Groups {
		for j := range f.Groups[i].Columns {
			n += f.Groups[i].Columns[j].Len()
		}
	}
	return n
}

// Len returns the number of values, which is the number of present rows.
func (c *Column) Len() int {
	if c.Kind == telemetry.Text {
		return len(c.Texts)
	}
	return len(c.Bits)
}

// Value returns the value of the k-th present row, 0 <= k < Len.
func (c *Column) Value(k int) telemetry.Value {
	if c.Kind == telemetry.Text {
		return telemetry.TextValue(c.Texts[k])
	}
	return telemetry.BitsValue(c.Kind, c.Bits[k])
}

// check returns an error that names the rule of Frame that f breaks, or the limit that it exceeds, as rows of a day.
func (f Frame) check(day telemetry.Day) error {
	if n := f.Rows(); n == 0 {
		return fmt.Errorf("a frame without rows")
	} else if n > MaxRows {
		return fmt.Errorf("%d rows are above %d: %w", n, MaxRows, ErrTooLarge)
	}
	if n := f.Values(); n > MaxValues {
		return fmt.Errorf("%d values are above %d: %w", n, MaxValues, ErrTooLarge)
	}
	columns, cells := 0, 0
	for i := range f.Groups {
		g := &f.Groups[i]
		if columns += len(g.Columns); columns > MaxColumns {
			return fmt.Errorf("%d columns are above %d: %w", columns, MaxColumns, ErrTooLarge)
		}
		if i > 0 && f.Groups[i-1].Labels.Compare(g.Labels) >= 0 {
			return fmt.Errorf("labels %v stand after %v", g.Labels, f.Groups[i-1].Labels)
		}
		if cells += len(g.Times) * len(g.Columns); cells > MaxCells {
			return fmt.Errorf("rows times columns are above %d: %w", MaxCells, ErrTooLarge)
		}
		if err := g.check(day); err != nil {
			return fmt.Errorf("labels %v: %w", g.Labels, err)
		}
	}
	return nil
}

func (g *Group) check(day telemetry.Day) error {
	for i, l := range g.Labels {
		if !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) || (i > 0 && g.Labels[i-1].Name >= l.Name) {
			return fmt.Errorf("label %q is not in order or not UTF-8", l.Name)
		}
	}
	if err := checkTimes(g.Times, day); err != nil {
		return err
	}
	if len(g.Columns) == 0 {
		return fmt.Errorf("rows without columns")
	}
	for i := range g.Columns {
		c := &g.Columns[i]
		if err := c.check(len(g.Times)); err != nil {
			return fmt.Errorf("column %s of %s: %w", c.Metric, c.Kind, err)
		}
		if err := g.checkOrder(i); err != nil {
			return err
		}
	}
	return nil
}

// checkTimes holds the instants of a group to their order and their day.
func checkTimes(times []int64, day telemetry.Day) error {
	if len(times) == 0 {
		return fmt.Errorf("a group without rows")
	}
	for i, t := range times {
		if i > 0 && times[i-1] >= t {
			return fmt.Errorf("time %d stands after %d", t, times[i-1])
		}
	}
	if times[0] < day.Start() || times[len(times)-1] >= day.End() {
		return fmt.Errorf("times %d to %d leave the day %s", times[0], times[len(times)-1], day)
	}
	return nil
}

// checkOrder checks that column i comes after other columns of its metric.
func (g *Group) checkOrder(i int) error {
	c := &g.Columns[i]
	if i > 0 {
		if p := &g.Columns[i-1]; p.Metric > c.Metric || (p.Metric == c.Metric && p.Kind >= c.Kind) {
			return fmt.Errorf("column %s of %s stands after %s of %s", c.Metric, c.Kind, p.Metric, p.Kind)
		}
	}
	for j := i - 1; j >= 0 && g.Columns[j].Metric == c.Metric; j-- {
		if g.Columns[j].Present.overlaps(c.Present) {
			return fmt.Errorf("metric %s has a %s and a %s at one instant", c.Metric, g.Columns[j].Kind, c.Kind)
		}
	}
	return nil
}

func (c *Column) check(rows int) error {
	if c.Metric == "" || !utf8.ValidString(c.Metric) {
		return fmt.Errorf("metric %q is empty or not UTF-8", c.Metric)
	}
	if c.Kind < telemetry.Float || c.Kind > telemetry.Text {
		return fmt.Errorf("%s is unknown", c.Kind)
	}
	n := rows
	if c.Present != nil {
		if !c.Present.fits(rows) {
			return fmt.Errorf("the bitmap is not one of %d rows", rows)
		}
		n = c.Present.Count()
	}
	if n == 0 || n != c.Len() || (c.Kind == telemetry.Text) != (c.Bits == nil) ||
		(c.Kind == telemetry.Text) == (c.Texts == nil) {
		return fmt.Errorf("%d present rows, but %d values and %d texts", n, len(c.Bits), len(c.Texts))
	}
	if c.Kind == telemetry.Bool {
		for _, b := range c.Bits {
			if b > 1 {
				return fmt.Errorf("a bool of bits %x", b)
			}
		}
	}
	return nil
}

// Times returns the instants of all rows, ascending, each once.
func (f Frame) Times() []int64 {
	var all []int64
	for i := range f.Groups {
		all = append(all, f.Groups[i].Times...)
	}
	if len(f.Groups) > 1 {
		slices.Sort(all)
		all = slices.Compact(all)
	}
	return all
}

// distinctTimes reports whether no two groups have the same instant.
func (f Frame) distinctTimes() bool {
	if len(f.Groups) == 1 {
		return true
	}
	seen := make(map[int64]struct{}, f.Rows())
	for i := range f.Groups {
		for _, t := range f.Groups[i].Times {
			seen[t] = struct{}{}
		}
	}
	return len(seen) == f.Rows()
}

// Bounds returns the first and the last instant; ok is false for a frame without rows.
func (f Frame) Bounds() (from, to int64, ok bool) {
	from, to = math.MaxInt64, math.MinInt64
	for i := range f.Groups {
		if t := f.Groups[i].Times; len(t) > 0 {
			from, to = min(from, t[0]), max(to, t[len(t)-1])
		}
	}
	return from, to, from <= to
}
