package catalog

import (
	"fmt"

	"binnacle/internal/wire/bytesread"
)

// Columns is what is packed of entries.
func Columns(entries []Entry) []byte {
	var w columnWriter
	w.entries(entries)
	return w.out
}

// FromColumns is what so many entries say.
func FromColumns(columns []byte, devices int) ([]Entry, error) {
	if devices < 0 || devices > MaxDevices {
		return nil, ErrCorrupt
	}
	r := columnReader{bytesread.Reader{Rest: columns}}
	out := r.entries(devices)
	if r.Err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, r.Err)
	}
	return out, nil
}
