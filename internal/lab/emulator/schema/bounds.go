package schema

import (
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
)

// Bounds are what a container takes of an item.
type Bounds struct {
	ItemBytes     int // of minified JSON
	KeyValueBytes int // of a string in the partition key
	Nesting       int // of objects and arrays
}

// Check refuses an item that is larger, deeper or has a longer key than it may.
func (it *Item) Check(l Bounds) *refusal.Error {
	if len(it.JSON) > l.ItemBytes {
		return refusal.TooLarge("the item has %d bytes, more than %d", len(it.JSON), l.ItemBytes)
	}
	for _, v := range it.Key {
		if v.Kind() == sql.String && len(v.Bytes()) > l.KeyValueBytes {
			return refusal.BadRequest("a value of the partition key has %d bytes, more than %d", len(v.Bytes()), l.KeyValueBytes)
		}
	}
	if it.Depth > l.Nesting {
		return refusal.BadRequest("objects and arrays are nested more than %d deep", l.Nesting)
	}
	return nil
}
