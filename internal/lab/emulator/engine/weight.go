package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"binnacle/internal/lab/emulator/refusal"
)

// The weight of a logical partition is the bytes of its items, as they are charged: minified JSON
// without system properties. It is stored with every write, in its batch, since the service refuses
// writes to a logical partition that is full. It is kept by effective partition key, so that a split
// leaves it alone.

// maxWeights bounds the weights that a physical partition remembers.
const maxWeights = 1024

// weightName returns the key of the weight of the logical partition that an item belongs to, given the key
// of the item's header.
func weightName(dst, header []byte, levels int) []byte {
	dst = append(dst[:0], header[:prefixLen+levels*levelLen]...)
	dst[0] = spaceWeight
	return dst
}

// weight reads the weight of a logical partition. Inside a batch, from is the batch, which may know
// better than what is remembered.
func (w *writing) weight(from pebble.Reader) (int64, error) {
	p := w.partition
	if from == pebble.Reader(w.account.store.db) {
		if n, ok := p.weights[string(w.doc.weightName)]; ok {
			return n, nil
		}
	} else {
		delete(p.weights, string(w.doc.weightName))
	}
	return readWeight(from, w.doc.weightName)
}

func readWeight(from pebble.Reader, name []byte) (int64, error) {
	v, err := get(from, name)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the size of a logical partition: %w", err)
	case v == nil:
		return 0, nil
	case len(v) != 8:
		return 0, errors.New("the size of a logical partition is damaged")
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

// weigh adds what the write does to the weight of its logical partition to the batch, or refuses it
// because the logical partition is full: a *refusal.Error. The fresh header says how large the item will be.
func (w *writing) weigh(b *pebble.Batch, from pebble.Reader) error {
	w.doc.weightName = weightName(w.doc.weightName, w.name, w.revision.Levels())
	n, err := w.weight(from)
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
	w.logical = n
	return setWeight(b, w.doc.weightName, n)
}

func setWeight(b *pebble.Batch, name []byte, n int64) error {
	if n == 0 {
		return b.Delete(name, nil)
	}
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], uint64(n))
	return b.Set(name, v[:], nil)
}

// noteWeight remembers the weight after a write that was applied by itself.
func (w *writing) noteWeight() {
	p := w.partition
	if len(p.weights) >= maxWeights {
		clear(p.weights)
	}
	if p.weights == nil {
		p.weights = map[string]int64{}
	}
	p.weights[string(w.doc.weightName)] = w.logical
}

// lighter takes the weight of removed items off their logical partitions, given by their key.
func (p *partition) lighter(b *pebble.Batch, from pebble.Reader, removed map[string]int64) error {
	for name, bytes := range removed {
		n, err := readWeight(from, []byte(name))
		if err != nil {
			return err
		}
		delete(p.weights, name)
		if err := setWeight(b, []byte(name), max(0, n-bytes)); err != nil {
			return err
		}
	}
	return nil
}
