package cosmosemu

import (
	"bytes"
	"time"

	"binnacle/internal/cosmosemu/sql"
	"binnacle/internal/ru"
)

// maxPageBytes is the most that one answer to a batch or a page of the change feed holds, unless a
// single row is larger (Azure Cosmos DB docs, concepts-limits).
const maxPageBytes = 4 << 20

// Page sizes in rows: for clients that do not say, and for those that leave it to the server (-1).
const (
	defaultPageRows = 100
	dynamicPageRows = 1000
)

// page is one page of a query's answer being made.
type page struct {
	scan   *scan
	bound  *sql.Bound
	legs   []leg
	limit  int // rows of a page
	most   int // bytes of a page, unless a single row is larger
	cursor cursor
	now    time.Time
	model  ru.Model

	rows   []byte // JSON, separated by commas
	count  int
	charge float64
	more   bool // there may be rows after this page; cursor says where
}

// visit runs f on the legs in turn. Each is admitted, for the least that a visit costs, by the budget of
// its physical partition and charged for the work done there. A partition without budget ends the page
// if others have been visited, and the page can go on there; else it ends the request.
func (p *page) visit(f func(l leg, work *ru.QueryWork) (done bool, err error)) error {
	if len(p.legs) == 0 { // nothing can match: the least that a query costs
		p.charge = p.model.Query(ru.QueryWork{})
	}
	for i, l := range p.legs {
		if err := l.partition.admitFor(p.now, p.model.Query(ru.QueryWork{})); err != nil {
			if i == 0 {
				return err
			}
			p.more = true
			p.cursor.At = bytes.Clone(l.spans[0].low)
			return nil
		}
		work := ru.QueryWork{Filtered: p.bound.Query().Filtered}
		done, err := f(l, &work)
		charge := p.model.Query(work)
		p.charge += charge
		l.partition.charge(p.now, charge)
		if !done || err != nil {
			return err
		}
	}
	return nil
}

// add appends a row. It reports false, and adds nothing, when the answer would grow too large.
func (p *page) add(row []byte) bool {
	if p.count > 0 && len(p.rows)+len(row) > p.most {
		return false
	}
	if p.count > 0 {
		p.rows = append(p.rows, ',')
	}
	p.rows = append(p.rows, row...)
	p.count++
	return true
}

// render gives the result row of an item that has one.
func (p *page) render(r *row) ([]byte, error) {
	if p.bound.Query().Star {
		return r.body()
	}
	out, _ := p.bound.Project(nil, r)
	return out, r.err
}

// collected gives the rows of a query that needs all matching items before the first row. They are
// made anew for each page, which goes on after as many rows as were given; the work is charged with the
// first page, so that a query costs the same with pages of any size.
func (p *page) collected(keepUndefined bool) error {
	all := p.bound.Collector(keepUndefined)
	err := p.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		done, err := p.scan.leg(l, work, func() (step, error) {
			err := all.Add(p.scan.row)
			return goOn, firstError(p.scan.row.err, err)
		})
		if p.cursor.Rows > 0 {
			work.Docs, work.ExtraKB = 0, 0
		}
		return done, err
	})
	if err != nil {
		return err
	}
	rows := all.Rows()
	for _, row := range rows[min(p.cursor.Rows, len(rows)):] {
		if p.count >= p.limit || !p.add(row) {
			p.more = true
			p.cursor.At = []byte{0} // Rows alone says where to go on
			break
		}
		p.cursor.Rows++
	}
	return nil
}

// stream gives rows in key order, or against it: queries without ORDER BY, and those within one
// logical partition that order by id. A full page without an order says that there may be more, as
// the service does; one with an order looks whether there is.
func (p *page) stream(ordered bool) error {
	p.resume()
	return p.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		return p.scan.leg(l, work, func() (step, error) {
			if p.bound.Query().Iterates() {
				return p.iterated()
			}
			return p.streamed(ordered)
		})
	})
}

// iterated gives the rows of an item that may have several. A page may end between two of them.
func (p *page) iterated() (step, error) {
	skip, take := p.bound.Window()
	from := 0
	if bytes.Equal(p.cursor.At, p.scan.name) {
		from = p.cursor.Inside
	}
	p.cursor.Inside = 0
	next, at := goOn, 0
	p.bound.Each(p.scan.row, func(row []byte) bool {
		if at++; at <= from {
			return true
		}
		switch {
		case p.cursor.Rows < skip:
		case take >= 0 && p.cursor.Rows >= skip+take:
			next = stopBefore
			return false
		case p.count >= p.limit || !p.add(row):
			p.more = true
			p.cursor.At, p.cursor.Inside = append(p.cursor.At[:0], p.scan.name...), at-1
			next = stopAfter
			if at == 1 {
				next = stopBefore
			}
			return false
		}
		p.cursor.Rows++
		return true
	})
	if next == goOn {
		p.pass(0)
	}
	return next, p.scan.row.err
}

func (p *page) streamed(ordered bool) (step, error) {
	skip, take := p.bound.Window()
	switch {
	case !p.bound.Defined(p.scan.row):
		p.pass(0)
		return goOn, p.scan.row.err
	case p.cursor.Rows < skip:
		p.pass(1)
		return goOn, nil
	case take >= 0 && p.cursor.Rows >= skip+take:
		return stopBefore, nil
	case p.count >= p.limit:
		p.more = true
		return stopBefore, nil
	}
	row, err := p.render(p.scan.row)
	switch {
	case err != nil:
		return stopBefore, err
	case !p.add(row):
		p.more = true
		return stopBefore, nil
	}
	p.pass(1)
	if take >= 0 && p.cursor.Rows >= skip+take {
		return stopAfter, nil
	}
	if p.count >= p.limit && !ordered {
		p.more = true
		return stopAfter, nil
	}
	return goOn, nil
}

// pass moves the cursor past the item that the scan is at, which was that many rows.
func (p *page) pass(rows int) {
	p.cursor.At = append(p.cursor.At[:0], p.scan.name...)
	if !p.scan.reverse {
		p.cursor.At = append(p.cursor.At, 0)
	}
	p.cursor.Rows += rows
}

// resume leaves out what earlier pages have passed.
func (p *page) resume() {
	if len(p.cursor.At) == 0 {
		return
	}
	rest := span{low: bytes.Clone(p.cursor.At)}
	if p.scan.reverse {
		rest = span{high: bytes.Clone(p.cursor.At)}
	}
	var legs []leg
	for _, l := range p.legs {
		kept := leg{partition: l.partition}
		for _, s := range l.spans {
			if both := s.intersect(rest); !both.empty() {
				kept.spans = append(kept.spans, both)
			}
		}
		if len(kept.spans) > 0 {
			legs = append(legs, kept)
		}
	}
	p.legs = legs
}
