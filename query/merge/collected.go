package merge

import (
	"maps"
	"slices"

	"binnacle/query/read"
)

// unordered is the part of a read.Sink that requests without order do not need.
type unordered struct{}

// Passed implements read.Sink.
func (unordered) Passed(int64) error { return nil }

// collected is the pieces of a request without order, encoded, by device. It is a read.Sink.
type collected struct {
	unordered
	devices map[string][]*read.Piece
}

// Add implements read.Sink.
func (c *collected) Add(p *read.Piece) error {
	if c.devices == nil {
		c.devices = make(map[string][]*read.Piece)
	}
	c.devices[p.Device] = append(c.devices[p.Device], p)
	return nil
}

// each calls visit with each device and its pieces, in order, and drops them. An error of visit ends it.
func (c *collected) each(visit func(device string, pieces []*read.Piece) error) error {
	for _, device := range slices.Sorted(maps.Keys(c.devices)) {
		if err := visit(device, c.devices[device]); err != nil {
			return err
		}
		delete(c.devices, device)
	}
	return nil
}
