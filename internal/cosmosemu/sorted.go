package cosmosemu

import (
	"bytes"
	"slices"

	"binnacle/internal/cosmosemu/sql"
	"binnacle/internal/ru"
)

// candidate is an item noted for its place in an order.
type candidate struct {
	value sql.Value
	name  []byte // key without prefix: it decides between equal values
	head  []byte // encoded header
}

// sorter keeps the first candidates of an order that come after a given one. Its memory is bounded by
// how many are wanted, not by how many there are.
type sorter struct {
	descending bool
	after      *candidate // nil: from the first on
	want       int
	kept       []candidate
	seen       int // candidates after the given one
}

func (s *sorter) compare(a, b candidate) int {
	c := sql.Compare(a.value, b.value)
	if s.descending {
		c = -c
	}
	if c != 0 {
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
	c.value, c.name, c.head = c.value.Clone(), bytes.Clone(c.name), bytes.Clone(c.head)
	s.kept = append(s.kept, c)
	if len(s.kept) >= 2*s.want+16 {
		s.trim()
	}
}

func (s *sorter) trim() {
	slices.SortFunc(s.kept, s.compare)
	s.kept = s.kept[:min(len(s.kept), s.want)]
}

// sorted gives rows in the order of a property. All matching items are noted, and those of the page
// are loaded.
func (p *page) sorted(explicit bool) error {
	order := p.bound.Query().Order[0]
	skip, take := p.bound.Window()
	skip = max(0, skip-p.cursor.Rows)
	rows := p.limit
	if take >= 0 {
		first, _ := p.bound.Window()
		rows = min(rows, max(0, first+take-p.cursor.Rows-skip))
	}
	s := &sorter{descending: order.Descending, want: skip + rows}
	if len(p.cursor.At) > 0 {
		v, err := p.cursor.value()
		if err != nil {
			return err
		}
		s.after = &candidate{value: v, name: p.cursor.At}
	}
	p.scan.sorting = true
	return p.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		_, err := p.scan.leg(l, work, func() (step, error) {
			v := p.scan.row.Value(order.Path)
			if (v.Kind() != sql.Undefined || explicit) && p.bound.Defined(p.scan.row) {
				s.add(candidate{v, p.scan.name, p.scan.head})
			}
			return goOn, p.scan.row.err
		})
		if err != nil {
			return false, err
		}
		s.trim()
		return true, p.give(s, skip, rows, take, work)
	})
}

// give loads the rows of the page. rows is how many fit, skip how many are passed over first.
func (p *page) give(s *sorter, skip, rows, take int, work *ru.QueryWork) error {
	r := p.scan.row
	defer r.close()
	given := 0
	for i, c := range s.kept {
		if i >= skip {
			r.reset(append(appendPrefix(nil, spaceHeader, p.scan.container.number), c.name...), c.head)
			row, err := p.render(r)
			if err != nil {
				return err
			}
			if !p.add(row) {
				break
			}
			if len(p.scan.residual) == 0 {
				work.Add(int(r.head.size))
			}
		}
		given = i + 1
		p.cursor.Rows++
		p.cursor.At, p.cursor.Sorted = c.name, nil
		if c.value.Kind() != sql.Undefined {
			p.cursor.Sorted = c.value.Append(nil)
		}
	}
	exhausted := take >= 0 && given == skip+rows && rows < p.limit
	p.more = given > 0 && given < s.seen && !exhausted
	return nil
}
