package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/schema"
	"binnacle/internal/ru"
)

// price returns the charge of the write. A replace needs what the old item has in the index, so it reads the old body.
func (w *writing) price(from pebble.Reader) (float64, error) {
	charge, err := w.amount(from)
	if w.Op == OpPatch {
		charge += w.account.cfg.Model.Patch(w.patch.Operations())
	}
	if w.again {
		charge -= ru.Again
	}
	return charge, err
}

// amount returns the charge by what goes and comes.
func (w *writing) amount(from pebble.Reader) (float64, error) {
	m := w.account.cfg.Model
	p := w.revision.Policy
	switch {
	case w.Op == OpDelete && p.Off():
		return m.Delete(int(w.old.size), ru.NoIndex), nil
	case w.Op == OpDelete:
		return m.Delete(int(w.old.size), int(w.old.terms)), nil
	case !w.alive:
		return m.Write(len(w.doc.JSON), p.Units(w.doc.Terms)), nil
	case p.Off():
		return m.Replace(int(w.old.size), len(w.doc.JSON), ru.NoIndex), nil
	}
	changed, err := w.changedTerms(from)
	if err != nil {
		return 0, err
	}
	return m.Replace(int(w.old.size), len(w.doc.JSON), changed), nil
}

// changedTerms counts the units of the index that a replace removes and adds.
func (w *writing) changedTerms(from pebble.Reader) (int, error) {
	v, closer, err := from.Get(bodyName(nil, w.name))
	if err != nil {
		return 0, fmt.Errorf("read the body of an item: %w", err)
	}
	defer func() { _ = closer.Close() }()
	var parser fastjson.Parser
	doc, err := parser.ParseBytes(v)
	if err != nil {
		return 0, fmt.Errorf("read the body of an item: %w", err)
	}
	schema.DeleteSystem(doc)
	return difference(w.revision.Policy.Terms(nil, doc), w.doc.Terms), nil
}

// difference counts the elements of two sorted sets that only one of them has.
func difference(a, b []uint64) int {
	n := 0
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a, n = a[1:], n+1
		default:
			b, n = b[1:], n+1
		}
	}
	return n + len(a) + len(b)
}
