package engine

import (
	"bytes"
	"slices"

	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/refusal"
	"binnacle/internal/lab/emulator/schema"
)

// uniqueName returns the key of the n-th unique key's entry for a digest, in the logical partition of the item with the
// given header. Its value is the id of the item that has these values.
func uniqueName(header []byte, levels, n int, digest []byte) []byte {
	name := append([]byte(nil), header[:prefixLen+levels*levelLen]...)
	name[0] = spaceUnique
	return append(append(name, byte(n)), digest...)
}

// claim takes the unique keys of an item's new version and releases the old version's, or refuses the write
// with a *refusal.Error because another item has one of the keys.
func (w *writing) claim(b *kv.Batch, from kv.Reader) error {
	u := w.revision.Unique
	if len(u) == 0 {
		return nil
	}
	if w.stored {
		if err := release(u, b, from, w.name, w.revision.Levels()); err != nil {
			return err
		}
	}
	if w.Op == OpDelete {
		return nil
	}
	for i := range u {
		name := uniqueName(w.name, w.revision.Levels(), i, w.doc.Unique[i*schema.DigestLen:(i+1)*schema.DigestLen])
		taken, err := w.taken(from, name)
		if err != nil {
			return err
		}
		if taken {
			f := refusal.Conflict("another item of the logical partition has the values of the unique key %s", u.Describe(i))
			f.Charge = ru.NotUnique
			return f
		}
		b.Set(name, w.doc.ID)
	}
	return nil
}

// taken reports whether an entry belongs to another item that has not expired.
func (w *writing) taken(from kv.Reader, name []byte) (bool, error) {
	owner := from.Get(name)
	if owner == nil || bytes.Equal(owner.Value(), w.doc.ID) {
		return false, nil
	}
	name = append(slices.Clone(w.name[:prefixLen+w.revision.Levels()*levelLen]), owner.Value()...)
	var other header
	_, alive, err := readHeader(from, name, &other, w.revision.TTL, w.call.Now)
	return alive, err
}

// release removes the entries of a stored item that the item still owns: another item may have taken an expired
// item's entries since.
func release(u schema.UniqueKeys, b *kv.Batch, from kv.Reader, item []byte, levels int) error {
	if len(u) == 0 {
		return nil
	}
	doc, err := storedItem(from, item)
	if err != nil {
		return err
	}
	id := item[prefixLen+levels*levelLen:]
	digests := u.Digests(nil, doc)
	for i := range u {
		name := uniqueName(item, levels, i, digests[i*schema.DigestLen:(i+1)*schema.DigestLen])
		if owner := from.Get(name); owner != nil && bytes.Equal(owner.Value(), id) {
			b.Delete(name)
		}
	}
	return nil
}
