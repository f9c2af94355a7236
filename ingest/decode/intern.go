package decode

import (
	"slices"

	"binnacle/internal/telemetry"
)

// The bounds of what a Decoder remembers: bytes of a text, and of all entries of a kind, as remembered counts them.
// Texts that each device may have for itself have more room: some 80,000 devices of a partition fit.
const (
	maxInternedBytes = 256
	nameBytes        = 1 << 20
	deviceBytes      = 8 << 20
)

// cache is a map by text that takes a bounded number of bytes. What is new when it is full is not remembered: so
// where a little more comes by turns than there is room for, most of it is found, and the rest costs little more than
// looking for it. After turning away four times as many entries as it has, it begins again with none: others come.
//
// Making room for each that comes, by age or by chance, was measured to cost more than it saves: devices take turns, so
// the one that goes is soon asked for, and each change is a walk through memory that no cache holds.
type cache[V any] struct {
	known map[string]V
	bytes int
	away  int // entries that were turned away
	most  int
	// weight is how many bytes an entry takes for a byte of its text, in addition to entryBytes.
	weight int
}

// entryBytes is about the bytes of an entry without its text: its value, and its place in a map three fifths full.
const entryBytes = 80

func newCache[V any](most, weight int) cache[V] {
	return cache[V]{known: map[string]V{}, most: most, weight: weight}
}

// put remembers a value by a text that is not known.
func (r *cache[V]) put(text string, v V) {
	size := entryBytes + r.weight*len(text)
	if r.bytes+size > r.most {
		if r.away++; r.away <= 4*len(r.known) {
			return
		}
		clear(r.known)
		r.bytes, r.away = 0, 0
	}
	r.bytes += size
	r.known[text] = v
}

// interner gives strings for bytes, the same string for the same bytes, and checks each but once.
type interner struct {
	cache[string]
	last  string // the one that get returned last
	check func(string) error
}

func newInterner(most int, check func(string) error) interner {
	return interner{cache: newCache[string](most, 1), check: check}
}

func (n *interner) get(b []byte) (string, error) {
	if string(b) == n.last && len(b) > 0 {
		return n.last, nil
	}
	if k, ok := n.known[string(b)]; ok {
		n.last = k
		return k, nil
	}
	k := string(b)
	if err := n.check(k); err != nil {
		return "", err
	}
	if len(k) <= maxInternedBytes {
		n.put(k, k)
	}
	return k, nil
}

// sets gives one Labels for equal sets, by their key.
type sets struct{ cache[telemetry.Labels] }

// setWeight is what a set takes for a byte of its text: pairs of strings, and the texts themselves where other sets do
// not have them.
const setWeight = 4

func newSets() sets { return sets{newCache[telemetry.Labels](deviceBytes, setWeight)} }

// labels returns the set of those labels of a reading that have a value: as in Prometheus an empty one is none, and a
// reading with it is of the same series as one without it. It changes l, as get does.
func (s *sets) labels(l []telemetry.Label, scratch *[]byte) (telemetry.Labels, *fault) {
	return s.get(slices.DeleteFunc(l, func(x telemetry.Label) bool { return x.Value == "" }), scratch)
}

// get returns the set of all labels or tags: an empty tag takes away one that was set before. It sorts l in place.
// The set shares no memory with l and never changes. The fault is a name that occurs twice, with two values.
func (s *sets) get(l []telemetry.Label, scratch *[]byte) (telemetry.Labels, *fault) {
	sorted, ambiguous := telemetry.UniqueLabels(l)
	switch {
	case ambiguous != "":
		return nil, faultf(Label, "the label or tag %q occurs twice, with two values", ambiguous)
	case sorted == nil:
		return nil, nil
	}
	*scratch = sorted.AppendKey((*scratch)[:0])
	if known, ok := s.known[string(*scratch)]; ok {
		return known, nil
	}
	own := slices.Clone(sorted)
	if len(*scratch) <= maxInternedBytes*2 {
		s.put(string(*scratch), own)
	}
	return own, nil
}
