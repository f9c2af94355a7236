package rollups

import "binnacle/binning/rollup"

// Kept is of how many rows resets are kept that have so many each.
func Kept(falls ...int) (rows int) {
	f := metricTable{table: rollup.NewTable(len(falls), 1, rollup.AllFamilies)}
	for row, n := range falls {
		f.table.Resets[row] = []rollup.Reset{{Values: make([]float64, n)}}
		f.countResets(row)
	}
	for _, of := range f.table.Resets {
		if of != nil {
			rows++
		}
	}
	return rows
}
