package kv

import (
	"bytes"
	"iter"

	"github.com/google/btree"
)

// Reader shows the entries of the store, of a snapshot, or of a batch.
type Reader interface {
	// Get returns the entry of a key; nil without one.
	Get(key []byte) *Entry
	// Ascend visits the entries from a key on, before another; high nil is the end.
	Ascend(low, high []byte) iter.Seq[*Entry]
	// Descend visits the same entries from the last to the first.
	Descend(low, high []byte) iter.Seq[*Entry]
}

// View is a snapshot. It is safe for concurrent use.
type View struct{ tree *btree.BTreeG[*Entry] }

func newView() *View { return &View{btree.NewG(32, less)} }

func probe(key []byte) *Entry { return &Entry{data: key, keyLen: uint32(len(key))} }

// Get returns the entry of a key; nil without one.
func (v *View) Get(key []byte) *Entry {
	e, _ := v.tree.Get(probe(key))
	return e
}

// Ascend visits the entries from a key on, before another; high nil is the end.
func (v *View) Ascend(low, high []byte) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		if high != nil && bytes.Compare(low, high) >= 0 {
			return
		}
		end := v.from(high)
		v.tree.AscendGreaterOrEqual(probe(low), func(e *Entry) bool { return e != end && yield(e) })
	}
}

// from returns the first entry from a key on; nil for none, and for the key nil.
func (v *View) from(key []byte) (first *Entry) {
	if key != nil {
		v.tree.AscendGreaterOrEqual(probe(key), func(e *Entry) bool {
			first = e
			return false
		})
	}
	return first
}

// Descend visits the same entries from the last to the first.
func (v *View) Descend(low, high []byte) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		visit := func(e *Entry) bool {
			if high != nil && bytes.Compare(e.Key(), high) >= 0 {
				return true // high itself
			}
			return bytes.Compare(e.Key(), low) >= 0 && yield(e)
		}
		if high == nil {
			v.tree.Descend(visit)
			return
		}
		v.tree.DescendLessOrEqual(probe(high), visit)
	}
}

// change does an operation; entry is what a set sets. It returns what counts no more.
func (v *View) change(o *operation, entry *Entry) (gone []*Entry) {
	var old *Entry
	switch o.kind {
	case opSet:
		old, _ = v.tree.ReplaceOrInsert(entry)
	case opDelete:
		old, _ = v.tree.Delete(probe(o.key))
	case opRange:
		for e := range v.Ascend(o.key, o.value) {
			gone = append(gone, e)
		}
		for _, e := range gone {
			v.tree.Delete(e)
		}
		return gone
	}
	if old != nil {
		gone = append(gone, old)
	}
	return gone
}

// Get returns the entry of a key as the batch leaves it. Only a batch made by Store.Fork can be read.
func (b *Batch) Get(key []byte) *Entry { return b.own.Get(key) }

// Ascend visits entries as View.Ascend.
func (b *Batch) Ascend(low, high []byte) iter.Seq[*Entry] { return b.own.Ascend(low, high) }

// Descend visits entries as View.Descend.
func (b *Batch) Descend(low, high []byte) iter.Seq[*Entry] { return b.own.Descend(low, high) }
