package merge

import (
	"cmp"
	"maps"
	"slices"

	"binnacle/query/read/piece"
)

// unordered is the part of a piece.Sink that requests without order do not need.
type unordered struct{}

// Passed implements piece.Sink.
func (unordered) Passed(int64) error { return nil }

// collected is the pieces of a request without order, encoded, by device. It is a piece.Sink.
type collected struct {
	unordered
	devices map[string][]*piece.Piece
}

// Add implements piece.Sink.
func (c *collected) Add(p *piece.Piece) error {
	c.add(p.Device, p)
	return nil
}

// add adds pieces of a device, or none.
func (c *collected) add(device string, pieces ...*piece.Piece) {
	if c.devices == nil {
		c.devices = make(map[string][]*piece.Piece)
	}
	c.devices[device] = append(c.devices[device], pieces...)
}

// each calls visit with each device and its pieces, in order, and drops them. An error of visit ends it.
func (c *collected) each(visit func(device string, pieces []*piece.Piece) error) error {
	for _, device := range slices.Sorted(maps.Keys(c.devices)) {
		if err := visit(device, c.devices[device]); err != nil {
			return err
		}
		delete(c.devices, device)
	}
	return nil
}

// overlapping sorts the pieces of a device by time, and calls visit for each run of overlapping pieces, which may be a
// single one. An error of visit ends it.
func overlapping(pieces []*piece.Piece, visit func(some []*piece.Piece) error) error {
	slices.SortFunc(pieces, func(a, b *piece.Piece) int { return cmp.Compare(a.From, b.From) })
	for i := 0; i < len(pieces); {
		j, end := i+1, pieces[i].To
		for j < len(pieces) && pieces[j].From <= end {
			end = max(end, pieces[j].To)
			j++
		}
		if err := visit(pieces[i:j]); err != nil {
			return err
		}
		i = j
	}
	return nil
}
