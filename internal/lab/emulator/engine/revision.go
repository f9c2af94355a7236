package engine

import (
	"github.com/valyala/fastjson"

	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
)

// revision is a definition with its number among the container's definitions.
type revision struct {
	*schema.Definition
	generation uint32
}

// fullKey reads the partition key of a request and refuses one that does not name a logical partition.
func (r *revision) fullKey(p *fastjson.Parser, text string) (schema.Key, error) {
	key, ok, err := r.prefixOf(p, text)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return make(schema.Key, r.Levels()), nil // the item has none of the key's properties
	case len(key) < r.Levels():
		return nil, refusal.KeyMismatch(mismatch+": it has %d of %d components", len(key), r.Levels())
	}
	return key, nil
}

// keyOf reads the partition key of a request that names an item by its id: it must be there.
func (r *revision) keyOf(p *fastjson.Parser, text string) (schema.Key, error) {
	if text == "" {
		return nil, refusal.KeyMismatch(mismatch+": it has 0 of %d components", r.Levels())
	}
	return r.fullKey(p, text)
}

// prefixOf reads a partition key, or a prefix of one. It refuses one with more levels than the container has. Without a
// key, ok is false.
func (r *revision) prefixOf(p *fastjson.Parser, text string) (key schema.Key, ok bool, err error) {
	if key, ok, err = schema.ParseKey(p, text); err == nil && len(key) > r.Levels() {
		err = refusal.BadRequest("the partition key has %d components, the container has %d", len(key), r.Levels())
	}
	return key, ok, err
}

// mismatch is what the service says of a partition key that cannot be that of an item.
const mismatch = "Partition key provided either doesn't correspond to definition in the collection or doesn't match " +
	"partition key field values specified in the document"
