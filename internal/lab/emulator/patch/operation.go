package patch

import (
	"math"
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
)

// Apply does the operations on an item. After an error the item is of no use. The semantics are those
// of Azure Cosmos DB docs, partial-document-update.
func (p *Patch) Apply(doc *fastjson.Value) error {
	for i, op := range p.ops {
		if f := op.apply(doc); f != nil {
			f.Message = "patch operation " + strconv.Itoa(i) + ": " + f.Message
			return f
		}
	}
	return nil
}

func (op operation) apply(doc *fastjson.Value) *refusal.Error {
	path, value := op.path, op.value
	if op.kind == "move" {
		at, f := locate(doc, op.from)
		if f != nil {
			return f
		}
		if value = at.value(); value == nil {
			return refusal.BadRequest("there is nothing at the path to move from")
		}
		at.remove()
	}
	at, f := locate(doc, path)
	if f != nil {
		return f
	}
	there := at.value()
	switch op.kind {
	case "add", "move":
		at.insert(value)
	case "set":
		if there == nil {
			at.insert(value)
		} else {
			at.set(value)
		}
	case "replace", "remove":
		if there == nil {
			return refusal.BadRequest("there is nothing at the path to %s", op.kind)
		}
		if op.kind == "remove" {
			at.remove()
		} else {
			at.set(value)
		}
	case "incr":
		if there == nil {
			at.insert(value)
			return nil
		}
		sum, f := add(there, value)
		if f != nil {
			return f
		}
		at.set(sum)
	}
	return nil
}

// place is where a path ends: a property of an object, which may be absent, or a position in an array
// from 0 to its length.
type place struct {
	parent *fastjson.Value
	key    string
	array  bool
	index  int
}

// locate walks to the end of a path. All but its last step must be there.
func locate(doc *fastjson.Value, path []string) (place, *refusal.Error) {
	parent := doc
	for i, step := range path {
		at, f := stepInto(parent, step)
		if f != nil || i == len(path)-1 {
			return at, f
		}
		if parent = at.value(); parent == nil {
			return at, refusal.BadRequest("the path has no parent: %q is absent", step)
		}
	}
	return place{}, refusal.BadRequest("the path is empty")
}

func stepInto(parent *fastjson.Value, step string) (place, *refusal.Error) {
	switch parent.Type() {
	case fastjson.TypeObject:
		return place{parent: parent, key: step}, nil
	case fastjson.TypeArray:
		n := len(parent.GetArray())
		if step == "-" {
			return place{parent: parent, array: true, index: n}, nil
		}
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || strconv.Itoa(i) != step || i > n {
			return place{}, refusal.BadRequest("%q is no index of an array of %d elements", step, n)
		}
		return place{parent: parent, array: true, index: i}, nil
	}
	return place{}, refusal.BadRequest("the path goes on at %q where there is neither an object nor an array", step)
}

// value returns the value at the place, nil for none.
func (at place) value() *fastjson.Value {
	if !at.array {
		return jsonvalue.Member(at.parent, at.key)
	}
	if elements := at.parent.GetArray(); at.index < len(elements) {
		return elements[at.index]
	}
	return nil
}

func (at place) set(v *fastjson.Value) {
	if at.array {
		at.parent.SetArrayItem(at.index, v)
		return
	}
	at.parent.Set(at.key, v)
}

// insert adds a value: to an object as set does, in an array before the element at the index.
func (at place) insert(v *fastjson.Value) {
	if !at.array {
		at.set(v)
		return
	}
	elements := slices.Insert(slices.Clone(at.parent.GetArray()), at.index, v)
	for i := at.index; i < len(elements); i++ {
		at.parent.SetArrayItem(i, elements[i])
	}
}

func (at place) remove() {
	if at.array {
		at.parent.Del(strconv.Itoa(at.index))
		return
	}
	at.parent.Del(at.key)
}

// add returns the sum of two numbers: exact for integers, else of float64.
func add(a, b *fastjson.Value) (*fastjson.Value, *refusal.Error) {
	var arena fastjson.Arena
	if a.Type() != fastjson.TypeNumber {
		return nil, refusal.BadRequest("what is at the path to incr is not a number")
	}
	x, errX := a.Int64()
	y, errY := b.Int64()
	if sum := x + y; errX == nil && errY == nil && (sum > x) == (y > 0) {
		return arena.NewNumberString(strconv.FormatInt(sum, 10)), nil
	}
	sum := a.GetFloat64() + b.GetFloat64()
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return nil, refusal.BadRequest("the sum is no float64")
	}
	return arena.NewNumberString(strconv.FormatFloat(sum, 'g', -1, 64)), nil
}
