package engine

import (
	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/schema"
)

// price returns the charge of the write. A replace needs what the old item has in the index, so it reads the old body.
func (w *writing) price(from kv.Reader) (ru.Interval, error) {
	amount, err := w.amount(from)
	if err != nil {
		return ru.Interval{}, err
	}
	return w.account.cfg.Model.Interval(func(m ru.Model) float64 {
		charge := amount(m)
		if w.Op == OpPatch {
			charge += m.Patch(w.patch.Operations())
		}
		if w.again {
			charge -= ru.Again
		}
		return charge
	}), nil
}

func (w *writing) amount(from kv.Reader) (func(ru.Model) float64, error) {
	p, old, levels := w.revision.Policy, int(w.old.size), w.revision.IndexedLevels()
	indexed := func(m ru.Model, units int) int {
		if p.Off() {
			return ru.NoIndex
		}
		return m.Levels(units, levels)
	}
	switch {
	case w.Op == OpDelete:
		return func(m ru.Model) float64 { return m.Delete(old, indexed(m, int(w.old.terms))) }, nil
	case !w.alive:
		return func(m ru.Model) float64 { return m.Write(len(w.doc.JSON), indexed(m, len(w.doc.Terms))) }, nil
	case p.Off():
		return func(m ru.Model) float64 { return m.Replace(old, len(w.doc.JSON), ru.NoIndex) }, nil
	}
	changed, err := w.changedTerms(from)
	return func(m ru.Model) float64 { return m.Replace(old, len(w.doc.JSON), changed) }, err
}

// changedTerms counts the units of the index that a replace removes and adds.
func (w *writing) changedTerms(from kv.Reader) (int, error) {
	doc, err := storedItem(from, w.name)
	if err != nil {
		return 0, err
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
