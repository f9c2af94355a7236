package sql

import (
	"bytes"
	"math"
)

// function is a scalar function. Its arguments may be undefined.
type function struct {
	min, max int  // number of arguments
	indexed  bool // the service answers it from the index when its first argument is a property
	eval     func(args []Value) Value
}

// functions are the scalar functions, by upper-case name. Which the index serves: Azure Cosmos DB
// docs, index-overview ("index usage").
var functions = map[string]*function{
	"IS_DEFINED":       {1, 1, true, is(func(k Kind) bool { return k != Undefined })},
	"IS_NULL":          {1, 1, true, is(func(k Kind) bool { return k == Null })},
	"IS_BOOL":          {1, 1, true, is(func(k Kind) bool { return k == Bool })},
	"IS_NUMBER":        {1, 1, true, is(func(k Kind) bool { return k == Number })},
	"IS_STRING":        {1, 1, true, is(func(k Kind) bool { return k == String })},
	"IS_ARRAY":         {1, 1, true, is(func(k Kind) bool { return k == Array })},
	"IS_OBJECT":        {1, 1, true, is(func(k Kind) bool { return k == Object })},
	"STARTSWITH":       {2, 3, true, text(bytes.HasPrefix)},
	"ENDSWITH":         {2, 3, true, text(bytes.HasSuffix)},
	"FULLTEXTCONTAINS": {2, 2, true, text(fullText)},
	"CONTAINS":         {2, 3, true, text(bytes.Contains)},
	"LENGTH":           {1, 1, false, length},
	"LOWER":            {1, 1, false, onText(bytes.ToLower)},
	"UPPER":            {1, 1, false, onText(bytes.ToUpper)},
	"POWER":            {2, 2, false, power},
	"ARRAY_CONTAINS":   {2, 3, true, arrayContains},
	"ARRAY_LENGTH":     {1, 1, false, arrayLength},
}

func is(test func(Kind) bool) func([]Value) Value {
	return func(args []Value) Value { return BoolValue(test(args[0].kind)) }
}

func power(args []Value) Value {
	if args[0].kind != Number || args[1].kind != Number {
		return Value{}
	}
	return finite(math.Pow(args[0].num, args[1].num))
}

func arrayLength(args []Value) Value {
	if args[0].kind != Array {
		return Value{}
	}
	return NumberValue(float64(len(args[0].node.GetArray())))
}

// arrayContains looks for a value among elements; with a third argument true, for an element that has all properties of
// an object.
func arrayContains(args []Value) Value {
	if args[0].kind != Array || args[1].kind == Undefined {
		return Value{}
	}
	partial := len(args) == 3 && args[2].True()
	for _, e := range args[0].node.GetArray() {
		if equal(JSONValue(e), args[1]) || partial && includes(e, args[1]) {
			return BoolValue(true)
		}
	}
	return BoolValue(false)
}
