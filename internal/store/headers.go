package store

import (
	"context"

	"binnacle/internal/telemetry"
)

// HeaderScan asks for the headers of all chunks of a container, under whatever keys: by their ids they are of a day, or
// they have rows on it. A scan by keys would find only what lies where it belongs.
type HeaderScan struct {
	Container string
	Day       telemetry.Day
	Tenant    string // "" is all
	Device    string // "" is all
	Whole     bool   // documents as they are stored, instead of their headers

	// Charge gets the cost of each request before its headers are yielded; by default it is not called. An error of
	// Charge ends the scan and is returned as it is.
	Charge func(rus float64) error
}

// HeaderReader reads chunks without their columns. It is safe for any number of callers.
type HeaderReader interface {
	// Headers calls yield with each header in turn, in no order: a JSON object of those HeaderProperties that the
	// document has, as it has them. Nothing of it is checked, and its bytes are yield's until it returns. Errors are
	// the errors of Reader.Scan.
	Headers(ctx context.Context, s HeaderScan, yield func(header []byte) error) (Usage, error)
}

// HeaderProperties returns the properties of a chunk document that make its header.
func HeaderProperties() []string {
	return []string{"id", "v", "type", "tenantShard", "device", "from", "to", "rows", "readings", "first", "through",
		"after"}
}
