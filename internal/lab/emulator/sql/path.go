// Package sql parses and evaluates the part of Cosmos DB's query language that the emulator serves.
//
// Parse turns text into a Query; Bind gives it its parameters; the caller walks its items and asks
// the Query which of them match, how they sort and what they project to. The package knows nothing of
// storage, partitions or HTTP: an item is a Row, a source of property values.
//
// What it does not know is an *Error that names the construct and its place in the text; nothing is
// skipped. The dialect is listed in docs/reference/emulator.md.
package sql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/jsonvalue"

	"github.com/valyala/fastjson"
)

// Step is one step of a path: into a property, or into an element of an array.
type Step struct {
	Name    string
	Element bool // then Index counts; else Name
	Index   int
}

// Path is a property of an item, from its root. An empty path is the item itself.
type Path []Step

// Key returns the path in the form of an indexing policy: /a/b for properties, [] for any element. It is
// unambiguous for names without a slash.
func (p Path) Key() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteByte('/')
		if s.Element {
			b.WriteString("[]")
		} else {
			b.WriteString(s.Name)
		}
	}
	return b.String()
}

// Whole reports whether the path passes through no array element, so that Key names one value.
func (p Path) Whole() bool {
	return !slices.ContainsFunc(p, func(s Step) bool { return s.Element })
}

// In looks the path up in a JSON document.
func (p Path) In(doc *fastjson.Value) Value {
	for _, s := range p {
		if s.Element {
			elements := doc.GetArray()
			if s.Index >= len(elements) {
				return Value{}
			}
			doc = elements[s.Index]
			continue
		}
		if doc = jsonvalue.Member(doc, s.Name); doc == nil {
			return Value{}
		}
	}
	return JSONValue(doc)
}

// String returns the path as a query writes it, for messages.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p {
		if s.Element {
			b.WriteString("[" + strconv.Itoa(s.Index) + "]")
		} else {
			b.WriteString("[" + strconv.Quote(s.Name) + "]")
		}
	}
	return b.String()
}

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
