package engine

import (
	"bytes"
	"math"
	"slices"

	"binnacle/internal/cosmosemu/sql"
	"binnacle/internal/ru"
)

// candidate is an item noted for its place in an order.
type candidate struct {
	values []sql.Value // of the ORDER BY properties
	name   []byte      // key without prefix: it decides between equal values
	head   []byte      // encoded header
}

// sorter keeps the first candidates of an order that come after a given one. Its memory is bounded by
// how many are wanted, not by how many there are.
type sorter struct {
	query *sql.Query
	after *candidate // nil: from the first on
	want  int
	kept  []candidate
	seen  int // candidates after the given one
}

func (s *sorter) compare(a, b candidate) int {
	if c := s.query.CompareOrder(a.values, b.values); c != 0 {
		return c
	}
	return bytes.Compare(a.name, b.name)
}

// add notes a candidate; what it refers to is copied only if it is kept.
func (s *sorter) add(c candidate) {
	if s.after != nil && s.compare(c, *s.after) <= 0 {
		return
	}
	s.seen++
	c.values, c.name, c.head = slices.Clone(c.values), bytes.Clone(c.name), bytes.Clone(c.head)
	for i, v := range c.values {
		c.values[i] = v.Clone()
	}
	s.kept = append(s.kept, c)
	if len(s.kept) >= 2*s.want+16 {
		s.trim()
	}
}

func (s *sorter) trim() {
	slices.SortFunc(s.kept, s.compare)
	s.kept = s.kept[:min(len(s.kept), s.want)]
}

// sorted adds rows in the order of properties. It notes all matching items, and loads those of the page. keepUndefined
// includes items without the property.
func (a *answer) sorted(keepUndefined bool) error {
	q := a.bound.Query()
	skip, take := a.bound.Window()
	skip = max(0, skip-a.cursor.Rows)
	rows := a.limit
	if take >= 0 {
		first, _ := a.bound.Window()
		rows = min(rows, max(0, first+take-a.cursor.Rows-skip))
	}
	s := &sorter{query: q, want: skip + rows}
	if len(a.cursor.At) > 0 {
		values, err := a.cursor.values(len(q.Order))
		if err != nil {
			return err
		}
		s.after = &candidate{values: values, name: a.cursor.At}
	}
	a.scan.sorting = true
	values := make([]sql.Value, len(q.Order))
	return a.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		_, err := a.scan.leg(l, func() (step, error) {
			for i, o := range q.Order {
				values[i] = a.scan.row.Value(o.Path)
			}
			if (values[0].Kind() != sql.Undefined || keepUndefined) && a.bound.Defined(a.scan.row) {
				s.add(candidate{values, a.scan.name, a.scan.head})
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
func (a *answer) give(s *sorter, skip, rows, take int) error {
	r := a.scan.row
	defer r.close()
	given := 0
	for i, c := range s.kept {
		if i >= skip {
			r.reset(append(appendPrefix(nil, spaceHeader, a.scan.container.number), c.name...), c.head)
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
		a.cursor.At = c.name
		a.cursor.sortedAt(c.values)
	}
	exhausted := take >= 0 && given == skip+rows && rows < a.limit
	a.more = given > 0 && given < s.seen && !exhausted
	return nil
}
