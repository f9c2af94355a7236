package catalog

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
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
	// stamps says, by device, which record set its first tag, and when. origins has what many stamps share.
	stamps  blocks[stamp]
	origins dictionary[origin]
	// tags is keyed by name, and names lists the names in order.
	tags  map[string]*tag
	names []string

	metricSets sets[Metric]
	labelSets  sets[telemetry.Label]
	forgotten  map[Forgotten]int64 // until when, by the rest of it
	updated    int64
}

// NewIndex makes an index of no device.
func NewIndex() *Index {
	x := &Index{
		devices: newWords(), tags: make(map[string]*tag), forgotten: make(map[Forgotten]int64),
		metricSets: newSets(func(m Metric) int64 { return int64(40 + len(m.Name)/8 + len(m.Unit)/8) }), // names are shared
		labelSets:  newSets(func(l telemetry.Label) int64 { return int64(32 + len(l.Value)) }),
	}
	x.origins.place(origin{updated: math.MinInt64}) // the zero stamp takes place 0, which no tag has
	return x
}

// tag is a column of the values of a tag.
type tag struct {
	values words
	codes  blocks[uint32] // 0: none, else the value's number and 1
	stamps blocks[stamp]  // the zero stamp is Index.stamps'
	count  int            // devices that have it
}

// stamp is what a Tag has beside its name and value: the place of its origin, and the lower half of its offset.
type stamp struct{ origin, offset uint32 }

// origin is what a stamp has beside the lower half of its offset.
type origin struct {
	source  telemetry.Source
	updated int64
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
	size func(T) int64
	list [][]T
	by   map[uint64][]uint32
	held int64
}

func newSets[T comparable](size func(T) int64) sets[T] {
	return sets[T]{size: size, list: [][]T{nil}, by: make(map[uint64][]uint32)}
}

func (s *sets[T]) number(set []T) uint32 {
	if len(set) == 0 {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, x := range set {
		maphash.WriteComparable(&h, x)
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
		key := Forgotten{Device: f.Device, Account: f.Account}
		if until, ok := x.forgotten[key]; !ok || until < f.Until {
			x.forgotten[key] = f.Until
			whole = whole && x.Len() == 0
		}
	}
	if !whole {
		return false
	}
	x.updated = max(x.updated, p.Updated)
	for i := range p.Entries {
		if until, ok := x.ForgottenUntil(p.Entries[i].Device, p.Account); ok && p.Updated <= until {
			continue
		}
		x.add(&p.Entries[i])
	}
	return true
}

// ForgottenUntil returns the time up to which pages of an account with an entry of a device do not count, ms. Of a
// tenant that is forgotten as a whole that is all devices.
func (x *Index) ForgottenUntil(device, account string) (until int64, ok bool) {
	if len(x.forgotten) == 0 {
		return 0, false
	}
	for _, digest := range []uint64{Digest(device), Digest("")} {
		for of, isLast := account, false; !isLast; of = of[:max(0, strings.LastIndexByte(of, '/'))] {
			if at, isForgotten := x.forgotten[Forgotten{Device: digest, Account: of}]; isForgotten {
				until, ok = max(until, at), true
			}
			isLast = of == ""
		}
	}
	return until, ok
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
	for f, until := range x.forgotten {
		f.Until = until
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Forgotten) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), strings.Compare(a.Account, b.Account))
	})
	return out
}

func (x *Index) add(e *Entry) {
	i, fresh := x.devices.number(e.Device)
	times := Entry{First: x.first.get(i), Last: x.last.get(i)}
	if fresh {
		times.First, times.Last = e.First, e.Last
	}
	times.Span(e.First, e.Last)
	x.first.set(i, times.First)
	x.last.set(i, times.Last)
	if known := x.metrics.get(i); len(e.Metrics) > 0 {
		x.metrics.set(i, x.metricSets.number(union(x.metricSets.list[known], e.Metrics, Metric.Compare)))
	}
	if known := x.labels.get(i); len(e.Labels) > 0 {
		x.labels.set(i, x.labelSets.number(limitLabelValues(union(x.labelSets.list[known], e.Labels, CompareLabels))))
	}
	for _, t := range e.Tags {
		c := x.tags[t.Name]
		if c == nil {
			c = &tag{values: newWords()}
			name := strings.Clone(t.Name)
			x.tags[name], x.names = c, insertSorted(x.names, name)
		}
		if known, found := x.tag(t.Name, i); !found {
			c.count++
		} else if !t.supersedes(known) {
			continue
		}
		v, _ := c.values.number(t.Value)
		c.codes.set(i, uint32(v)+1)
		x.stamp(c, i, t)
	}
}

// stamp notes which record set a tag of a device. Tags that one record has set share a stamp.
func (x *Index) stamp(c *tag, i int, t Tag) {
	s, first, o := stamp{}, x.stamps.get(i), origin{t.Source, t.Updated}
	if x.origin(first) != o {
		o.source.Through >>= 32
		place, _ := x.origins.place(o)
		s = stamp{uint32(place), uint32(t.Source.Through)}
	}
	if first.origin == 0 {
		x.stamps.set(i, s)
		s = first
	}
	c.stamps.set(i, s)
}

// origin returns the source of a stamp, with the whole offset, and its time.
func (x *Index) origin(s stamp) origin {
	o := x.origins.list[s.origin]
	o.source.Through = o.source.Through<<32 | int64(s.offset)
	return o
}

// tag returns the tag of a device by its name; ok is false if it has none.
func (x *Index) tag(name string, i int) (t Tag, ok bool) {
	c := x.tags[name]
	code := c.codes.get(i)
	if code == 0 {
		return t, false
	}
	s := c.stamps.get(i)
	if s.origin == 0 {
		s = x.stamps.get(i)
	}
	o := x.origin(s)
	return Tag{Name: name, Value: c.values.list[code-1], Source: o.source, Updated: o.updated}, true
}

// Len returns how many devices there are.
func (x *Index) Len() int { return len(x.devices.list) }

// Devices returns the devices of the index, in no order.
func (x *Index) Devices() []string { return slices.Clone(x.devices.list) }

// Updated returns the time of the newest page, ms.
func (x *Index) Updated() int64 { return x.updated }

// Entry returns the entry of a device; it has no times if ok is false.
func (x *Index) Entry(device string) (e Entry, ok bool) {
	i, _ := x.devices.find(device)
	if i < 0 {
		return Entry{First: 1}, false
	}
	return x.entry(i), true
}

func (x *Index) entry(i int) Entry {
	e := Entry{
		Device: x.devices.list[i], First: x.first.get(i), Last: x.last.get(i),
		Metrics: x.metricSets.list[x.metrics.get(i)], Labels: x.labelSets.list[x.labels.get(i)],
	}
	for _, name := range x.names {
		if t, ok := x.tag(name, i); ok {
			e.Tags = append(e.Tags, t)
		}
	}
	return e
}

// Diff returns what an entry that was seen has and the index lacks; ok is false if that is nothing. Tags get the time
// updated. A first time is part of it, a last one only with times.
func (x *Index) Diff(e Entry, updated int64, times bool) (diff Entry, ok bool) {
	known, _ := x.Entry(e.Device)
	diff = Entry{Device: e.Device, First: 1}
	if e.First <= e.Last && (known.First > known.Last || e.First < known.First || times && e.Last > known.Last) {
		diff.First, diff.Last = e.First, e.Last
	}
	for _, m := range difference(e.Metrics, known.Metrics, Metric.Compare) {
		same := func(o Metric) bool { return o.Name == m.Name && o.Kind == m.Kind }
		if m.Unit != "" || !slices.ContainsFunc(known.Metrics, same) {
			diff.Metrics = append(diff.Metrics, m)
		}
	}
	if merged := limitLabelValues(union(known.Labels, e.Labels, CompareLabels)); len(merged) > len(known.Labels) {
		diff.Labels = difference(e.Labels, known.Labels, CompareLabels)
	}
	for _, t := range e.Tags {
		if k, found := slices.BinarySearchFunc(known.Tags, t, compareTags); !found {
			t.Updated, t.Replaces = updated, false
		} else if t, found = t.after(known.Tags[k], updated); !found {
			continue
		}
		diff.Tags = append(diff.Tags, t)
	}
	return diff, diff.First <= diff.Last || len(diff.Metrics)+len(diff.Labels)+len(diff.Tags) > 0
}

// after returns what is written of a tag that was seen where the catalog has one; ok is false for nothing (rule W13).
func (t Tag) after(known Tag, updated int64) (out Tag, ok bool) {
	later, log := t.Source.Compare(known.Source), known.Source
	log.Through = t.Source.Through
	switch {
	case t.Value == known.Value && (later <= 0 || !t.Replaces),
		later < 0 && (log == t.Source || t.Updated <= known.Updated):
		return t, false
	case later < 0: // the device has moved to an older log
		t.Source = known.Source
	default:
		t.Updated = max(updated, known.Updated+1)
	}
	t.Replaces = false
	return t, true
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
		x.stamps.bytes(8) + int64(100*len(x.origins.list))
	for name, c := range x.tags {
		n += int64(len(name)) + c.values.bytes() + c.codes.bytes(4) + c.stamps.bytes(8)
	}
	return n + x.metricSets.held + x.labelSets.held + int64(64*len(x.forgotten))
}

// TagNames returns the names of tags, in order.
func (x *Index) TagNames() []string { return slices.Clone(x.names) }
