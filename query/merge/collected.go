package merge

import (
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
