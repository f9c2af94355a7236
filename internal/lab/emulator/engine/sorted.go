package engine

import (
	"bytes"
	"cmp"
	"math"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/sql"
)

// sorted adds rows in the order of properties. It notes all matching items, and loads the page's items.
// keepUndefined includes items without the property.
func (a *answer) sorted(keepUndefined bool) error {
	q := a.bound.Query()
	skip, take := a.bound.Window()
	skip = max(0, skip-a.cursor.Rows)
	rows := a.limit
	if take >= 0 {
		first, _ := a.bound.Window()
		rows = min(rows, max(0, first+take-a.cursor.Rows-skip))
	}
	s := &firsts{want: skip + rows, compare: func(x, y candidate) int {
		return cmp.Or(q.CompareOrder(x.values, y.values), bytes.Compare(x.name(), y.name())) // between equal values, the key
	}}
	var after *candidate // the last item of the page before
	if len(a.cursor.At) > 0 {
		values, err := a.cursor.values(len(q.Order))
		if err != nil {
			return err
		}
		after = &candidate{values: values, at: a.cursor.At}
	}
	a.scan.sorting = true
	values := make([]sql.Value, len(q.Order))
	return a.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		_, err := a.scan.leg(l, func() (step, error) {
			for i, o := range q.Order {
				values[i] = a.scan.row.Value(o.Path)
			}
			if (values[0].Kind() != sql.Undefined || keepUndefined) && a.bound.Defined(a.scan.row) {
				c := candidate{values: values, item: a.scan.item}
				if after == nil || s.compare(c, *after) > 0 {
					s.add(c)
				}
			}
			return goOn, a.scan.row.err
		})
		if err != nil {
			return false, err
		}
		s.trim()
		err = a.give(s, skip, rows, take)
		a.countLoaded(work, math.MaxUint64)
		if len(a.scan.residual) == 0 {
			work.Scattered = max(0, work.Docs-1)
		}
		return true, err
	})
}

// give loads the rows of the page. rows is how many fit, skip how many are passed over first.
func (a *answer) give(s *firsts, skip, rows, take int) error {
	r := a.scan.row
	given := 0
	for i, c := range s.kept {
		if i >= skip {
			r.reset(c.item)
			row, err := a.render(r)
			if err != nil {
				return err
			}
			if !a.add(row) {
				break
			}
			if len(a.scan.residual) == 0 {
				a.scan.load()
			}
		}
		given = i + 1
		a.cursor.Rows++
		a.cursor.At = c.name()
		a.cursor.sortedAt(c.values)
	}
	exhausted := take >= 0 && given == skip+rows && rows < a.limit
	a.more = given > 0 && given < s.seen && !exhausted
	return nil
}
