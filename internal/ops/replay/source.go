package replay

import (
	"fmt"

	"binnacle/internal/telemetry"
)

// outcome is what becomes of an element of the file.
type outcome uint8

const (
	good       outcome = iota // published and, as far as is known here, accepted
	deadLetter                // published, and it will end in the dead letters
	bad                       // can't be parsed: not published
	nothing                   // a blank line, or a row without a value: not published
)

// element is what a line of the file holds.
type element struct {
	outcome outcome
	line    int               // its first line, from 1
	why     string            // a bad one can't be parsed
	reading telemetry.Reading // set for a good one, and for a dead letter that is not raw
	texts   int               // cells that begin like a number and are text
	text    string            // the first such cell, and its place
	raw     []byte            // the message as it is in the file; nil: reading is encoded
}

// refuse makes an element bad, for a reason.
func (e *element) refuse(format string, args ...any) {
	e.outcome, e.why = bad, fmt.Sprintf(format, args...)
}

// source gives the elements of a file in their order.
type source interface {
	// next fills e, which is valid until the next call. io.EOF is the end; any other error is one of reading the file,
	// and final.
	next(e *element) error
}

// newSource reads a file of a format from its start.
func newSource(cfg Config, f Format, t *text) (source, error) {
	switch f {
	case CSV:
		return newTable(cfg, t)
	case NDJSON:
		return newMessages(cfg, t), nil
	case LineProtocol:
		return newInflux(cfg, t), nil
	}
	return nil, fmt.Errorf("unknown format %q", f)
}
