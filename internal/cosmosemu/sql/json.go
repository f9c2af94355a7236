package sql

import "github.com/valyala/fastjson"

// equalJSON compares two arrays or two objects; the order of an object's properties does not matter.
func equalJSON(a, b *fastjson.Value) bool {
	if a.Type() == fastjson.TypeArray {
		x, y := a.GetArray(), b.GetArray()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equal(JSONValue(x[i]), JSONValue(y[i])) {
				return false
			}
		}
		return true
	}
	x, y := a.GetObject(), b.GetObject()
	same := x.Len() == y.Len()
	x.Visit(func(key []byte, e *fastjson.Value) {
		if other := y.Get(string(key)); same {
			same = other != nil && equal(JSONValue(e), JSONValue(other))
		}
	})
	return same
}

// includes reports whether v is an object that has all properties of part, with equal values; objects
// among them need only include theirs.
func includes(v *fastjson.Value, part Value) bool {
	if part.kind != Object || v.Type() != fastjson.TypeObject {
		return false
	}
	all := true
	part.node.GetObject().Visit(func(key []byte, want *fastjson.Value) {
		if !all {
			return
		}
		have := v.GetObject().Get(string(key))
		all = have != nil && (equal(JSONValue(have), JSONValue(want)) || includes(have, JSONValue(want)))
	})
	return all
}
