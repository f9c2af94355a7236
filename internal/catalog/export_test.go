package catalog

// Columns is what is packed of entries.
func Columns(entries []Entry) []byte {
	var w columnWriter
	w.entries(entries)
	return w.bytes()
}

// FromColumns is what so many entries say.
func FromColumns(columns []byte, devices int) ([]Entry, error) {
	if devices < 0 || devices > MaxDevices {
		return nil, ErrCorrupt
	}
	r := columnReader{text: string(columns)}
	out := r.entries(devices)
	return out, r.err
}

// Automaton looks for an expression in a text, if that can be told by an automaton.
func Automaton(expression, text string) (matches, certain bool) {
	a := newAutomaton(expression)
	if a == nil {
		return false, false
	}
	return a.match(text)
}
