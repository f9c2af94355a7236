package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/index"
	"binnacle/internal/lab/emulator/jsonvalue"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
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
