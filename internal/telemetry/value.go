// Package telemetry holds the value types that a reading is made of and the calendar it is filed by:
// Value, Labels, Reading, Range, Day, Month, Position.
//
// It imports the standard library only. It knows nothing of Kafka, Cosmos DB, chunks or encodings.
package telemetry

import (
	"math"
	"strconv"
)

// Kind is the type of a value. It is no part of a series: a metric may change its type from reading
// to reading. The numbers are stored in chunks and never change.
type Kind uint8

// The kinds of values.
const (
	Float Kind = 1 // float64, every bit pattern
	Int   Kind = 2 // int64
	Bool  Kind = 3
	Text  Kind = 4
)

// String returns the kind's name in documents and answers.
func (k Kind) String() string {
	switch k {
	case Float:
		return "float"
	case Int:
		return "int"
	case Bool:
		return "bool"
	case Text:
		return "text"
	}
	return "kind " + strconv.Itoa(int(k))
}

// ParseKind inverts Kind.String; ok is false for any other word.
func ParseKind(s string) (k Kind, ok bool) {
	for k := Float; k <= Text; k++ {
		if k.String() == s {
			return k, true
		}
	}
	return 0, false
}

// Value is what one metric had at one instant. The zero Value has no kind and means "none".
type Value struct {
	kind Kind
	bits uint64
	text string
}

// FloatValue returns a float64; NaN payloads and the sign of zero are kept.
func FloatValue(f float64) Value { return Value{kind: Float, bits: math.Float64bits(f)} }

// IntValue returns an int64.
func IntValue(i int64) Value { return Value{kind: Int, bits: uint64(i)} }

// BoolValue returns true or false.
func BoolValue(b bool) Value {
	v := Value{kind: Bool}
	if b {
		v.bits = 1
	}
	return v
}

// TextValue returns a string.
func TextValue(s string) Value { return Value{kind: Text, text: s} }

// BitsValue returns the float, int or bool that has the bits b; for text use TextValue.
func BitsValue(k Kind, b uint64) Value { return Value{kind: k, bits: b} }

// Kind returns the value's type, 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// Bits returns the float's IEEE 754 pattern, the int in two's complement, 0 or 1 for a bool, 0 for text.
func (v Value) Bits() uint64 { return v.bits }

// Float returns the float64 of a value of kind Float.
func (v Value) Float() float64 { return math.Float64frombits(v.bits) }

// Int returns the int64 of a value of kind Int.
func (v Value) Int() int64 { return int64(v.bits) }

// Bool returns the truth of a value of kind Bool.
func (v Value) Bool() bool { return v.bits != 0 }

// Text returns the string of a value of kind Text.
func (v Value) Text() string { return v.text }

// String writes floats in the shortest form that reads back to the same bits, and ints with all digits.
func (v Value) String() string {
	switch v.kind {
	case Float:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case Int:
		return strconv.FormatInt(v.Int(), 10)
	case Bool:
		return strconv.FormatBool(v.Bool())
	case Text:
		return v.text
	}
	return ""
}
