package index

import (
	"hash/maphash"
	"slices"

	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/jsonvalue"
)

// alwaysIndexed counts id and _ts, which are indexed in every container that has an index.
const alwaysIndexed = 2

// termSeed makes the hashes of terms; they live no longer than the process.
var termSeed = maphash.MakeSeed()

// Terms collects the unique indexed terms of a document as hashes of path and value, elements of an
// array under one path. They are sorted. id and _ts are not among them: see alwaysIndexed.
//
// An explicitly included path whose property is absent has a term too, for undefined (Azure Cosmos DB
// docs, index-policy).
func (p *Policy) Terms(dst []uint64, doc *fastjson.Value) []uint64 {
	if p.none {
		return dst[:0]
	}
	w := termWalk{out: dst[:0]}
	if p.root.subtree == include {
		w.walk(doc, p.root, include, 0, true)
	} else {
		for _, path := range p.included {
			w.included(doc, p.root, path.steps, 0, true)
		}
	}
	for _, path := range p.included {
		if len(path.steps) > 0 && !onlyAlways(path.steps) && !present(doc, path.steps) {
			w.add(hashPath(path.steps), nil)
		}
	}
	slices.Sort(w.out)
	return slices.Compact(w.out)
}

func onlyAlways(steps []string) bool {
	return len(steps) == 1 && (steps[0] == "id" || steps[0] == "_ts")
}

// Count returns the number of terms that a write of these hashes is charged for.
func (p *Policy) Count(terms []uint64) int {
	if p.none {
		return 0
	}
	return len(terms) + alwaysIndexed
}

type termWalk struct{ out []uint64 }

// included walks to the end of one included path, through every element of an array where it says so,
// and on from there.
func (w *termWalk) included(v *fastjson.Value, at *rule, steps []string, path uint64, top bool) {
	if len(steps) == 0 {
		w.walk(v, at, at.subtree, path, top)
		return
	}
	next := at.children[steps[0]]
	if steps[0] == AnyElement {
		for _, e := range v.GetArray() {
			w.included(e, next, steps[1:], extend(path, AnyElement), false)
		}
		return
	}
	if child := jsonvalue.Member(v, steps[0]); child != nil && !(top && isAlways(steps[0])) {
		w.included(child, next, steps[1:], extend(path, steps[0]), false)
	}
}

// walk visits a value and all below it. at is its rule, nil where the policy says nothing any more;
// verdict is that of the nearest subtree rule above.
func (w *termWalk) walk(v *fastjson.Value, at *rule, verdict verdict, path uint64, top bool) {
	if at != nil && at.subtree != unsaid {
		verdict = at.subtree
	}
	switch v.Type() {
	case fastjson.TypeObject:
		v.GetObject().Visit(func(key []byte, child *fastjson.Value) {
			if top && isAlways(string(key)) {
				return
			}
			w.walk(child, at.child(string(key)), verdict, extend(path, string(key)), false)
		})
	case fastjson.TypeArray:
		next, below := at.child(AnyElement), extend(path, AnyElement)
		for _, e := range v.GetArray() {
			w.walk(e, next, verdict, below, false)
		}
	default:
		if at != nil && at.exact != unsaid {
			verdict = at.exact
		}
		if verdict == include {
			w.add(path, v)
		}
	}
}

func (w *termWalk) add(path uint64, v *fastjson.Value) {
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
	w.out = append(w.out, h.Sum64())
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
