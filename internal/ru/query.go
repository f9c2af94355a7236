package ru

// QueryWork is what one page of a query did in one physical partition.
type QueryWork struct {
	// Seeks counts the places of the index that the conditions of the query go to: one for each value or range that a
	// property is held against, one for a partition key, one for each property or array that must be there.
	Seeks int
	// Columns counts the columns of a row; 0 stands for whole items.
	Columns int
	// Docs counts the items that were loaded: those that the index could not rule out.
	Docs int
	// Scattered counts those of them that were not made right after the one loaded before, beyond one for each seek.
	Scattered int
	// ExtraKB is the sum over the loaded items of max(0, size in KB - 1).
	ExtraKB float64
	// Counted reports that items were counted from the index.
	Counted bool
}

// Add counts one loaded item of that many bytes.
func (w *QueryWork) Add(bytes int) {
	w.Docs++
	w.ExtraKB += kilobytes(bytes) - 1
}

// The parts of a query's charge, in RU. All but scattered and extraKB are recorded.
const (
	page      = 2.245
	seek      = 0.5575
	nextSeek  = 0.1
	row       = 0.011066
	column    = 0.001925
	wholeRow  = 0.014358
	counting  = 0.0875
	scattered = 0.125
	extraKB   = 0.04
	feedPage  = 1
)

// Query returns the charge of one page of a query in one physical partition. Both models agree on it.
func (m Model) Query(w QueryWork) float64 {
	charge := page
	if w.Seeks > 0 || w.Counted {
		charge += seek + nextSeek*float64(max(0, w.Seeks-1))
	}
	if w.Counted {
		charge += counting
	}
	perRow := wholeRow
	if w.Columns > 0 {
		perRow = row + column*float64(w.Columns)
	}
	charge += perRow*float64(w.Docs) + scattered*float64(w.Scattered) + extraKB*w.ExtraKB
	return charge * factor(m.factors.Query)
}

// Feed returns the charge of one page of the change feed of a physical partition. Its first item costs nothing more.
func (m Model) Feed(w QueryWork) float64 {
	return (feedPage + wholeRow*float64(max(0, w.Docs-1)) + extraKB*w.ExtraKB) * factor(m.factors.Query)
}
