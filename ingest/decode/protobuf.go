package decode

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// protobufField is one field of a protobuf message.
type protobufField struct {
	number protowire.Number
	kind   protowire.Type
	bits   uint64 // value of a varint, fixed32 or fixed64
	bytes  []byte // value of a field with a length
}

// errProtobuf is a protobuf message that is cut off, or none.
var errProtobuf = errors.New("not protobuf")

// protobufReader walks over the fields of a protobuf message, in their order. It is our own because a message becomes
// columns: the generated decoders make an object for each of its parts.
type protobufReader struct {
	rest   []byte
	before int // bytes that were left before the last field
	err    error
}

// next reads a field; it returns false at the end, and when the message is broken.
func (w *protobufReader) next(f *protobufField) bool {
	if len(w.rest) == 0 {
		return false
	}
	w.before = len(w.rest)
	number, kind, n := protowire.Number(w.rest[0]>>3), protowire.Type(w.rest[0]&7), 1
	if w.rest[0] >= 0x80 || number == 0 {
		number, kind, n = protowire.ConsumeTag(w.rest)
	}
	if n < 0 {
		return w.fail()
	}
	b := w.rest[n:]
	f.number, f.kind, f.bytes = number, kind, nil
	switch kind {
	case protowire.VarintType:
		f.bits, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.bits, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		if len(b) > 0 && b[0] < 0x80 && len(b) > int(b[0]) { // most of them, and faster than asking
			n = 1 + int(b[0])
			f.bytes = b[1:n]
			break
		}
		f.bytes, n = protowire.ConsumeBytes(b)
	case protowire.Fixed32Type:
		var u uint32
		u, n = protowire.ConsumeFixed32(b)
		f.bits = uint64(u)
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return w.fail()
	}
	w.rest = b[n:]
	return true
}

func (w *protobufReader) fail() bool {
	w.err, w.rest = errProtobuf, nil
	return false
}

func (f *protobufField) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// twoFields returns the two fields of a message that have the numbers and a length, such as a key and its value.
func twoFields(message []byte, first, second protowire.Number) (a, b []byte, err error) {
	var f protobufField
	w := protobufReader{rest: message}
	for w.next(&f) {
		switch {
		case f.is(first, protowire.BytesType):
			a = f.bytes
		case f.is(second, protowire.BytesType):
			b = f.bytes
		}
	}
	return a, b, w.err
}

// each calls what for the fields of a message that have the number and a length.
func each(message []byte, number protowire.Number, what func(b []byte) error) error {
	var f protobufField
	w := protobufReader{rest: message}
	for w.next(&f) {
		if f.is(number, protowire.BytesType) {
			if err := what(f.bytes); err != nil {
				return err
			}
		}
	}
	return w.err
}
