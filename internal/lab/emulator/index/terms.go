package index

import (
	"hash/maphash"
	"slices"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/jsonvalue"
)

// termSeed makes the hashes of entries; they live no longer than the process.
var termSeed = maphash.MakeSeed()

// Terms collects what an item has in the index as sorted hashes. Each costs a unit of a write's charge: a
// path that holds scalars, a value under a path, an object or array, which at the top counts twice. The elements of
// an array are under one path. The id is always among them, _ts and other system properties never are.
//
// An explicitly included path without a property has a path and a value too, for undefined (Azure Cosmos DB
// docs, index-policy).
func (p *Policy) Terms(dst []uint64, doc *fastjson.Value) []uint64 {
	if p.none {
		return dst[:0]
	}
	w := termWalk{out: dst[:0]}
	w.scalar(extend(0, "id"), jsonvalue.Member(doc, "id"))
	if p.root.subtree == include {
		doc.GetObject().Visit(func(key []byte, child *fastjson.Value) {
			w.property(child, p.root.child(string(key)), include, string(key))
		})
	} else {
		for _, path := range p.included {
			w.included(doc, p.root, path.steps, position{top: true})
		}
	}
	for _, path := range p.included {
		if len(path.steps) > 0 && !onlyAlways(path.steps) && !present(doc, path.steps) {
			w.scalar(hashPath(path.steps), nil)
		}
	}
	slices.Sort(w.out)
	return slices.Compact(w.out)
}

// onlyAlways reports whether a path is a property that is indexed whatever the policy says.
func onlyAlways(steps []string) bool { return len(steps) == 1 && isAlways(steps[0]) }

type termWalk struct{ out []uint64 }

// position is where in an item a walk is: the hash of the path, in which all elements of an array are one, and that of
// the place, in which they are not.
type position struct {
	path, place uint64
	top         bool // the item itself
	first       bool // a property at the top
}

func (at position) property(name string) position {
	return position{path: extend(at.path, name), place: extend(at.place, name), first: at.top}
}

func (at position) element(i int) position {
	return position{path: extend(at.path, AnyElement), place: extend(at.place, AnyElement) + uint64(i)}
}

// included walks to the end of one included path, through every element of an array where it says so,
// and on from there.
func (w *termWalk) included(v *fastjson.Value, r *rule, steps []string, at position) {
	if len(steps) == 0 {
		w.walk(v, r, r.subtree, at)
		return
	}
	next := r.children[steps[0]]
	if steps[0] == AnyElement {
		for i, e := range v.GetArray() {
			w.included(e, next, steps[1:], at.element(i))
		}
		return
	}
	if child := jsonvalue.Member(v, steps[0]); child != nil && !(at.top && isAlways(steps[0])) {
		w.included(child, next, steps[1:], at.property(steps[0]))
	}
}

func (w *termWalk) property(v *fastjson.Value, r *rule, verdict verdict, name string) {
	if !isAlways(name) {
		w.walk(v, r, verdict, position{top: true}.property(name))
	}
}

// walk visits a value and its descendants. r is the value's rule, nil below the last rule of the policy;
// verdict is the verdict of the nearest subtree rule above.
func (w *termWalk) walk(v *fastjson.Value, r *rule, verdict verdict, at position) {
	if r != nil && r.subtree != unsaid {
		verdict = r.subtree
	}
	switch v.Type() {
	case fastjson.TypeObject:
		w.structure(verdict, at)
		v.GetObject().Visit(func(key []byte, child *fastjson.Value) {
			w.walk(child, r.child(string(key)), verdict, at.property(string(key)))
		})
	case fastjson.TypeArray:
		w.structure(verdict, at)
		next := r.child(AnyElement)
		for i, e := range v.GetArray() {
			w.walk(e, next, verdict, at.element(i))
		}
	default:
		if r != nil && r.exact != unsaid {
			verdict = r.exact
		}
		if verdict == include {
			w.scalar(at.path, v)
		}
	}
}

// structure adds the entries of an object or array.
func (w *termWalk) structure(verdict verdict, at position) {
	if verdict != include {
		return
	}
	w.out = append(w.out, extend(at.place, "{}"))
	if at.first {
		w.out = append(w.out, extend(at.place, "{}{}"))
	}
}

// scalar adds the entries of a scalar: its path and its value; a nil value is undefined.
func (w *termWalk) scalar(path uint64, v *fastjson.Value) {
	var h maphash.Hash
	h.SetSeed(termSeed)
	var buf [9]byte
	for i := range 8 {
		buf[i] = byte(path >> (8 * i))
	}
	if v != nil {
		buf[8] = 1 + byte(v.Type())
	}
	_, _ = h.Write(buf[:])
	if v != nil {
		switch v.Type() {
		case fastjson.TypeString:
			_, _ = h.Write(v.GetStringBytes())
		case fastjson.TypeNumber:
			var text [32]byte
			_, _ = h.Write(v.MarshalTo(text[:0]))
		}
	}
	w.out = append(w.out, extend(path, "?"), h.Sum64())
}

func (r *rule) child(step string) *rule {
	if r == nil {
		return nil
	}
	return r.children[step]
}

func isAlways(key string) bool { return key == "id" || key == "_ts" }

// present reports whether a path leads anywhere in the document.
func present(v *fastjson.Value, steps []string) bool {
	for i, s := range steps {
		if s == AnyElement {
			return slices.ContainsFunc(v.GetArray(), func(e *fastjson.Value) bool { return present(e, steps[i+1:]) })
		}
		if v = jsonvalue.Member(v, s); v == nil {
			return false
		}
	}
	return true
}

func hashPath(steps []string) uint64 {
	var path uint64
	for _, s := range steps {
		path = extend(path, s)
	}
	return path
}

func extend(path uint64, step string) uint64 {
	return (path^maphash.String(termSeed, step))*0x9E3779B97F4A7C15 + 1
}
