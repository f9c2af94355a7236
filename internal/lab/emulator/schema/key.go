package schema

import (
	"encoding/binary"
	"slices"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
	"binnacle/sharding/epk"
)

// Key is the value of a partition key, or of a prefix of a hierarchical one.
type Key []sql.Value

// ParseKey reads the header x-ms-documentdb-partitionkey, a JSON array. Without a header, and for
// the empty array, ok is false.
func ParseKey(p *fastjson.Parser, text string) (key Key, ok bool, err error) {
	if text == "" {
		return nil, false, nil
	}
	if fastjson.Validate(text) != nil {
		return nil, false, refusal.BadRequest("the partition key %q is not JSON", text)
	}
	v, err := p.Parse(text)
	if err != nil || v.Type() != fastjson.TypeArray {
		return nil, false, refusal.BadRequest("the partition key %q is not a JSON array", text)
	}
	elements := v.GetArray()
	if len(elements) == 0 {
		return nil, false, nil
	}
	for _, e := range elements {
		value := sql.JSONValue(e)
		switch value.Kind() {
		case sql.Object: // SDKs write an undefined component as {}
			if e.GetObject().Len() > 0 {
				return nil, false, refusal.BadRequest("the partition key %q has a component that is no scalar", text)
			}
			value = sql.Value{}
		case sql.Array:
			return nil, false, refusal.BadRequest("the partition key %q has a component that is no scalar", text)
		}
		key = append(key, value)
	}
	return key, true, nil
}

// keyOf returns the partition key of a document: undefined where a property is absent or no scalar.
func (d *Definition) keyOf(dst Key, doc *fastjson.Value) Key {
	dst = dst[:0]
	for _, steps := range d.Keys {
		value := sql.JSONValue(jsonvalue.At(doc, steps))
		if value.Kind() > sql.String {
			value = sql.Value{}
		}
		dst = append(dst, value)
	}
	return dst
}

// Equal reports whether two keys have the same values in the same order.
func (k Key) Equal(other Key) bool {
	return slices.EqualFunc(k, other, func(a, b sql.Value) bool { return sql.Compare(a, b) == 0 })
}

// AppendEPK appends the effective partition key as bytes, levelLen a component.
func (k Key) AppendEPK(dst []byte) []byte {
	for _, v := range k {
		hi, lo := epk.Sum(component(v))
		dst = binary.BigEndian.AppendUint64(dst, hi)
		dst = binary.BigEndian.AppendUint64(dst, lo)
	}
	return dst
}

func component(v sql.Value) epk.Component {
	switch v.Kind() {
	case sql.Null:
		return epk.Null()
	case sql.Bool:
		return epk.Bool(v.True())
	case sql.Number:
		return epk.Number(v.Float())
	case sql.String:
		return epk.String(string(v.Bytes()))
	default:
		return epk.Undefined()
	}
}
