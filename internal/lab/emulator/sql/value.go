package sql

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"

	"binnacle/internal/lab/emulator/jsonvalue"

	"github.com/valyala/fastjson"
)

// Kind is the type of a value. The order of the constants is the documented order in which ORDER BY
// sorts values of different types.
type Kind uint8

// The kinds of value. Undefined is the value of a property that an item does not have.
const (
	Undefined Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Value is one JSON value, or undefined. Its zero value is undefined. A string or a structured value shares
// memory with the row it was read from and is valid while that row is.
type Value struct {
	kind Kind
	num  float64 // a number; 1 or 0 for a bool
	str  []byte
	node *fastjson.Value // array, object, or a number with its digits kept
}

// NullValue returns null.
func NullValue() Value { return Value{kind: Null} }

// BoolValue returns true or false.
func BoolValue(b bool) Value {
	if b {
		return Value{kind: Bool, num: 1}
	}
	return Value{kind: Bool}
}

// NumberValue returns a number.
func NumberValue(f float64) Value { return Value{kind: Number, num: f} }

// StringValue returns a string; s is kept, not copied.
func StringValue(s []byte) Value { return Value{kind: String, str: s} }

// JSONValue returns a parsed JSON value; nil is undefined.
func JSONValue(v *fastjson.Value) Value {
	if v == nil {
		return Value{}
	}
	switch v.Type() {
	case fastjson.TypeNull:
		return NullValue()
	case fastjson.TypeTrue:
		return BoolValue(true)
	case fastjson.TypeFalse:
		return BoolValue(false)
	case fastjson.TypeNumber:
		return Value{kind: Number, num: v.GetFloat64(), node: v}
	case fastjson.TypeString:
		return StringValue(v.GetStringBytes())
	case fastjson.TypeArray:
		return Value{kind: Array, node: v}
	default:
		return Value{kind: Object, node: v}
	}
}

// Kind returns the type of v.
func (v Value) Kind() Kind { return v.kind }

// Float returns the value of a number, 1 or 0 for a bool.
func (v Value) Float() float64 { return v.num }

// Bytes returns the bytes of a string.
func (v Value) Bytes() []byte { return v.str }

// True reports whether v is true: undefined and values of other types are not.
func (v Value) True() bool { return v.kind == Bool && v.num == 1 }

// Clone returns a copy that shares no memory with its row.
func (v Value) Clone() Value {
	v.str = bytes.Clone(v.str)
	if v.node != nil {
		v.node = fastjson.MustParseBytes(v.Append(nil)) // Append writes JSON
	}
	return v
}

// Append appends v as JSON. Undefined has no JSON: the caller leaves it out.
func (v Value) Append(dst []byte) []byte {
	switch v.kind {
	case Null:
		return append(dst, "null"...)
	case Bool:
		return strconv.AppendBool(dst, v.num == 1)
	case Number:
		if v.node != nil {
			return jsonvalue.AppendQueried(dst, v.node)
		}
		return appendNumber(dst, v.num)
	case String:
		return jsonvalue.AppendString(dst, v.str)
	case Array, Object:
		return jsonvalue.AppendQueried(dst, v.node)
	default:
		return dst
	}
}

// appendNumber writes whole numbers without an exponent, as clients expect of counts.
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return jsonvalue.AppendFloat(dst, f)
}

// Compare orders values: by type, then within the type. Arrays and objects of equal type are ordered
// by their JSON text: the service does not document their order.
func Compare(a, b Value) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	switch a.kind {
	case Bool, Number:
		return cmp.Compare(a.num, b.num)
	case String:
		return bytes.Compare(a.str, b.str)
	case Array, Object:
		return bytes.Compare(a.Append(nil), b.Append(nil))
	default:
		return 0
	}
}

// appendIdentity appends bytes that two values have in common exactly when they are equal, or both
// undefined: what DISTINCT and GROUP BY go by.
func (v Value) appendIdentity(dst []byte) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case Bool, Number:
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(v.num+0)) // +0: there are two zeros
	case String:
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(v.str))), v.str...)
	case Array:
		elements := v.node.GetArray()
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(elements)))
		for _, e := range elements {
			dst = JSONValue(e).appendIdentity(dst)
		}
	case Object:
		members := map[string]*fastjson.Value{}
		v.node.GetObject().Visit(func(key []byte, m *fastjson.Value) { members[string(key)] = m })
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(members)))
		for _, key := range slices.Sorted(maps.Keys(members)) {
			dst = StringValue([]byte(key)).appendIdentity(dst)
			dst = JSONValue(members[key]).appendIdentity(dst)
		}
	}
	return dst
}

// equal compares two defined values. Values of different types are not equal; the order of an object's properties does
// not matter.
func equal(a, b Value) bool {
	switch {
	case a.kind != b.kind:
		return false
	case a.kind == Array || a.kind == Object:
		return bytes.Equal(a.appendIdentity(nil), b.appendIdentity(nil))
	}
	return Compare(a, b) == 0
}

// includes reports whether v is an object that has all properties of part, with equal values; objects
// among them need only include theirs.
func includes(v *fastjson.Value, part Value) bool {
	if part.kind != Object || v.Type() != fastjson.TypeObject {
		return false
	}
	all := true
	part.node.GetObject().Visit(func(key []byte, want *fastjson.Value) {
		have := v.GetObject().Get(string(key))
		all = all && have != nil && (equal(JSONValue(have), JSONValue(want)) || includes(have, JSONValue(want)))
	})
	return all
}

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
