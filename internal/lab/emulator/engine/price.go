package engine

import (
	"encoding/binary"
	"errors"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
)

// price returns the charge of the write. A replace needs what the old item has in the index, so it reads the old body.
func (w *writing) price(from kv.Reader) (charge float64, err error) {
	m, p, old := w.account.cfg.Model, w.revision.Policy, int(w.old.size)
	indexed := func(units int) int {
		if p.Off() {
			return ru.NoIndex
		}
		return units
	}
	switch {
	case w.Op == OpDelete:
		charge = m.Delete(old, indexed(int(w.old.terms)))
	case !w.alive:
		charge = m.Write(len(w.doc.JSON), indexed(len(w.doc.Terms)))
	default:
		changed := ru.NoIndex
		if !p.Off() {
			if changed, err = w.changedTerms(from); err != nil {
				return 0, err
			}
		}
		charge = m.Replace(old, len(w.doc.JSON), changed)
	}
	if w.Op == OpPatch {
		charge += m.Patch(w.patch.Operations())
	}
	if w.again {
		charge -= ru.Again
	}
	return charge, nil
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

// The weight of a logical partition is the bytes of its items, as they are charged: minified JSON
// without system properties. It is stored with every write, in its batch, since the service refuses
// writes to a logical partition that is full. It is kept by effective partition key, so that a split
// leaves it alone.

// weightName returns the key of the weight of the logical partition that an item belongs to, given the key
// of the item's header.
func weightName(dst, header []byte, levels int) []byte {
	dst = append(dst[:0], header[:prefixLen+levels*levelLen]...)
	dst[0] = spaceWeight
	return dst
}

// readWeight reads the weight of a logical partition.
func readWeight(from kv.Reader, name []byte) (int64, error) {
	e := from.Get(name)
	switch {
	case e == nil:
		return 0, nil
	case len(e.Value()) != 8:
		return 0, errors.New("the size of a logical partition is damaged")
	}
	return int64(binary.BigEndian.Uint64(e.Value())), nil
}

// weigh adds what the write does to the weight of its logical partition to the batch, or refuses it
// because the logical partition is full: a *refusal.Error. The fresh header says how large the item will be.
func (w *writing) weigh(b *kv.Batch, from kv.Reader) error {
	w.doc.weightName = weightName(w.doc.weightName, w.name, w.revision.Levels())
	n, err := readWeight(from, w.doc.weightName)
	if err != nil {
		return err
	}
	growth := int64(w.fresh.size)
	if w.stored {
		growth -= int64(w.old.size)
	}
	n = max(0, n+growth)
	if most := w.account.cfg.Limits.LogicalPartitionBytes; growth > 0 && n > most {
		return refusal.Forbidden(refusal.SubLogicalFull, "the logical partition would hold %d bytes, more than %d", n, most)
	}
	setWeight(b, w.doc.weightName, n)
	return nil
}

func setWeight(b *kv.Batch, name []byte, n int64) {
	if n == 0 {
		b.Delete(name)
		return
	}
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], uint64(n))
	b.Set(name, v[:])
}

// lighter takes the weight of removed items off their logical partitions, given by their key.
func lighter(b *kv.Batch, from kv.Reader, removed map[string]int64) error {
	for name, bytes := range removed {
		n, err := readWeight(from, []byte(name))
		if err != nil {
			return err
		}
		setWeight(b, []byte(name), max(0, n-bytes))
	}
	return nil
}
