package decode

import (
	"slices"
	"strings"

	"binnacle/internal/telemetry"
)

// shape is what messages of a producer have in common: the text around their leaves, which are numbers and other
// properties. A message of a known shape is read by comparing that text; only its leaves are parsed.
type shape struct {
	flat   bool
	leaves []leaf
	end    string // the text behind the last leaf, to the message's brace; empty: no shape
	// order sorts the values as their reading does.
	order order
}

// leaf is a property of a shape.
type leaf struct {
	before string // the text from the leaf before it
	*place
	// kind says what the object around the property is.
	kind objectKind
	// metric names a number; it is empty for other properties.
	metric   string
	rank     int // its place among the sorted values
	from, to int // in the message that it was found in
}

// shapes has the shapes of the last messages that were of none. Where most messages are of none, few are compared.
type shapes struct {
	known  [4]shape
	found  []leaf // in the message that is walked through
	learns bool   // the message that is walked through has a shape, so far
	missed int
	pass   int // messages that are not to be compared
}

const maxShaped, maxPass = 1 << 15, 64 // the bytes of a message that gives a shape; the largest pass

// find records a leaf of the message that is walked through.
func (s *shapes) find(x leaf) {
	if s.learns {
		s.found = append(s.found, x)
		s.learns = x.metric != "" || x.kind != valuesKind
	}
}

// fits reads the message that begins at a place if it is of a known shape, and reports whether it is.
func (d *jsonReader) fits(from int) bool {
	s := &d.shapes
	s.learns = false
	if s.pass--; s.pass >= 0 {
		return false
	}
	for i := range s.known {
		if d.fit(&s.known[i], from) {
			if s.missed = 0; i > 0 {
				s.known[0], s.known[i] = s.known[i], s.known[0]
			}
			return true
		}
	}
	s.pass = min(s.missed, maxPass)
	s.missed, s.learns, s.found = 2*s.pass+1, len(d.source) <= maxShaped, s.found[:0]
	return false
}

// fit reads the message if it is of one shape.
func (d *jsonReader) fit(s *shape, at int) bool {
	if s.end == "" || s.flat != d.flat || !begins(d.source[at:], s.leaves[0].before) {
		return false
	}
	d.begin()
	f, text := &d.fields, d.source
	f.order, f.count = s.order, len(s.order)
	f.sorted = slices.Grow(f.sorted[:f.begin], f.count)[:f.begin+f.count]
	sorted := f.sorted[f.begin:]
	for i := range s.leaves {
		x := &s.leaves[i]
		if !begins(text[at:], x.before) {
			return false
		}
		at += len(x.before)
		if x.metric != "" {
			value, end, ok := plainNumber(text, at)
			if !ok {
				return false
			}
			sorted[x.rank] = telemetry.Field{Metric: x.metric, Value: telemetry.FloatValue(value)}
			at = end
			continue
		}
		d.scan.Seek(at)
		set := x.kind == messageKind && (x.what == labelsPart || x.what == tagsPart)
		if c := d.scan.Next(); c == '[' || c == '{' && !set || d.take(x.place, x.kind) != nil {
			return false
		}
		begin, checked := at, x.kind == messageKind && x.what <= timePart // no name is taken that is not UTF-8
		if at = d.scan.At(); d.unchecked && !checked && !valid(text[begin:at]) {
			return false
		}
	}
	d.scan.Seek(at + len(s.end))
	return begins(text[at:], s.end) && f.order != nil // else a property has become a value
}

// learn remembers the shape of the message that began at a place and was walked through, unless it has values that are
// no plain numbers.
func (d *jsonReader) learn(at int) {
	fields := d.out.Readings[len(d.out.Readings)-1].Fields
	s := shape{flat: d.flat, leaves: slices.Clone(d.shapes.found)}
	for i := range s.leaves {
		x := &s.leaves[i]
		x.before, at = string(d.source[at:x.from]), x.to
		if x.metric != "" {
			known := false
			x.rank, known = slices.BinarySearchFunc(fields, x.metric, func(f telemetry.Field, metric string) int {
				return strings.Compare(f.Metric, metric)
			})
			if s.order = append(s.order, ranked{x.metric, x.rank}); !known {
				return
			}
		}
	}
	if s.end = string(d.source[at:d.scan.At()]); len(s.order) == len(fields) && d.whole == !d.flat {
		copy(d.shapes.known[1:], d.shapes.known[:])
		d.shapes.known[0] = s
	}
}
