package chunk

import (
	"fmt"
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
}

// Rows returns the number of readings.
func (r *Run) Rows() int { return len(r.Times) }

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
	if err := r.checkRows(0); err != nil {
		return err
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

// checkRows holds offsets, instants and label sets to their order and their bounds, of the rows from one on.
func (r *Run) checkRows(from int) error {
	for i := from; i < len(r.Times); i++ {
		at := r.Times[i]
		if at < 0 || at >= telemetry.MaxMillis {
			return fmt.Errorf("time %d", at)
		}
		if r.Offsets != nil {
			if o := r.Offsets[i]; o < 0 || o > maxExact || i > 0 && o < r.Offsets[i-1] {
				return fmt.Errorf("offset %d in row %d", o, i)
			}
		}
		if r.Labels != nil && r.Labels[i] >= uint32(len(r.Sets)) {
			return fmt.Errorf("label set %d of %d", r.Labels[i], len(r.Sets))
		}
	}
	for _, set := range r.Sets {
		for i, l := range set {
			if !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) || (i > 0 && set[i-1].Name >= l.Name) {
				return fmt.Errorf("label %q is not in order or not UTF-8", l.Name)
			}
		}
	}
	return nil
}
