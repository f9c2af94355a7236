package chunk

// AppendBlock appends schema and rows of a run in one.
func AppendBlock(dst []byte, r *Run) ([]byte, error) {
	rows, err := AppendRows(nil, r)
	return AppendSplit(dst, AppendSchema(nil, r), rows), err
}
