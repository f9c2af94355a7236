package engine

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/valyala/fastjson"

	"binnacle/internal/cosmosemu/schema"
)

// price returns the charge of the write. A replace needs the old terms, so it reads the old body.
func (w *writing) price(from pebble.Reader) (float64, error) {
	m := w.account.cfg.Model
	p := w.revision.Policy
	switch {
	case w.Op == OpDelete:
		return m.Delete(int(w.old.size), int(w.old.terms)), nil
	case !w.alive:
		return m.Write(len(w.doc.JSON), p.Count(w.doc.Terms)), nil
	case p.Off():
		return m.Replace(int(w.old.size), len(w.doc.JSON), 0), nil
	}
	changed, err := w.changedTerms(from)
	if err != nil {
		return 0, err
	}
	return m.Replace(int(w.old.size), len(w.doc.JSON), changed), nil
}

// changedTerms counts the terms that a replace removes and adds: those that differ, and _ts twice.
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
	return 2 + difference(w.revision.Policy.Terms(nil, doc), w.doc.Terms), nil
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
