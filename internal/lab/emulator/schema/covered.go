package schema

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"binnacle/internal/lab/emulator/index"
	"binnacle/internal/lab/emulator/sql"
)

// coveredPath is a property with its value in the header of every item, so that queries can test it without reading the
// body.
type coveredPath struct {
	path sql.Path
	key  string
}

// Place returns the position of a whole path among the covered ones; -1 for none. Those of the partition
// key are the first.
func (d *Definition) Place(p sql.Path) int {
	key := p.Key()
	return slices.IndexFunc(d.covered, func(c coveredPath) bool { return c.key == key })
}

// maxCovered bounds the covered properties of a container.
const maxCovered = 16

// coveredPaths returns the partition key paths and the single properties that the indexing policy
// includes by name.
func coveredPaths(d *Definition) []coveredPath {
	var out []coveredPath
	add := func(steps []string) {
		path := make(sql.Path, len(steps))
		for i, s := range steps {
			path[i] = sql.Step{Name: s}
		}
		key := path.Key()
		known := func(c coveredPath) bool { return c.key == key }
		if len(out) < maxCovered && !slices.Contains(steps, index.AnyElement) && !slices.ContainsFunc(out, known) {
			out = append(out, coveredPath{path, key})
		}
	}
	for _, k := range d.Keys {
		add(k)
	}
	for _, steps := range d.Policy.Scalars() {
		add(steps)
	}
	return out
}

// The kinds of a covered value. coveredElsewhere marks a value that is too long or has structure: the body has
// it.
const (
	coveredUndefined = iota
	coveredNull
	coveredFalse
	coveredTrue
	coveredNumber
	coveredString
	coveredElsewhere
)

var errCovered = errors.New("the covered values of an item are damaged")

func appendCovered(dst []byte, v sql.Value) []byte {
	switch v.Kind() {
	case sql.Undefined:
		return append(dst, coveredUndefined)
	case sql.Null:
		return append(dst, coveredNull)
	case sql.Bool:
		if v.True() {
			return append(dst, coveredTrue)
		}
		return append(dst, coveredFalse)
	case sql.Number:
		return binary.BigEndian.AppendUint64(append(dst, coveredNumber), math.Float64bits(v.Float()))
	case sql.String:
		if s := v.Bytes(); len(s) <= math.MaxUint8 {
			return append(append(dst, coveredString, byte(len(s))), s...)
		}
	}
	return append(dst, coveredElsewhere)
}

// DecodeCovered reads the covered values into dst. A value that is elsewhere has ok false.
func DecodeCovered(dst []CoveredValue, src []byte) ([]CoveredValue, error) {
	dst = dst[:0]
	n := int(src[0])
	src = src[1:]
	for range n {
		if len(src) == 0 {
			return nil, errCovered
		}
		v := CoveredValue{OK: true}
		kind, rest := src[0], src[1:]
		switch kind {
		case coveredUndefined:
		case coveredNull:
			v.Value = sql.NullValue()
		case coveredFalse, coveredTrue:
			v.Value = sql.BoolValue(kind == coveredTrue)
		case coveredNumber:
			if len(rest) < 8 {
				return nil, errCovered
			}
			v.Value = sql.NumberValue(math.Float64frombits(binary.BigEndian.Uint64(rest)))
			rest = rest[8:]
		case coveredString:
			if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
				return nil, errCovered
			}
			v.Value = sql.StringValue(rest[1 : 1+int(rest[0])])
			rest = rest[1+int(rest[0]):]
		case coveredElsewhere:
			v.OK = false
		default:
			return nil, errCovered
		}
		dst = append(dst, v)
		src = rest
	}
	return dst, nil
}

// CoveredValue is a value of an item as the index holds it; OK is false when only the item has the value.
type CoveredValue struct {
	Value sql.Value
	OK    bool
}
