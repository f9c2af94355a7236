package bins

import (
	"binnacle/binning"
	"binnacle/binning/chunk"
	"errors"
	"fmt"
)

// ErrUnstorable is of rows of one record that make no document, though they were taken.
var ErrUnstorable = errors.New("the readings make no document")

// Fit finds how much of the bin makes a document near the target, never more than the maximum unless one record alone
// is larger, and encodes it. It fails with errUnstorable when the first record makes none: then rows are that record's.
// Feed refuses such records, but an earlier release may have taken one. Else it fails when a shelf has lost rows.
func (b *Bins) Fit(c *Chain, h chunk.Header) (rows, rest binning.Bin, doc []byte, err error) {
	sizer := &c.Device.Sizer
	take := sizer.ReadingsFor(c.Bin.Readings(), c.Bin.Values(), c.Bin.Width())
	if c.Seal != Unsealed {
		below, err := c.Bin.ReadingsThrough(c.Seal)
		if err != nil {
			return rows, rest, nil, err
		}
		take = min(take, below)
	}
	for {
		rows, rest = c.Bin, binning.Bin{}
		if take < c.Bin.Readings() {
			if rows, rest, err = c.Bin.SplitAt(take, b.Names.Schemas); err != nil {
				return rows, rest, nil, err
			}
		}
		frame, err := rows.Frame(binning.Selection{Above: -1, Below: rows.Through() + 1, Span: binning.All})
		if err != nil {
			return rows, rest, nil, err
		}
		h.First, h.Through, h.Readings = rows.First(), rows.Through(), rows.Readings()
		doc, overhead, err := encode(h, frame)
		alone := rows.First() == rows.Through()
		switch {
		case err != nil && alone:
			return rows, rest, nil, fmt.Errorf("%w: %w", ErrUnstorable, err)
		case err != nil:
			take = rows.Readings() / 2
			continue
		}
		width := rows.Width()
		b.mu.Lock()
		sizer.Observe(binning.Measured{Values: rows.Values(), Columns: width, Bytes: len(doc), Overhead: overhead})
		b.mu.Unlock()
		if len(doc) <= sizer.Max(width) || alone {
			return rows, rest, doc, nil
		}
		take = min(rows.Readings()-1, sizer.ReadingsFor(rows.Readings(), rows.Values(), width))
	}
}

// encode returns the document of a frame, and how many bytes of it do not depend on the number of rows.
func encode(h chunk.Header, f chunk.Frame) (doc []byte, overhead int, err error) {
	if doc, err = chunk.Encode(h, f); err == nil {
		overhead, err = chunk.Overhead(doc)
	}
	return doc, overhead, err
}
