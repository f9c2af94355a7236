package tenantcopy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// chunkOf names a chunk of the tenant by its number in its chain, with the number that the stream has at the source.
type chunkOf struct {
	device    string
	day       telemetry.Day
	stream    uint32
	partition int32
	number    uint32
}

func (c chunkOf) chain() chunkOf {
	c.number = 0
	return c
}

// entry is what a chunk says of itself, without its rows.
type entry struct {
	store.StoredChunk
	digest digest
	sum    digest // of the document as the service answered it
	size   int
}

type digest [sha256.Size]byte

// parse reads a chunk as the service answers it.
func parse(doc []byte) (*entry, error) {
	c, err := store.ParseStoredChunk(doc)
	if err != nil {
		return nil, err
	}
	e := &entry{StoredChunk: c, sum: sha256.Sum256(doc), size: len(doc)}
	e.digest, err = digestOf(&e.Header, doc)
	return e, err
}

// digestOf returns that of all that a copy has in common with its chunk: not the service's own properties, nor those
// that say where it is and how long it stays. Of a chunk without rows it is that of its place in the chain: what was
// erased may have been erased before or after it was copied.
func digestOf(h *chunk.Header, doc []byte) (digest, error) {
	if h.IsErased() {
		return erasedDigest(h), nil
	}
	var all map[string]any
	if err := json.Unmarshal(doc, &all); err != nil {
		return digest{}, err
	}
	maps.DeleteFunc(all, isOfPlace[any])
	text, err := json.Marshal(plainZeros(all)) // names in order, and each number in one form
	return sha256.Sum256(text), err
}

func erasedDigest(h *chunk.Header) digest {
	return sha256.Sum256(fmt.Appendf(nil, "erased %d %d %d", h.First, h.Through, h.After))
}

func isOfPlace[V any](name string, _ V) bool {
	return strings.HasPrefix(name, "_") || name == "id" || name == "tenantShard" || name == "ttl"
}

// plainZeros takes the sign from zeros: the service may lose it.
func plainZeros(x any) any {
	switch x := x.(type) {
	case float64:
		if x == 0 {
			return 0.0
		}
	case []any:
		for i := range x {
			x[i] = plainZeros(x[i])
		}
	case map[string]any:
		for name := range x {
			x[name] = plainZeros(x[name])
		}
	}
	return x
}

// rewrite returns the document of a chunk for another place, as its header says it. All else stays, also what this
// release does not know.
func rewrite(doc []byte, h *chunk.Header) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(doc, &all); err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, isOfPlace[json.RawMessage])
	put := func(name string, value any) {
		all[name], _ = json.Marshal(value) // a number or a text
	}
	put("id", h.ID.String())
	put("tenantShard", h.TenantShard)
	if h.TTL > 0 {
		put("ttl", h.TTL)
	}
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	err := out.Encode(all)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// erasedBy returns what the document must say of an order that takes the place of the target's one. Where that had no
// rows nothing was erased, and a certificate of the target counts nothing.
func (e *entry) erasedBy(order string) []chunk.Erased {
	if e == nil || e.IsErased() {
		return nil
	}
	return []chunk.Erased{{Order: order, Rows: e.Rows, Digest: hex.EncodeToString(e.sum[:])}}
}
