package sql

import "github.com/valyala/fastjson"

// object and array are literals of the language: what they hold is evaluated for every row. What is
// undefined is left out.
type object struct {
	names  []string
	values []node
}

type array struct{ elements []node }

func (n object) eval(e *env) Value {
	var arena fastjson.Arena
	out := arena.NewObject()
	for i, v := range n.values {
		if v := v.eval(e); v.kind != Undefined {
			out.Set(n.names[i], v.json(&arena))
		}
	}
	return Value{kind: Object, node: out}
}

func (n array) eval(e *env) Value {
	var arena fastjson.Arena
	out := arena.NewArray()
	i := 0
	for _, v := range n.elements {
		if v := v.eval(e); v.kind != Undefined {
			out.SetArrayItem(i, v.json(&arena))
			i++
		}
	}
	return Value{kind: Array, node: out}
}

func (n object) children() []node { return n.values }
func (n array) children() []node  { return n.elements }

func (v Value) json(arena *fastjson.Arena) *fastjson.Value {
	switch {
	case v.node != nil:
		return v.node
	case v.kind == String:
		return arena.NewStringBytes(v.str)
	case v.kind == Number:
		return arena.NewNumberString(string(appendNumber(nil, v.num)))
	case v.kind == Null:
		return arena.NewNull()
	case v.True():
		return arena.NewTrue()
	default:
		return arena.NewFalse()
	}
}
