package schema

import (
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/sql"
)

// Bounds of an item in addition to maxItemBytes (Azure Cosmos DB docs, concepts-limits): the length of a string
// in the partition key, and the depth of nested objects and arrays.
const (
	maxKeyValueBytes = 2048
	maxNesting       = 128
)

// Check refuses an item that is larger, deeper or has a longer key than it may.
func (it *Item) Check() *refusal.Error {
	if len(it.JSON) > maxItemBytes {
		return refusal.TooLarge("the item has %d bytes, more than %d", len(it.JSON), maxItemBytes)
	}
	for _, v := range it.Key {
		if v.Kind() == sql.String && len(v.Bytes()) > maxKeyValueBytes {
			return refusal.BadRequest("a value of the partition key has %d bytes, more than %d", len(v.Bytes()),
				maxKeyValueBytes)
		}
	}
	if it.Depth > maxNesting {
		return refusal.BadRequest("objects and arrays are nested more than %d deep", maxNesting)
	}
	return nil
}
