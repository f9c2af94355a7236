package decode

import (
	"cmp"
	"hash/maphash"
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

// cache has values by text, and takes a bounded number of bytes. What is new when it is full is not remembered: so
// where a little more comes by turns than there is room for, most of it is found, and the rest costs little more than
// looking for it. After turning away four times as many entries as it has, it begins again with none: others come.
//
// Making room for each that comes, by age or by chance, was measured to cost more than it saves: devices take turns, so
// the one that goes is soon asked for, and each change is a walk through memory that no cache holds. A map is such a
// walk too: here a look touches the place, which has the whole hash, the entry and its text.
type cache[V any] struct {
	places []cachePlace[V] // a power of two, at most half of them taken; an entry stands at its hash or behind
	n      int
	bytes  int
	away   int // entries that were turned away
	most   int
	// weight is how many bytes an entry takes for a byte of its text, in addition to entryBytes.
	weight int
}

type cachePlace[V any] struct {
	hash uint64
	*cached[V]
}

type cached[V any] struct {
	text  string
	value V
}

// entryBytes is about the bytes of an entry without its text: its value, and some three places.
const entryBytes = 80

const fewestPlaces = 16

func newCache[V any](most, weight int) cache[V] {
	return cache[V]{places: make([]cachePlace[V], fewestPlaces), most: most, weight: weight}
}

var textSeed = maphash.MakeSeed()

// find returns the entry of a text, nil for an unknown one.
func (r *cache[V]) find(text []byte) *cached[V] {
	hash := maphash.Bytes(textSeed, text)
	for at := hash; ; at++ {
		p := &r.places[at&uint64(len(r.places)-1)]
		if p.cached == nil || p.hash == hash && p.text == string(text) {
			return p.cached
		}
	}
}

// get returns the value of a text.
func (r *cache[V]) get(text []byte) (v V, ok bool) {
	if e := r.find(text); e != nil {
		return e.value, true
	}
	return v, false
}

// put remembers a value by a text that is not known, and returns its entry, nil if it does not.
func (r *cache[V]) put(text string, v V) *cached[V] {
	size := entryBytes + r.weight*len(text)
	if r.bytes+size > r.most {
		if r.away++; r.away <= 4*r.n {
			return nil
		}
		*r = newCache[V](r.most, r.weight)
	}
	if r.n++; 2*r.n > len(r.places) {
		few := r.places
		r.places = make([]cachePlace[V], 2*len(few))
		for _, p := range few {
			if p.cached != nil {
				r.place(p)
			}
		}
	}
	r.bytes += size
	e := &cached[V]{text, v}
	r.place(cachePlace[V]{maphash.String(textSeed, text), e})
	return e
}

func (r *cache[V]) place(p cachePlace[V]) {
	at := p.hash
	for r.places[at&uint64(len(r.places)-1)].cached != nil {
		at++
	}
	r.places[at&uint64(len(r.places)-1)] = p
}

// interner gives strings for bytes, the same string for the same bytes, and checks each but once. The value is the
// slot of a device's name.
type interner struct {
	cache[int32]
	last  *cached[int32] // the one that get found last
	check func(string) error
}

func newInterner(most int, check func(string) error) interner {
	return interner{cache: newCache[int32](most, 1), last: &cached[int32]{}, check: check}
}

func (n *interner) get(b []byte) (string, error) {
	if string(b) == n.last.text && len(b) > 0 {
		return n.last.text, nil
	}
	if e := n.find(b); e != nil {
		n.last = e
		return e.text, nil
	}
	k := string(b)
	if err := n.check(k); err != nil {
		return "", err
	}
	if len(k) <= maxInternedBytes {
		n.last = cmp.Or(n.put(k, 0), n.last)
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
	if e := s.find(*scratch); e != nil {
		return e.value, nil
	}
	own := slices.Clone(sorted)
	if len(*scratch) <= maxInternedBytes*2 {
		s.put(string(*scratch), own)
	}
	return own, nil
}
