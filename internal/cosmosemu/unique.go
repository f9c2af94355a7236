package cosmosemu

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/sql"
)

// uniqueKeys are the unique keys of a container: each a list of paths, as steps. No two items of a
// logical partition may have the same values at all paths of one of them.
type uniqueKeys [][][]string

// Limits of a unique key policy (Azure Cosmos DB docs, unique-keys).
const (
	maxUniqueKeys  = 10
	maxUniquePaths = 16
)

// parseUniqueKeys reads a unique key policy; an absent or empty one has no keys.
func parseUniqueKeys(raw json.RawMessage) (uniqueKeys, error) {
	var p struct {
		UniqueKeys []struct {
			Paths []string `json:"paths"`
		} `json:"uniqueKeys"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, badRequest("the unique key policy is not one: %v", err)
		}
	}
	if len(p.UniqueKeys) > maxUniqueKeys {
		return nil, badRequest("a unique key policy has at most %d keys, not %d", maxUniqueKeys, len(p.UniqueKeys))
	}
	var out uniqueKeys
	for _, k := range p.UniqueKeys {
		if len(k.Paths) < 1 || len(k.Paths) > maxUniquePaths {
			return nil, badRequest("a unique key has 1 to %d paths, not %d", maxUniquePaths, len(k.Paths))
		}
		var paths [][]string
		for _, text := range k.Paths {
			steps, ok := splitPath(text)
			if !ok || len(steps) == 0 || slices.Contains(steps, anyElement) {
				return nil, badRequest("the unique key path %q is not a property", text)
			}
			paths = append(paths, steps)
		}
		out = append(out, paths)
	}
	return out, nil
}

// equal tells whether two policies say the same: the policy of a container cannot be changed.
func (u uniqueKeys) equal(o uniqueKeys) bool {
	return slices.EqualFunc(u, o, func(a, b [][]string) bool {
		return slices.EqualFunc(a, b, func(x, y []string) bool { return slices.Equal(x, y) })
	})
}

// uniqueLen is the length of the digest of an item's values for one unique key.
const uniqueLen = sha256.Size

// digests appends a digest for each unique key of what a document has at its paths. A missing property
// counts as null (Azure Cosmos DB docs, unique-keys).
func (u uniqueKeys) digests(dst []byte, doc *fastjson.Value) []byte {
	var text []byte
	for _, paths := range u {
		text = text[:0]
		for _, steps := range paths {
			v := doc
			for _, s := range steps {
				v = sql.Member(v, s)
			}
			text = appendUnique(text, v)
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
		text = sql.AppendJSON(nil, v)
	}
	dst = append(dst, byte(kind))
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// uniqueName is the key of the n-th unique key's entry for a digest, in the logical partition of the
// item whose header has the given key. Its value is the id of the item that has these values.
func uniqueName(header []byte, levels, n int, digest []byte) []byte {
	name := append([]byte(nil), header[:prefixLen+levels*levelLen]...)
	name[0] = spaceUnique
	return append(append(name, byte(n)), digest...)
}

// claim takes the unique keys of the new version of an item and releases those of the old one, or
// refuses the write because another item has one of them: a *fault.
func (w *write) claim(b *pebble.Batch, from pebble.Reader) error {
	u := w.revision.unique
	if len(u) == 0 {
		return nil
	}
	if w.stored {
		if err := u.release(b, from, w.name, w.revision.levels()); err != nil {
			return err
		}
	}
	if w.op == opDelete {
		return nil
	}
	for i := range u {
		name := uniqueName(w.name, w.revision.levels(), i, w.doc.unique[i*uniqueLen:(i+1)*uniqueLen])
		taken, err := w.taken(from, name)
		if err != nil {
			return err
		}
		if taken {
			return conflict("another item of the logical partition has the values of the unique key %s", u.describe(i))
		}
		if err := b.Set(name, w.doc.id, nil); err != nil {
			return err
		}
	}
	return nil
}

// taken tells whether an entry belongs to another item that has not expired.
func (w *write) taken(from pebble.Reader, name []byte) (bool, error) {
	owner, err := ownerOf(from, name)
	if err != nil || owner == nil || bytes.Equal(owner, w.doc.id) {
		return false, err
	}
	name = append(slices.Clone(w.name[:prefixLen+w.revision.levels()*levelLen]), owner...)
	var other header
	_, alive, err := readHeader(from, name, &other, w.revision.ttl, w.now)
	return alive, err
}

func ownerOf(from pebble.Reader, name []byte) ([]byte, error) {
	v, closer, err := from.Get(name)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a unique key: %w", err)
	}
	defer func() { _ = closer.Close() }() // releases memory only
	return bytes.Clone(v), nil
}

// release removes the entries of a stored item that are still its own: those of an expired item may
// have gone to another since.
func (u uniqueKeys) release(b *pebble.Batch, from pebble.Reader, item []byte, levels int) error {
	if len(u) == 0 {
		return nil
	}
	v, closer, err := from.Get(bodyName(nil, item))
	if err != nil {
		return fmt.Errorf("read the body of an item: %w", err)
	}
	defer func() { _ = closer.Close() }() // releases memory only
	doc, err := fastjson.ParseBytes(v)
	if err != nil {
		return fmt.Errorf("read the body of an item: %w", err)
	}
	id := item[prefixLen+levels*levelLen:]
	digests := u.digests(nil, doc)
	for i := range u {
		name := uniqueName(item, levels, i, digests[i*uniqueLen:(i+1)*uniqueLen])
		owner, err := ownerOf(from, name)
		if err != nil {
			return err
		}
		if bytes.Equal(owner, id) {
			if err := b.Delete(name, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u uniqueKeys) describe(n int) string {
	var b []byte
	for i, steps := range u[n] {
		if i > 0 {
			b = append(b, ", "...)
		}
		for _, s := range steps {
			b = append(append(b, '/'), s...)
		}
	}
	return string(b)
}
