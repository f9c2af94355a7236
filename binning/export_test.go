package binning

// Values returns how many values the readings have.
func (r *Rows) Values() int { return len(r.cells) }

// After returns the rows of records above an offset (rule W4). It takes the place of r, which must not be appended to
// any more.
func (r *Rows) After(offset int64) Rows {
	return r.from(r.RowsThrough(offset))
}

// Records returns how many records the readings came from.
func (r *Rows) Records() int {
	n := 0
	for i := range r.rows {
		if i == 0 || r.rows[i].offset != r.rows[i-1].offset {
			n++
		}
	}
	return n
}
