package sql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/jsonvalue"
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
