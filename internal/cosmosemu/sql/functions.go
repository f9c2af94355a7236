package sql

import (
	"bytes"
)

// function is a scalar function. Its arguments may be undefined.
type function struct {
	min, max int // number of arguments
	eval     func(args []Value) Value
}

// functions are the scalar functions, by upper-case name. All hold for a single item.
var functions = map[string]function{
	"IS_DEFINED":     {1, 1, is(func(k Kind) bool { return k != Undefined })},
	"IS_NULL":        {1, 1, is(func(k Kind) bool { return k == Null })},
	"IS_BOOL":        {1, 1, is(func(k Kind) bool { return k == Bool })},
	"IS_NUMBER":      {1, 1, is(func(k Kind) bool { return k == Number })},
	"IS_STRING":      {1, 1, is(func(k Kind) bool { return k == String })},
	"IS_ARRAY":       {1, 1, is(func(k Kind) bool { return k == Array })},
	"IS_OBJECT":      {1, 1, is(func(k Kind) bool { return k == Object })},
	"IS_PRIMITIVE":   {1, 1, is(func(k Kind) bool { return k >= Null && k <= String })},
	"STARTSWITH":     {2, 3, text(bytes.HasPrefix)},
	"ENDSWITH":       {2, 3, text(bytes.HasSuffix)},
	"CONTAINS":       {2, 3, text(bytes.Contains)},
	"ARRAY_CONTAINS": {2, 2, arrayContains},
}

func is(test func(Kind) bool) func([]Value) Value {
	return func(args []Value) Value { return BoolValue(test(args[0].kind)) }
}

// text lifts a test of two strings; a third argument true makes it ignore case.
func text(test func(s, part []byte) bool) func([]Value) Value {
	return func(args []Value) Value {
		if args[0].kind != String || args[1].kind != String {
			return Value{}
		}
		if len(args) == 3 && args[2].True() {
			return BoolValue(test(bytes.ToLower(args[0].str), bytes.ToLower(args[1].str)))
		}
		return BoolValue(test(args[0].str, args[1].str))
	}
}

func arrayContains(args []Value) Value {
	if args[0].kind != Array || args[1].kind == Undefined {
		return Value{}
	}
	for _, e := range args[0].node.GetArray() {
		if equal(JSONValue(e), args[1]) {
			return BoolValue(true)
		}
	}
	return BoolValue(false)
}
