package ru

// QueryWork is what one page of a query did in one physical partition.
type QueryWork struct {
	// Seeks counts the places of the index that the conditions of the query go to: one for each value or range that a
	// property is held against, one for a partition key, one for each property or array that must be there.
	Seeks int
	// Columns counts the columns of a row; 0 is whole items.
	Columns int
	// Docs counts the items that were loaded: the ones that the index could not rule out.
	Docs int
	// Scattered counts those of them that were not made right after the one loaded before, apart from one for each
	// seek.
	Scattered int
	// ExtraKB is the sum over the loaded items of max(0, size in KB - 1).
	ExtraKB float64
	// Counted reports that items were counted from the index: those loaded cost nothing then, but at the most.
	Counted bool
}

// Add counts one loaded item of that many bytes.
func (w *QueryWork) Add(bytes int) {
	w.Docs++
	w.ExtraKB += kilobytes(bytes) - 1
}

// The recorded parts of a query's charge, in RU.
const (
	page     = 2.245
	seek     = 0.5575
	row      = 0.011066
	column   = 0.001925
	wholeRow = 0.014358
	counting = 0.0875
)

// The parts that are assumed, in RU.
var (
	nextSeek  = assumed{0.1, 0.1, 0.2}
	scattered = assumed{0, 0.125, 0.14 - wholeRow}
	extraKB   = assumed{0.03, 0.04, 0.09}
	feedPage  = assumed{1, 1, page + wholeRow}
)

// Query returns the charge of one page of a query in one physical partition. Stepped and Sloped agree on it.
func (m Model) Query(w QueryWork) float64 {
	charge := page
	if w.Seeks > 0 || w.Counted {
		charge += seek + nextSeek.of(m)*float64(max(0, w.Seeks-1))
	}
	if w.Counted {
		charge += counting
	}
	if w.Counted && m.end != most {
		return charge * factor(m.factors.Query)
	}
	perRow := wholeRow
	if w.Columns > 0 {
		perRow = row + column*float64(w.Columns)
	}
	charge += perRow*float64(w.Docs) + scattered.of(m)*float64(w.Scattered) + extraKB.of(m)*w.ExtraKB
	return charge * factor(m.factors.Query)
}

// Feed returns the charge of one page of the change feed of a physical partition. Its first item costs nothing more.
func (m Model) Feed(w QueryWork) float64 {
	return (feedPage.of(m) + wholeRow*float64(max(0, w.Docs-1)) + extraKB.of(m)*w.ExtraKB) * factor(m.factors.Query)
}
