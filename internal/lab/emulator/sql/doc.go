// Package sql parses and evaluates the part of Cosmos DB's query language that the emulator serves.
//
// Parse turns text into a Query; Bind gives it its parameters; the caller walks its items and asks
// the Query which of them match, how they sort and what they project to. The package knows nothing of
// storage, partitions or HTTP: an item is a Row, a source of property values.
//
// What it does not know is an *Error that names the construct and its place in the text; nothing is
// skipped. The dialect is listed in docs/reference/emulator.md.
package sql

import "fmt"

// Error is a query that is malformed, or that uses a construct which is not supported.
type Error struct {
	Line, Column int // one-based; zero when the fault has no place in the text
	Start, End   int // the same place in bytes, half-open
	// Code is the service's code for the fault; "": SC1001, a syntax error.
	Code   string
	Reason string
}

// Error names the place and the reason.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}
