package engine

import (
	"cmp"
	"context"
	"slices"

	"binnacle/internal/lab/emulator/index"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/sql"
)

// scan walks the items of a container that match a query, one physical partition after the other.
type scan struct {
	ctx       context.Context
	container *Container
	snapshot  *kv.View
	revision  *revision
	bound     *sql.Bound
	second    int64 // the time that decides what has expired
	reverse   bool
	sorting   bool // matching items are not loaded, but only noted for their order
	anyOrder  bool // the visitor puts the items in their order

	// bounds lists the conditions that the index can answer: comparisons of a property and a number.
	bounds   []bound
	served   []sql.Condition // the others
	residual []sql.Condition // the others: the item is loaded to test them
	row      *row
	loaded   []loaded
	after    uint64    // only what was made after it is wanted
	item     *kv.Entry // the item that the scan is at
}

// newScan divides the conditions by what the indexing policy covers. A condition on the partition key
// of a query within one logical partition costs nothing whether indexed or not: routing answers it.
func newScan(
	ctx context.Context, co *Container, rev *revision, b *sql.Bound, snapshot *kv.View, second int64, single bool,
) *scan {
	s := &scan{ctx: ctx, container: co, snapshot: snapshot, revision: rev, bound: b, second: second}
	paths := b.Query().Paths()
	roles := keyRoles(rev.Definition, paths)
	indexed := func(path int) bool {
		return single && roles[path] >= 0 || rev.Policy.Indexed(index.Steps(paths[path]))
	}
	for _, c := range b.Conditions() {
		simple, ok := c.Comparison()
		switch {
		case !conditionServed(c, indexed, rev.Policy):
			s.residual = append(s.residual, c)
		case ok && simple.Value.Kind() == sql.Number:
			s.bounds = append(s.bounds, bound{c, simple.Path, simple.Op, simple.Value.Float()})
		default:
			s.served = append(s.served, c)
		}
	}
	s.row = newRow(rev, paths)
	slices.SortStableFunc(s.bounds, func(a, b bound) int { return s.row.cost(a.path) - s.row.cost(b.path) })
	return s
}

// bound is a condition that compares a property and a number: most items fail one of them, which shows without reading
// the rest of the item.
type bound struct {
	sql.Condition
	path  int
	op    sql.Op
	value float64
}

func (b *bound) holds(r *row) bool {
	v, ok := r.number(b.path)
	if !ok {
		return b.True(r)
	}
	switch b.op {
	case sql.Less:
		return v < b.value
	case sql.LessEqual:
		return v <= b.value
	case sql.Greater:
		return v > b.value
	case sql.GreaterEqual:
		return v >= b.value
	default:
		return v == b.value
	}
}

// conditionServed reports whether the index answers a condition, so that no item is loaded to test it.
func conditionServed(c sql.Condition, indexed func(path int) bool, p *index.Policy) bool {
	served := c.Servable
	for _, path := range c.Paths {
		served = served && indexed(path)
	}
	for _, path := range c.Elements {
		served = served && p.Indexed(index.Steps(path))
	}
	return served
}

// checkEvery is how many items are passed between two looks at the context.
const checkEvery = 256

// step is what a visitor says of the item it is shown.
type step int

const (
	goOn       step = iota
	stopAfter       // this item was the last
	stopBefore      // this item is not wanted any more, and not counted as loaded
)

// leg visits the matching items of one leg in key order, or backwards, and notes what the service
// would load. It reports whether the leg was walked to its end.
func (s *scan) leg(l leg, visit func() (step, error)) (bool, error) {
	if recent, few := s.recent(l.partition); few {
		for _, item := range recent {
			e := s.snapshot.Get(append(appendPrefix(nil, spaceItem, s.container.number), item...))
			if e == nil || !slices.ContainsFunc(l.spans, func(sp span) bool { return sp.holds(item) }) {
				continue
			}
			if step, err := s.test(e, visit); step != goOn || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	for i := range l.spans {
		if s.reverse {
			i = len(l.spans) - 1 - i
		}
		done, err := s.span(l.spans[i], visit)
		if !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// recent returns the keys of all items of a partition that can match by their _ts, if these are few and in any order.
func (s *scan) recent(p *partition) (items [][]byte, few bool) {
	for _, b := range s.bounds {
		if s.anyOrder && s.row.places[b.path] == placeTimestamp && (b.op == sql.Greater || b.op == sql.GreaterEqual) {
			return p.recent(s.snapshot, int64(b.value))
		}
	}
	return nil, false
}

func (s *scan) span(sp span, visit func() (step, error)) (bool, error) {
	walk := s.snapshot.Ascend
	if s.reverse {
		walk = s.snapshot.Descend
	}
	n := 0
	for e := range walk(s.container.bounds(sp)) {
		if n++; n%checkEvery == 0 && s.ctx.Err() != nil {
			return false, s.ctx.Err()
		}
		step, err := s.test(e, visit)
		if step != goOn || err != nil {
			return false, err
		}
	}
	return true, nil
}

// test tests an item, and visits it when it matches.
func (s *scan) test(e *kv.Entry, visit func() (step, error)) (step, error) {
	r := s.row
	r.reset(e)
	if r.err != nil {
		return stopBefore, r.err
	}
	if s.second >= r.head.expiry(s.revision.TTL) || r.head.created <= s.after && s.after > 0 || !s.within() ||
		!all(s.served, r) {
		return goOn, cmp.Or(r.err, s.bound.Err())
	}
	if len(s.residual) > 0 {
		s.load() // to be tested
		if !all(s.residual, r) {
			return goOn, cmp.Or(r.err, s.bound.Err())
		}
	}
	s.item = e
	next, err := visit()
	if len(s.residual) == 0 && next != stopBefore && !s.sorting {
		s.load()
	}
	return next, cmp.Or(cmp.Or(err, r.err), s.bound.Err())
}

func (s *scan) load() {
	s.loaded = append(s.loaded, loaded{s.row.head.created, int(s.row.head.size)})
}

func (s *scan) within() bool {
	for i := range s.bounds {
		if !s.bounds[i].holds(s.row) {
			return false
		}
	}
	return true
}

func all(conditions []sql.Condition, r *row) bool {
	for _, c := range conditions {
		if !c.True(r) {
			return false
		}
	}
	return true
}

// firsts keeps the first of what is added, by an order. Its memory is bounded by how many are wanted, not by how many
// there are.
type firsts struct {
	want    int
	compare func(a, b candidate) int
	kept    []candidate
	seen    int
}

// candidate is an item noted for its place in an order.
type candidate struct {
	// values holds the ORDER BY properties of the item.
	values []sql.Value
	made   uint64
	item   *kv.Entry
	// at is the result of name for a candidate without an item.
	at []byte
}

// name returns the key of the item, without the prefix.
func (c *candidate) name() []byte {
	if c.item == nil {
		return c.at
	}
	return c.item.Key()[prefixLen:]
}

// add notes a candidate. It copies its values.
func (f *firsts) add(c candidate) {
	f.seen++
	c.values = slices.Clone(c.values)
	for i, v := range c.values {
		c.values[i] = v.Clone()
	}
	f.kept = append(f.kept, c)
	if len(f.kept) >= 2*f.want+16 {
		f.trim()
	}
}

func (f *firsts) trim() {
	slices.SortFunc(f.kept, f.compare)
	f.kept = f.kept[:min(len(f.kept), f.want)]
}
