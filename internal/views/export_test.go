package views

import "binnacle/binning/lane"

// Kept is of how many rows falls are kept that have so many each.
func Kept(falls ...int) (rows int) {
	f := filled{table: lane.NewTable(len(falls), 1, lane.AllFamilies)}
	for row, n := range falls {
		f.table.Falls[row] = []lane.Fall{{Values: make([]float64, n)}}
		f.weigh(row)
	}
	for _, of := range f.table.Falls {
		if of != nil {
			rows++
		}
	}
	return rows
}
