package engine

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/cosmosemu/schema"
)

// patched makes the write's document of the stored one and the patch.
func (w *writing) patched(from pebble.Reader) error {
	v, closer, err := from.Get(bodyName(nil, w.name))
	if err != nil {
		return fmt.Errorf("read the body of an item: %w", err)
	}
	defer func() { _ = closer.Close() }()
	var parser fastjson.Parser
	doc, err := parser.ParseBytes(v)
	if err != nil {
		return fmt.Errorf("read the body of an item: %w", err)
	}
	if !w.patch.Holds(doc) {
		return refusal.PreconditionFailed()
	}
	if err := w.patch.Apply(doc); err != nil {
		return err
	}
	key := slices.Clone(w.doc.Key)
	if err := w.doc.Parse(schema.AppendPlain(nil, doc.GetObject()), w.revision.Definition); err != nil {
		return err
	}
	if !key.Equal(w.doc.Key) {
		return refusal.BadRequest("the partition key of an item cannot be patched")
	}
	return nil
}
