package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/bytesread"

	"github.com/klauspost/compress/zstd"
)

// maxUnpacked bounds what the columns of a page unpack to.
const maxUnpacked = 64 << 20

// packers and unpacker are safe for any number of callers. Texts of digits are shorter by the fastest packer. The
// library's own window would take 19 MB more.
var (
	packers = sync.OnceValue(func() (list [2]*zstd.Encoder) {
		for i, level := range []zstd.EncoderLevel{zstd.SpeedBetterCompression, zstd.SpeedFastest} {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
				zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithWindowSize(1<<20),
				zstd.WithLowerEncoderMem(true))
			if err != nil {
				panic(err) // the options are right
			}
			list[i] = w
		}
		return list
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			panic(err)
		}
		return r
	})
)

// columnWriter writes entries column by column. Similar values share a part, since each part is packed alone.
type columnWriter struct {
	out []byte
	// ends are the ends of parts in out.
	ends []int
}

func (w *columnWriter) end() { w.ends = append(w.ends, len(w.out)) }

// packed returns the parts: for each its size, its packed size, and its packed bytes.
func (w *columnWriter) packed() (out []byte) {
	w.end()
	from := 0
	for _, end := range w.ends {
		part := w.out[from:end]
		if from = end; len(part) == 0 {
			continue
		}
		packed := part
		for _, p := range packers() {
			if one := p.EncodeAll(part, nil); len(one) < len(packed) {
				packed = one
			}
		}
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = binary.AppendUvarint(out, uint64(len(packed)))
		out = append(out, packed...)
	}
	return out
}

func unpack(packed []byte, size int) ([]byte, error) {
	out := make([]byte, 0, min(size, 1<<20))
	for r := (bytesread.Reader{Rest: packed}); len(r.Rest) > 0; {
		has := r.Uvarint(uint64(size - len(out)))
		part := r.Take(int(r.Uvarint(has)))
		if r.Err != nil {
			return nil, fmt.Errorf("%w: a part of columns: %w", ErrCorrupt, r.Err)
		}
		before := len(out)
		if uint64(len(part)) == has {
			out = append(out, part...)
			continue
		}
		var head zstd.Header
		err := head.Decode(part)
		if err == nil && (!head.HasFCS || head.FrameContentSize != has) {
			err = errors.New("another size")
		}
		if err == nil {
			out, err = unpacker().DecodeAll(part, out)
		}
		if err != nil || len(out)-before != int(has) {
			return nil, fmt.Errorf("%w: a part of %d bytes: %w", ErrCorrupt, has, err)
		}
	}
	if len(out) != size {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", ErrCorrupt, len(out), size)
	}
	return out, nil
}

// numbers writes a column: the number of bytes of every value, then all lowest bytes, then all next ones.
func (w *columnWriter) numbers(column []uint64) {
	w.end()
	var most uint64
	for _, n := range column {
		most |= n
	}
	width := (bits.Len64(most) + 7) / 8
	w.out = append(w.out, byte(width))
	for k := range width {
		w.end()
		for _, n := range column {
			w.out = append(w.out, byte(n>>(8*k)))
		}
	}
	w.end()
}

// texts writes the lengths, then the bytes.
func (w *columnWriter) texts(list []string) {
	w.out = binary.AppendUvarint(w.out, uint64(len(list)))
	lengths := make([]uint64, len(list))
	for i, s := range list {
		lengths[i] = uint64(len(s))
	}
	w.numbers(lengths)
	for _, s := range list {
		w.out = append(w.out, s...)
	}
	w.end()
}

// sorted writes texts in order: how many bytes each text shares with the one before, then the remaining bytes.
func (w *columnWriter) sorted(list []string) {
	rest, shared := make([]string, len(list)), make([]uint64, len(list))
	before := ""
	for i, s := range list {
		n := 0
		for n < len(s) && n < len(before) && s[n] == before[n] {
			n++
		}
		shared[i], rest[i], before = uint64(n), s[n:], s
	}
	w.numbers(shared)
	w.texts(rest)
}

const (
	// maxTexts bounds a dictionary.
	maxTexts = 1 << 20
	maxSpan  = 1 << 60 // ms between two times
)

// dictionary numbers texts in the order in which they come.
type dictionary[T comparable] struct {
	codes map[T]int
	list  []T
}

// place returns the place of a value in the list, which gets it if it has not.
func (d *dictionary[T]) place(v T) (place int, isNew bool) {
	if i, ok := d.codes[v]; ok {
		return i, false
	}
	if d.codes == nil {
		d.codes = make(map[T]int)
	}
	d.codes[v] = len(d.list)
	d.list = append(d.list, v)
	return len(d.list) - 1, true
}

// code returns 1 for a value that was not there before, else 2 and its place. 0 is left for none.
func (d *dictionary[T]) code(v T) uint64 {
	place, isNew := d.place(v)
	if isNew {
		return 1
	}
	return uint64(place) + 2
}

func (w *columnWriter) entries(entries []Entry) {
	ids := make([]string, len(entries))
	base := int64(math.MaxInt64)
	for i := range entries {
		ids[i] = entries[i].Device
		if e := &entries[i]; e.First <= e.Last {
			base = min(base, e.First)
		}
	}
	w.sorted(ids)
	w.out = binary.AppendVarint(w.out, base)
	first, span := make([]uint64, len(entries)), make([]uint64, len(entries))
	// 0 is no times.
	for i := range entries {
		if e := &entries[i]; e.First <= e.Last {
			first[i], span[i] = uint64(e.First-base)+1, uint64(e.Last-e.First)
		}
	}
	w.numbers(first)
	w.numbers(span)
	w.metrics(entries)
	w.labels(entries)
	w.tags(entries)
}

// number returns the values of all lists, each once, in the order in which they come, and writes every list as a set of
// their places. of returns the list of an entry.
func number[T comparable](n int, of func(i int) []T) (list []T, sets [][]byte) {
	var dict dictionary[T]
	sets = make([][]byte, n)
	for i := range n {
		for _, x := range of(i) {
			place, _ := dict.place(x)
			sets[i] = binary.AppendUvarint(sets[i], uint64(place))
		}
	}
	return dict.list, sets
}

// sets writes a dictionary of sets, and every entry's number of a set.
func (w *columnWriter) sets(sets [][]byte) {
	var dict dictionary[string]
	codes := make([]uint64, len(sets))
	for i, set := range sets {
		if len(set) > 0 {
			codes[i] = dict.code(string(set))
		}
	}
	w.texts(dict.list)
	w.numbers(codes)
}

func (w *columnWriter) metrics(entries []Entry) {
	list, sets := number(len(entries), func(i int) []Metric { return entries[i].Metrics })
	var names, units []string
	var kinds []byte
	for _, m := range list {
		names, units, kinds = append(names, m.Name), append(units, m.Unit), append(kinds, byte(m.Kind))
	}
	w.texts(names)
	w.texts(units)
	w.out = append(w.out, kinds...)
	w.sets(sets)
}

func (w *columnWriter) labels(entries []Entry) {
	list, sets := number(len(entries), func(i int) []telemetry.Label { return entries[i].Labels })
	var names, values []string
	for _, l := range list {
		names, values = append(names, l.Name), append(values, l.Value)
	}
	w.texts(names)
	w.texts(values)
	w.sets(sets)
}

// tags writes a column for each name: a dictionary, every entry's value, and when it was set, as the difference to the
// tag before it of the same device.
func (w *columnWriter) tags(entries []Entry) {
	// byName holds, for every entry, the place of a tag in its list, -1 for none.
	byName := make(map[string][]int)
	var names []string
	for i := range entries {
		for j, t := range entries[i].Tags {
			column, ok := byName[t.Name]
			if !ok {
				column = slices.Repeat([]int{-1}, len(entries))
				names = append(names, t.Name)
			}
			column[i] = j
			byName[t.Name] = column
		}
	}
	slices.Sort(names)
	w.texts(names)
	updated := make([]int64, len(entries))
	last := int64(0)
	for _, name := range names {
		var dict dictionary[string]
		codes, later := make([]uint64, len(entries)), make([]uint64, len(entries))
		for i, j := range byName[name] {
			if j < 0 {
				continue
			}
			t := entries[i].Tags[j]
			codes[i] = dict.code(t.Value)
			if updated[i] == 0 {
				updated[i] = last
			}
			later[i] = zigzag(t.Updated - updated[i])
			updated[i], last = t.Updated, t.Updated
		}
		w.texts(dict.list)
		w.numbers(codes)
		w.numbers(later)
	}
}

// positions writes where tags come from: a set for each entry, from which tag on, in order, which stream and partition
// count; before them the offsets of all sets, each less the one before it of the same stream and partition. It writes
// nothing where no tag has a source.
func (w *columnWriter) positions(entries []Entry) {
	sets, last := make([][]byte, len(entries)), make(map[telemetry.Source]int64)
	var offsets []uint64
	for i := range entries {
		before := telemetry.Source{}
		for k, t := range entries[i].Tags {
			if s := t.Source; s != before {
				set := binary.AppendUvarint(binary.AppendUvarint(sets[i], uint64(k)), uint64(s.Stream))
				sets[i] = binary.AppendVarint(set, int64(s.Partition))
				log := telemetry.Source{Stream: s.Stream, Partition: s.Partition}
				offsets = append(offsets, zigzag(s.Through-last[log]))
				last[log], before = s.Through, s
			}
		}
	}
	if len(offsets) > 0 {
		w.out = binary.AppendUvarint(w.out, uint64(len(offsets)))
		w.numbers(offsets)
		w.sets(sets)
	}
}

func zigzag(n int64) uint64   { return uint64(n<<1) ^ uint64(n>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// columnReader reads what columnWriter writes. After a fault all that it returns is empty.
type columnReader struct {
	bytesread.Reader
	devices int // how many the page has
}

func (r *columnReader) numbers(n int) []uint64 {
	width, out := r.Byte(), make([]uint64, n)
	if width > 8 {
		r.Failf("a column of numbers of %d bytes", width)
	}
	for k := range width {
		for i, b := range r.Take(n) {
			out[i] |= uint64(b) << (8 * k)
		}
	}
	return out
}

// texts reads a list. What it returns shares no memory with all that was unpacked.
func (r *columnReader) texts() []string {
	n := int(r.Uvarint(maxTexts))
	lengths := r.numbers(n)
	total := uint64(0)
	for _, n := range lengths {
		if total += n; n > maxUnpacked || total > maxUnpacked {
			r.Failf("texts of %d bytes", total)
			return nil
		}
	}
	all := string(r.Take(int(total)))
	if r.Err != nil {
		return nil
	}
	out := make([]string, n)
	for i, n := range lengths {
		out[i], all = all[:n], all[n:]
	}
	return out
}

func (r *columnReader) sorted(n int) []string {
	shared := r.numbers(n)
	rest := r.texts()
	if r.Err == nil && len(rest) != n {
		r.Failf("%d texts instead of %d", len(rest), n)
	}
	if r.Err != nil {
		return nil
	}
	total := 0
	for i, s := range rest {
		if shared[i] > maxUnpacked || total > maxUnpacked {
			r.Failf("ids of more than %d bytes", maxUnpacked)
			return nil
		}
		total += int(shared[i]) + len(s)
	}
	all, ends, before := make([]byte, 0, total), make([]int, n), 0
	for i, s := range rest {
		from := len(all)
		if before+int(shared[i]) > from {
			r.Failf("an id shares more than there is")
			return nil
		}
		all = append(append(all, all[before:before+int(shared[i])]...), s...)
		before, ends[i] = from, len(all)
	}
	text, from, out := string(all), 0, make([]string, n)
	for i, end := range ends {
		out[i], from = text[from:end], end
		if i > 0 && out[i] <= out[i-1] {
			r.Failf("device %q comes after %q", out[i], out[i-1])
			return nil
		}
	}
	return out
}

// places reads a column of codes of a dictionary of a size: -1 for none.
func (r *columnReader) places(n, size int) []int {
	out, seen := make([]int, n), 0
	for i, c := range r.numbers(n) {
		switch {
		case c == 0:
			out[i] = -1
		case c == 1 && seen < size:
			out[i] = seen
			seen++
		case c > 1 && c-2 < uint64(seen):
			out[i] = int(c) - 2
		default:
			r.Failf("code %d of a dictionary that has %d of %d entries so far", c, seen, size)
			out[i] = -1
		}
	}
	return out
}

func (r *columnReader) entries() []Entry {
	n := r.devices
	out := make([]Entry, n)
	for i, id := range r.sorted(n) {
		out[i].Device = id
	}
	base := r.Varint()
	first, span := r.numbers(n), r.numbers(n)
	for i := range out {
		out[i].First = 1
		if first[i] == 0 {
			continue
		}
		out[i].First = base + int64(first[i]-1)
		out[i].Last = out[i].First + int64(span[i])
		if first[i] > maxSpan || span[i] > maxSpan || base < -maxSpan || base > maxSpan {
			r.Failf("a time beyond all times")
		}
	}
	r.metrics(out)
	r.labels(out)
	r.tags(out)
	if r.Err != nil {
		return nil
	}
	return out
}

// readSets reads the set of each entry. A dictionary comes first: its sets name elements of the list, in order. Entries
// with the same set share its memory.
func readSets[T any](r *columnReader, list []T, compare func(T, T) int) [][]T {
	texts, out := r.texts(), make([][]T, r.devices)
	sets := make([][]T, len(texts))
	for i, s := range texts {
		one := bytesread.Reader{Rest: []byte(s)}
		for len(one.Rest) > 0 && len(list) > 0 {
			sets[i] = append(sets[i], list[one.Uvarint(uint64(len(list)-1))])
		}
		if one.Err != nil || len(sets[i]) == 0 || !ordered(sets[i], compare) {
			r.Failf("a set of %d bytes is none, or not in order", len(s))
		}
	}
	for i, k := range r.places(r.devices, len(sets)) {
		if k >= 0 && r.Err == nil {
			out[i] = sets[k]
		}
	}
	return out
}

func (r *columnReader) metrics(out []Entry) {
	names, units := r.texts(), r.texts()
	if len(units) != len(names) {
		r.Failf("%d units of %d metrics", len(units), len(names))
	}
	var list []Metric
	for i, kind := range r.Take(len(names)) {
		list = append(list, Metric{names[i], telemetry.Kind(kind), units[i]})
		if list[i].Kind < telemetry.Float || list[i].Kind > telemetry.Text {
			r.Failf("kind %d", kind)
		}
	}
	for i, set := range readSets(r, list, Metric.Compare) {
		out[i].Metrics = set
	}
}

func (r *columnReader) labels(out []Entry) {
	names, values := r.texts(), r.texts()
	if len(values) != len(names) {
		r.Failf("%d values of %d labels", len(values), len(names))
		return
	}
	var list []telemetry.Label
	for i, name := range names {
		list = append(list, telemetry.Label{Name: name, Value: values[i]})
	}
	for i, set := range readSets(r, list, CompareLabels) {
		out[i].Labels = set
	}
}

func ordered[T any](list []T, compare func(T, T) int) bool {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			return false
		}
	}
	return true
}

func (r *columnReader) tags(out []Entry) {
	names := r.texts()
	updated := make([]int64, len(out))
	last := int64(0)
	for k, name := range names {
		if k > 0 && name <= names[k-1] {
			r.Failf("tag %q comes after %q", name, names[k-1])
		}
		values := r.texts()
		places := r.places(len(out), len(values))
		later := r.numbers(len(out))
		if r.Err != nil {
			return
		}
		for i, at := range places {
			if at < 0 {
				continue
			}
			if updated[i] == 0 {
				updated[i] = last
			}
			updated[i] += unzigzag(later[i])
			last = updated[i]
			out[i].Tags = append(out[i].Tags, Tag{Name: name, Value: values[at], Updated: updated[i]})
		}
	}
}

// sources reads where tags come from. Releases before positions wrote each offset into its set.
func (r *columnReader) sources(out []Entry, arePositions bool) {
	var offsets []uint64
	if len(r.Rest) == 0 {
		return
	} else if arePositions {
		offsets = r.numbers(int(r.Uvarint(maxTexts)))
	}
	last := make(map[telemetry.Source]int64)
	sets := r.texts()
	for i, at := range r.places(len(out), len(sets)) {
		if at < 0 || r.Err != nil {
			continue
		}
		one, tags := bytesread.Reader{Rest: []byte(sets[at])}, out[i].Tags
		for len(one.Rest) > 0 {
			from, stream := one.Uvarint(uint64(len(tags))), uint32(one.Uvarint(math.MaxUint32))
			s := telemetry.Source{Stream: stream, Partition: int32(one.Varint())}
			switch {
			case !arePositions:
				s.Through = one.Varint()
			case len(offsets) == 0:
				one.Failf("more sources than offsets")
			default:
				last[s] += unzigzag(offsets[0])
				s.Through, offsets = last[s], offsets[1:]
			}
			for k := range tags[from:] {
				tags[from:][k].Source = s
			}
		}
		if one.Err != nil {
			r.Failf("sources of tags: %v", one.Err)
		}
	}
}
