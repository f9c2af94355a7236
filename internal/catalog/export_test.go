package catalog

import (
	"fmt"
	"slices"

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
	r := columnReader{bytesread.Reader{Rest: columns}, devices}
	out := r.entries()
	if r.Err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, r.Err)
	}
	return out, nil
}

// Merge adds what another entry says of the same device, as a plain model of an index.
func (e *Entry) Merge(o Entry) {
	e.Span(o.First, o.Last)
	e.Metrics = union(e.Metrics, o.Metrics, Metric.Compare)
	e.Labels = limitLabelValues(union(e.Labels, o.Labels, CompareLabels))
	e.Tags = slices.Clone(e.Tags) // the list may belong to another entry
	for _, t := range o.Tags {
		if i, found := slices.BinarySearchFunc(e.Tags, t, compareTags); !found {
			e.Tags = slices.Insert(e.Tags, i, t)
		} else if t.supersedes(e.Tags[i]) {
			e.Tags[i] = t
		}
	}
}
