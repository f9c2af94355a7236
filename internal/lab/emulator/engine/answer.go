package engine

import (
	"bytes"
	"cmp"
	"math"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/schema"
	"binnacle/internal/lab/emulator/sql"
)

// maxPageBytes is the most that one answer to a batch or a page of the change feed holds, unless a
// single row is larger (Azure Cosmos DB docs, concepts-limits).
const maxPageBytes = 4 << 20

// answer is one page of a query's answer being made.
type answer struct {
	scan   *scan
	bound  *sql.Bound
	legs   []leg
	limit  int // rows of a page
	most   int // bytes of a page, unless a single row is larger
	cursor cursor
	call   Call
	model  ru.Model
	// seeks counts the seeks for the partition key of the request.
	seeks int

	// before lists the ranges that earlier pages have passed.
	before []resumption

	// loaded and loadedBytes count the loaded items and their bytes.
	loaded, loadedBytes int

	rows   []byte // JSON, separated by commas
	count  int
	charge float64
	more   bool // there may be rows after this page; cursor says where
}

// run makes the page in the way that the query asks for.
func (a *answer) run(def *schema.Definition, single bool) error {
	q := a.bound.Query()
	if q.Scalar {
		return a.scalar()
	}
	keepUndefined, err := def.Policy.Order(q)
	switch {
	case err != nil:
		return err
	case q.Collected():
		return a.collected(keepUndefined)
	case len(q.Order) == 0:
		return a.made()
	}
	path := q.Paths()[q.Order[0].Path]
	if single && len(q.Order) == 1 && path.Whole() && path.Key() == "/id" {
		a.scan.reverse = q.Order[0].Descending
		return a.byID()
	}
	return a.sorted(keepUndefined)
}

// scalar returns the row of a query without FROM.
func (a *answer) scalar() error {
	a.legs = a.legs[:1]
	return a.visit(func(leg, *ru.QueryWork) (bool, error) {
		if row, ok := a.bound.Project(nil, nil); ok {
			a.add(row)
		}
		return true, a.bound.Err()
	})
}

func (a *answer) page() Page {
	p := Page{Rows: a.rows, Count: a.count, Charge: a.charge, Loaded: a.loaded, LoadedBytes: a.loadedBytes}
	if len(a.legs) == 1 {
		p.Range, p.LSN = a.legs[0].partition.ID, a.legs[0].partition.sequence.last.Load()
	}
	if a.more {
		a.cursor.Pages++
		p.Continuation = a.cursor.token()
	}
	return p
}

// visit runs f on the legs in turn. Each is admitted by the budget of its physical partition, and charged for the work
// done there. A partition without budget ends the page if others have been visited, and the page can go on there; else
// it ends the request.
func (a *answer) visit(f func(l leg, work *ru.QueryWork) (done bool, err error)) error {
	if len(a.legs) == 0 { // nothing can match: the least that a query costs
		a.charge = a.model.Query(a.work())
	}
	for i, l := range a.legs {
		if err := l.partition.admit(a.call); err != nil {
			if i == 0 {
				return err
			}
			a.more = true
			a.cursor.At = bytes.Clone(l.spans[0].low)
			a.cursor.Made, _ = a.passedIn(l.partition)
			a.endIn(l.partition)
			return nil
		}
		work := a.work()
		done, err := f(l, &work)
		charge := a.model.Query(work)
		a.charge += charge
		l.partition.charge(a.call, charge)
		if !done || err != nil {
			return err
		}
	}
	return nil
}

// work returns what a visit of a physical partition takes at least.
func (a *answer) work() ru.QueryWork {
	w := ru.QueryWork{Seeks: a.bound.Seeks(), Columns: a.bound.Query().Columns()}
	if !a.bound.Query().Scalar {
		w.Seeks += a.seeks
	}
	return w
}

// add appends a row. It reports false, and adds nothing, when the answer would grow too large.
func (a *answer) add(row []byte) bool {
	if a.count > 0 && len(a.rows)+len(row) > a.most {
		return false
	}
	if a.count > 0 {
		a.rows = append(a.rows, ',')
	}
	a.rows = append(a.rows, row...)
	a.count++
	return true
}

func (a *answer) render(r *row) ([]byte, error) {
	if a.bound.Query().Star {
		return r.whole()
	}
	out, _ := a.bound.Project(nil, r)
	return out, r.err
}

// collected returns the rows of a query that needs all matching items before the first row. Each page computes
// all rows again and skips the rows already given; the first page carries the charge, so that a query costs the
// same with pages of any size.
func (a *answer) collected(keepUndefined bool) error {
	all := a.bound.Collector(keepUndefined)
	err := a.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		done, err := a.scan.leg(l, func() (step, error) {
			err := all.Add(a.scan.row)
			return goOn, cmp.Or(a.scan.row.err, err)
		})
		work.Counted = a.bound.Query().Counts() && len(a.scan.residual) == 0
		if a.cursor.Rows > 0 {
			a.scan.loaded = nil
		}
		a.countLoaded(work, math.MaxUint64)
		return done, err
	})
	if err != nil {
		return err
	}
	rows := all.Rows()
	for _, row := range rows[min(a.cursor.Rows, len(rows)):] {
		if a.count >= a.limit || !a.add(row) {
			a.more = true
			a.cursor.At = []byte{0} // Rows alone says where to go on
			break
		}
		a.cursor.Rows++
	}
	return nil
}

// byID returns rows in the order of ids, or against it: queries within one logical partition that order by id.
func (a *answer) byID() error {
	if len(a.cursor.Sorted) > 0 { // a cursor over a range of keys names the last item given
		a.cursor.Sorted = nil
		if !a.scan.reverse {
			a.cursor.At = append(a.cursor.At, 0)
		}
	}
	a.resume()
	return a.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		done, err := a.scan.leg(l, func() (step, error) { return a.row(a.pass) })
		a.countLoaded(work, math.MaxUint64)
		return done, err
	})
}

// row adds the row of the scan's current item, unless the item has no row or its row precedes the wanted ones.
// Once the item has been passed, row calls pass with the number of the item's rows.
func (a *answer) row(pass func(rows int)) (step, error) {
	skip, take := a.bound.Window()
	switch {
	case !a.bound.Defined(a.scan.row):
		pass(0)
		return goOn, a.scan.row.err
	case a.cursor.Rows < skip:
		pass(1)
		return goOn, nil
	case take >= 0 && a.cursor.Rows >= skip+take:
		return stopBefore, nil
	case a.count >= a.limit:
		a.more = true
		return stopBefore, nil
	}
	row, err := a.render(a.scan.row)
	switch {
	case err != nil:
		return stopBefore, err
	case !a.add(row):
		a.more = true
		return stopBefore, nil
	}
	pass(1)
	if take >= 0 && a.cursor.Rows >= skip+take {
		return stopAfter, nil
	}
	return goOn, nil
}

// pass moves the cursor past the item that the scan is at, which was that many rows.
func (a *answer) pass(rows int) {
	a.cursor.At = append(a.cursor.At[:0], a.scan.item.Key()[prefixLen:]...)
	if !a.scan.reverse {
		a.cursor.At = append(a.cursor.At, 0)
	}
	a.cursor.Rows += rows
}

// resume leaves out what earlier pages have passed.
func (a *answer) resume() {
	if len(a.cursor.At) == 0 {
		return
	}
	rest := span{low: bytes.Clone(a.cursor.At)}
	if a.scan.reverse {
		rest = span{high: bytes.Clone(a.cursor.At)}
	}
	var legs []leg
	for _, l := range a.legs {
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
	a.legs = legs
}

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
