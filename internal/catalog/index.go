package catalog

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
)

// Index is a catalog in memory: a number for each device, and columns of codes by that number, in blocks, so that what
// few devices have takes little. Tags and names stand in dictionaries, each value once. A matcher looks at each value
// of a dictionary, and then at the codes: a million of them are read in about a millisecond, which is why there are no
// inverted lists.
//
// Many may read it at a time, or one change it.
type Index struct {
	devices words          // ids, by number
	first   blocks[int64]  // times; first above last: none is known
	last    blocks[int64]  //
	metrics blocks[uint32] // sets, by device
	labels  blocks[uint32] //
	// firstTagged is when the first tag was set.
	firstTagged blocks[int64]
	// tags is keyed by name, and names lists the names in order.
	tags  map[string]*tag
	names []string

	metricSets sets[Metric]
	labelSets  sets[telemetry.Label]
	forgotten  map[uint64]int64 // until when, by digest
	updated    int64
}

// NewIndex makes an index of no device.
func NewIndex() *Index {
	return &Index{
		devices: newWords(), tags: make(map[string]*tag), forgotten: make(map[uint64]int64),
		metricSets: newSets(Metric.hash, Metric.bytes), labelSets: newSets(labelHash, labelBytes),
	}
}

// tag is a column of the values of a tag.
type tag struct {
	values words
	codes  blocks[uint32] // 0: none, else the value's number and 1
	delay  blocks[int64]  // how long after the device's first tag the value was set, ms
	count  int            // devices that have it
}

// blockDevices is how many devices a block of a column has.
const blockDevices = 1024

// blocks is a column. What no block is there for is zero.
type blocks[T comparable] struct{ list []*[blockDevices]T }

func (b *blocks[T]) get(i int) (zero T) {
	if k := i / blockDevices; k < len(b.list) && b.list[k] != nil {
		return b.list[k][i%blockDevices]
	}
	return zero
}

func (b *blocks[T]) set(i int, v T) {
	var zero T
	k := i / blockDevices
	for k >= len(b.list) {
		if v == zero {
			return
		}
		b.list = append(b.list, nil)
	}
	if b.list[k] == nil {
		if v == zero {
			return
		}
		b.list[k] = new([blockDevices]T)
	}
	b.list[k][i%blockDevices] = v
}

// block returns the elements of a block, nil if all are zero.
func (b *blocks[T]) block(k int) *[blockDevices]T {
	if k < len(b.list) {
		return b.list[k]
	}
	return nil
}

func (b *blocks[T]) bytes(each int) (n int64) {
	for _, x := range b.list {
		if x != nil {
			n += int64(each) * blockDevices
		}
	}
	return n + int64(8*cap(b.list))
}

var seed = maphash.MakeSeed()

// words numbers texts, each once, in the order in which they come.
type words struct {
	list  []string
	slots []uint32 // open addressing: 0 is free, else the number and 1
	held  int64    // bytes of the texts
}

func newWords() words { return words{slots: make([]uint32, 8)} }

// find returns the number of a text, -1 if it has none, and where it would stand.
func (w *words) find(s string) (number int, slot uint64) {
	mask := uint64(len(w.slots) - 1)
	for slot = maphash.String(seed, s) & mask; ; slot = (slot + 1) & mask {
		switch at := w.slots[slot]; {
		case at == 0:
			return -1, slot
		case w.list[at-1] == s:
			return int(at - 1), slot
		}
	}
}

// number returns the number of a text, which gets one if it has none.
func (w *words) number(s string) (number int, fresh bool) {
	number, slot := w.find(s)
	if number >= 0 {
		return number, false
	}
	w.list = append(w.list, s)
	w.held += int64(len(s))
	w.slots[slot] = uint32(len(w.list))
	if len(w.list) > len(w.slots)*5/8 {
		w.slots = make([]uint32, 2*len(w.slots))
		for i, s := range w.list {
			_, slot := w.find(s)
			w.slots[slot] = uint32(i + 1)
		}
	}
	return len(w.list) - 1, true
}

func (w *words) bytes() int64 { return int64(16*cap(w.list)+4*len(w.slots)) + w.held }

// sets numbers sets of elements, each once. 0 is the empty one.
type sets[T comparable] struct {
	hash func(T, *maphash.Hash)
	size func(T) int64
	list [][]T
	by   map[uint64][]uint32
	held int64
}

func newSets[T comparable](hash func(T, *maphash.Hash), size func(T) int64) sets[T] {
	return sets[T]{hash: hash, size: size, list: [][]T{nil}, by: make(map[uint64][]uint32)}
}

func (s *sets[T]) number(set []T) uint32 {
	if len(set) == 0 {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, x := range set {
		s.hash(x, &h)
	}
	key := h.Sum64()
	for _, i := range s.by[key] {
		if slices.Equal(s.list[i], set) {
			return i
		}
	}
	s.list = append(s.list, slices.Clone(set))
	for _, x := range set {
		s.held += s.size(x)
	}
	s.held += 64
	n := uint32(len(s.list) - 1)
	s.by[key] = append(s.by[key], n)
	return n
}

func (m Metric) hash(h *maphash.Hash) {
	_, _ = h.WriteString(m.Name)
	_ = h.WriteByte(byte(m.Kind))
	_, _ = h.WriteString(m.Unit)
}

func (m Metric) bytes() int64 { return int64(40 + len(m.Name)/8 + len(m.Unit)/8) } // names are shared

func labelHash(l telemetry.Label, h *maphash.Hash) {
	_, _ = h.WriteString(l.Name)
	_ = h.WriteByte(0xff)
	_, _ = h.WriteString(l.Value)
}

func labelBytes(l telemetry.Label) int64 { return int64(32 + len(l.Value)) }

// Digest returns the digest by which a device is forgotten.
func Digest(device string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(device) {
		h = (h ^ uint64(device[i])) * prime
	}
	return h
}

// Add makes what a page says part of the index. It returns false, and has added nothing but what is forgotten, when the
// page forgets devices that may have been added before: then all pages must be added again, to what Anew returns.
func (x *Index) Add(p Page) bool {
	whole := true
	for _, f := range p.Forget {
		if until, ok := x.forgotten[f.Device]; !ok || until < f.Until {
			x.forgotten[f.Device] = f.Until
			whole = whole && x.Len() == 0
		}
	}
	if !whole {
		return false
	}
	x.updated = max(x.updated, p.Updated)
	for i := range p.Entries {
		if until, ok := x.ForgottenUntil(p.Entries[i].Device); ok && p.Updated <= until {
			continue
		}
		x.add(&p.Entries[i])
	}
	return true
}

// ForgottenUntil returns the time up to which pages with an entry of a device do not count, ms.
func (x *Index) ForgottenUntil(device string) (until int64, ok bool) {
	if len(x.forgotten) > 0 {
		until, ok = x.forgotten[Digest(device)]
	}
	return until, ok
}

// Doubt marks the tags of entries as unknown: their page may be stored or not, and Diff returns the tags again.
func (x *Index) Doubt(entries []Entry) {
	for i := range entries {
		e := Entry{Device: entries[i].Device, First: 1, Tags: slices.Clone(entries[i].Tags)}
		for k := range e.Tags {
			e.Tags[k].Value = "\xff" // no reading has this value
		}
		if len(e.Tags) > 0 {
			x.add(&e)
		}
	}
}

// Emptied returns an index of no device that knows which devices to forget.
func (x *Index) Emptied() *Index {
	out := NewIndex()
	maps.Copy(out.forgotten, x.forgotten)
	return out
}

// Forgotten returns the devices to forget, in order.
func (x *Index) Forgotten() []Forgotten {
	out := make([]Forgotten, 0, len(x.forgotten))
	for _, device := range slices.Sorted(maps.Keys(x.forgotten)) {
		out = append(out, Forgotten{device, x.forgotten[device]})
	}
	return out
}

func (x *Index) add(e *Entry) {
	i, fresh := x.devices.number(e.Device)
	switch {
	case fresh || e.First <= e.Last && x.first.get(i) > x.last.get(i):
		x.first.set(i, e.First)
		x.last.set(i, e.Last)
	case e.First <= e.Last:
		x.first.set(i, min(x.first.get(i), e.First))
		x.last.set(i, max(x.last.get(i), e.Last))
	}
	if known := x.metrics.get(i); len(e.Metrics) > 0 {
		x.metrics.set(i, x.metricSets.number(union(x.metricSets.list[known], e.Metrics, Metric.Compare)))
	}
	if known := x.labels.get(i); len(e.Labels) > 0 {
		x.labels.set(i, x.labelSets.number(limitLabelValues(union(x.labelSets.list[known], e.Labels, compareLabels))))
	}
	if len(e.Tags) > 0 && x.firstTagged.get(i) == 0 {
		x.firstTagged.set(i, max(e.Tags[0].Updated, 1))
	}
	for _, t := range e.Tags {
		t.Updated = max(t.Updated, 1)
		c := x.tags[t.Name]
		if c == nil {
			c = &tag{values: newWords()}
			name := strings.Clone(t.Name)
			x.tags[name], x.names = c, insertSorted(x.names, name)
		}
		code := c.codes.get(i)
		if code > 0 && !t.supersedes(c.values.list[code-1], x.firstTagged.get(i)+c.delay.get(i)) {
			continue
		}
		if code == 0 {
			c.count++
		}
		v, _ := c.values.number(t.Value)
		c.codes.set(i, uint32(v)+1)
		c.delay.set(i, t.Updated-x.firstTagged.get(i))
	}
}

// Len returns how many devices there are.
func (x *Index) Len() int { return len(x.devices.list) }

// Devices returns the devices of the index, in no order.
func (x *Index) Devices() []string { return slices.Clone(x.devices.list) }

// Updated returns the time of the newest page, ms.
func (x *Index) Updated() int64 { return x.updated }

// Entry returns the entry of a device.
func (x *Index) Entry(device string) (Entry, bool) {
	i, _ := x.devices.find(device)
	if i < 0 {
		return Entry{}, false
	}
	return x.entry(i), true
}

func (x *Index) entry(i int) Entry {
	e := Entry{
		Device: x.devices.list[i], First: x.first.get(i), Last: x.last.get(i),
		Metrics: x.metricSets.list[x.metrics.get(i)], Labels: x.labelSets.list[x.labels.get(i)],
	}
	for _, name := range x.names {
		c := x.tags[name]
		if code := c.codes.get(i); code > 0 {
			e.Tags = append(e.Tags, Tag{name, c.values.list[code-1], x.firstTagged.get(i) + c.delay.get(i)})
		}
	}
	return e
}

// Diff returns what an entry has that the index lacks; ok is false if that is nothing. Tags get the time updated, or a
// later one than the value that they replace. A first time is part of it, a last one only with times.
func (x *Index) Diff(e Entry, updated int64, times bool) (diff Entry, ok bool) {
	i, _ := x.devices.find(e.Device)
	if i < 0 {
		e.Tags = slices.Clone(e.Tags)
		for k := range e.Tags {
			e.Tags[k].Updated = updated
		}
		return e, true
	}
	known := x.entry(i)
	diff = Entry{Device: known.Device, First: 1}
	if e.First <= e.Last && (known.First > known.Last || e.First < known.First || times && e.Last > known.Last) {
		diff.First, diff.Last = e.First, e.Last
	}
	for _, m := range difference(e.Metrics, known.Metrics, Metric.Compare) {
		same := func(o Metric) bool { return o.Name == m.Name && o.Kind == m.Kind }
		if m.Unit != "" || !slices.ContainsFunc(known.Metrics, same) {
			diff.Metrics = append(diff.Metrics, m)
		}
	}
	if merged := limitLabelValues(union(known.Labels, e.Labels, compareLabels)); len(merged) > len(known.Labels) {
		diff.Labels = difference(e.Labels, known.Labels, compareLabels)
	}
	for _, t := range e.Tags {
		k, found := slices.BinarySearchFunc(known.Tags, t, compareTags)
		if found && known.Tags[k].Value == t.Value {
			continue
		}
		t.Updated = updated
		if found {
			t.Updated = max(updated, known.Tags[k].Updated+1)
		}
		diff.Tags = append(diff.Tags, t)
	}
	return diff, diff.First <= diff.Last || len(diff.Metrics)+len(diff.Labels)+len(diff.Tags) > 0
}

// difference returns the elements of a that b lacks. Both are sorted.
func difference[T any](a, b []T, compare func(T, T) int) (out []T) {
	for i := range a {
		if _, found := slices.BinarySearchFunc(b, a[i], compare); !found {
			out = append(out, a[i])
		}
	}
	return out
}

// Bytes returns about how much memory the index takes.
func (x *Index) Bytes() int64 {
	n := x.devices.bytes() + x.first.bytes(8) + x.last.bytes(8) + x.metrics.bytes(4) + x.labels.bytes(4) +
		x.firstTagged.bytes(8)
	for name, c := range x.tags {
		n += int64(len(name)) + c.values.bytes() + c.codes.bytes(4) + c.delay.bytes(8)
	}
	return n + x.metricSets.held + x.labelSets.held + int64(32*len(x.forgotten))
}

// TagNames returns the names of tags, in order.
func (x *Index) TagNames() []string { return slices.Clone(x.names) }
