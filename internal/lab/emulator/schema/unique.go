package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"binnacle/internal/lab/emulator/index"
	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
	"binnacle/sharding/epk"

	"github.com/valyala/fastjson"
)

// UniqueKeys are the unique keys of a container: each a list of paths, as steps. No two items of a
// logical partition may have the same values at all paths of one of them.
type UniqueKeys [][][]string

// Limits of a unique key policy (Azure Cosmos DB docs, unique-keys).
const (
	maxUniqueKeys  = 10
	maxUniquePaths = 16
)

// parseUniqueKeys reads a unique key policy; an absent or empty one has no keys.
func parseUniqueKeys(raw json.RawMessage) (UniqueKeys, error) {
	var p struct {
		UniqueKeys []struct {
			Paths []string `json:"paths"`
		} `json:"uniqueKeys"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, refusal.BadRequest("the unique key policy is not one: %v", err)
		}
	}
	if len(p.UniqueKeys) > maxUniqueKeys {
		return nil, refusal.BadRequest("a unique key policy has at most %d keys, not %d", maxUniqueKeys, len(p.UniqueKeys))
	}
	var out UniqueKeys
	for _, k := range p.UniqueKeys {
		if len(k.Paths) < 1 || len(k.Paths) > maxUniquePaths {
			return nil, refusal.BadRequest("a unique key has 1 to %d paths, not %d", maxUniquePaths, len(k.Paths))
		}
		var paths [][]string
		for _, text := range k.Paths {
			steps, ok := index.SplitPath(text)
			if !ok || len(steps) == 0 || slices.Contains(steps, index.AnyElement) {
				return nil, refusal.BadRequest("the unique key path %q is not a property", text)
			}
			paths = append(paths, steps)
		}
		out = append(out, paths)
	}
	return out, nil
}

// equal reports whether two policies say the same: the policy of a container cannot be changed.
func (u UniqueKeys) equal(o UniqueKeys) bool {
	return slices.EqualFunc(u, o, func(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal) })
}

// DigestLen is the length of the digest of an item's values for one unique key.
const DigestLen = sha256.Size

// Digests appends a digest for each unique key of what a document has at its paths. A missing property
// counts as null (Azure Cosmos DB docs, unique-keys).
func (u UniqueKeys) Digests(dst []byte, doc *fastjson.Value) []byte {
	var text []byte
	for _, paths := range u {
		text = text[:0]
		for _, steps := range paths {
			text = appendUnique(text, jsonvalue.At(doc, steps))
		}
		sum := sha256.Sum256(text)
		dst = append(dst, sum[:]...)
	}
	return dst
}

// appendUnique encodes a value so that equal values, and only they, are encoded alike.
func appendUnique(dst []byte, v *fastjson.Value) []byte {
	value := sql.JSONValue(v)
	kind := value.Kind()
	var text []byte
	switch kind {
	case sql.Undefined:
		kind = sql.Null
	case sql.Bool:
		if value.True() {
			text = []byte{1}
		}
	case sql.Number:
		text = binary.BigEndian.AppendUint64(nil, math.Float64bits(value.Float()+0)) // -0 is 0
	case sql.String:
		text = value.Bytes()
	case sql.Array, sql.Object:
		text = jsonvalue.Append(nil, v)
	}
	dst = append(dst, byte(kind))
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// Describe returns the paths of the n-th key.
func (u UniqueKeys) Describe(n int) string {
	paths := make([]string, len(u[n]))
	for i, steps := range u[n] {
		paths[i] = "/" + strings.Join(steps, "/")
	}
	return strings.Join(paths, ", ")
}

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
