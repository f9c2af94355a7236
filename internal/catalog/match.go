package catalog

import (
	"math/bits"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
)

// Matcher is a condition on one property of a device.
type Matcher struct {
	Of Property
	// Name is the name of a tag, or the name of a tag or label in PromQL.
	Name string
	// Match reports whether a value matches; "" is the value of a device without one. It is called once for each value
	// there is, not once for each device.
	Match func(value string) bool
	// Values are all that match, where that is known; else nil.
	Values []string
}

// Property is what a Matcher looks at.
type Property int

// The properties of a device.
const (
	OfDevice Property = iota // its id
	OfMetric                 // any of its metrics
	OfTag                    // a tag
	OfName                   // a name of PromQL: a tag, or any value of a label; a device that may match does
)

// Set is a set of devices of an index, by number. It has devices that the index had when the set was made.
type Set struct {
	x     *Index
	words []uint64
	n     int
}

// Len returns how many devices are in the set.
func (s *Set) Len() int { return s.n }

// Select returns the devices for which all matchers hold, of the blocks from one up to another: a caller may have
// several ranges looked at at once, and unite them.
func (x *Index) Select(matchers []Matcher, from, to int) *Set {
	return x.Compile(matchers).Select(from, to)
}

// Selector is a list of matchers that were evaluated for the values of an index. It is valid until the index changes.
type Selector struct {
	x     *Index
	steps []func(s *Set, from, to int)
}

// Compile holds matchers against each value of a dictionary once.
func (x *Index) Compile(matchers []Matcher) *Selector {
	a := &Selector{x: x}
	ordered := slices.Clone(matchers)
	slices.SortStableFunc(ordered, func(a, b Matcher) int { return cost(a) - cost(b) })
	for _, m := range ordered {
		a.steps = append(a.steps, x.narrow(m))
	}
	return a
}

// Select returns the devices for which all matchers hold, as Index.Select has them. Several may call it at a time.
func (a *Selector) Select(from, to int) *Set {
	x := a.x
	n := len(x.devices.list)
	s := &Set{x: x, words: make([]uint64, (n+63)/64)}
	to = min(to, x.Blocks())
	for i := from * blockDevices; i < min(to*blockDevices, n); i += 64 {
		s.words[i/64] = ^uint64(0)
		if left := n - i; left < 64 {
			s.words[i/64] = 1<<left - 1
		}
	}
	for _, narrow := range a.steps {
		narrow(s, from, to)
	}
	s.count()
	return s
}

// cost ranks matchers: matchers that look at every device come last, when few devices are left.
func cost(m Matcher) int {
	switch {
	case m.Of == OfDevice && m.Values != nil:
		return 0
	case m.Of == OfDevice:
		return 3
	case m.Of == OfName:
		return 2
	}
	return 1
}

// Blocks returns how many blocks of devices there are.
func (x *Index) Blocks() int { return (len(x.devices.list) + blockDevices - 1) / blockDevices }

// Union adds the devices of another set of the same index.
func (s *Set) Union(o *Set) {
	for i := range s.words {
		s.words[i] |= o.words[i]
	}
	s.count()
}

// eachNumber calls visit with the numbers of a set, in order, until it returns false.
func (s *Set) eachNumber(visit func(i int) bool) {
	for k, w := range s.words {
		for ; w != 0; w &= w - 1 {
			if !visit(k*64 + bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

func (s *Set) keep(holds func(i int) bool) {
	for k, w := range s.words {
		for rest := w; rest != 0; rest &= rest - 1 {
			if b := bits.TrailingZeros64(rest); !holds(k*64 + b) {
				w &^= 1 << b
			}
		}
		s.words[k] = w
	}
}

// narrow returns what takes out of a set the devices for which a matcher does not hold.
func (x *Index) narrow(m Matcher) func(s *Set, from, to int) {
	switch m.Of {
	case OfMetric:
		return x.narrowMetrics(func(set []Metric) bool {
			return slices.ContainsFunc(set, func(o Metric) bool { return m.Match(o.Name) })
		})
	case OfTag:
		if c := x.tags[m.Name]; c != nil {
			return keepCodes(&c.codes, c.matching(m))
		}
		return func(s *Set, _, _ int) {
			if !m.Match("") {
				clear(s.words)
			}
		}
	case OfName:
		return x.narrowNames(m)
	}
	return func(s *Set, _, _ int) { x.narrowDevices(s, m) }
}

func (c *tag) matching(m Matcher) []bool {
	out := make([]bool, len(c.values.list)+1)
	out[0] = m.Match("")
	if m.Values != nil {
		for _, v := range m.Values {
			if i, _ := c.values.find(v); i >= 0 {
				out[i+1] = true
			}
		}
		return out
	}
	for i, v := range c.values.list {
		out[i+1] = m.Match(v)
	}
	return out
}

// narrowMetrics keeps the devices with metrics for which metrics reports true, and those whose metrics are not all
// listed.
func (x *Index) narrowMetrics(metrics func([]Metric) bool) func(s *Set, from, to int) {
	good, lacking := holding(x.metricSets.list, metrics), holding(x.labelSets.list, isPartial)
	if !slices.Contains(lacking, true) {
		return keepCodes(&x.metrics, good)
	}
	return func(s *Set, _, _ int) {
		s.keep(func(i int) bool { return good[x.metrics.get(i)] || lacking[x.labels.get(i)] })
	}
}

func holding[T any](sets [][]T, holds func([]T) bool) []bool {
	out := make([]bool, len(sets))
	for i := range sets {
		out[i] = holds(sets[i])
	}
	return out
}

// keepCodes returns what takes out of a set the devices with a code that is not good.
func keepCodes(codes *blocks[uint32], good []bool) func(s *Set, from, to int) {
	const perBlock = blockDevices / 64
	return func(s *Set, from, to int) {
		for k := from; k < to; k++ {
			b := codes.block(k)
			if b == nil {
				if !good[0] {
					clear(s.words[k*perBlock : min((k+1)*perBlock, len(s.words))])
				}
				continue
			}
			for j := range perBlock {
				at := k*perBlock + j
				if at >= len(s.words) || s.words[at] == 0 {
					continue
				}
				var w uint64
				for bit, code := range b[j*64 : j*64+64] {
					if good[code] {
						w |= 1 << bit
					}
				}
				s.words[at] &= w
			}
		}
	}
}

func (x *Index) narrowDevices(s *Set, m Matcher) {
	if m.Values == nil {
		s.keep(func(i int) bool { return m.Match(x.devices.list[i]) })
		return
	}
	only := make([]uint64, len(s.words))
	for _, v := range m.Values {
		if i, _ := x.devices.find(v); i >= 0 {
			only[i/64] |= s.words[i/64] & (1 << (i % 64))
		}
	}
	s.words = only
}

// exportedPrefix is before names of PromQL that something more important has taken.
const exportedPrefix = "exported_"

// narrowNames keeps the devices that may have a series with a matching value of the name. A label of readings comes
// before a tag of the same name, which then gets another name, so that such names take out nothing. Nor does any name
// of a device that has more labels than are listed.
func (x *Index) narrowNames(m Matcher) func(s *Set, from, to int) {
	if strings.HasPrefix(m.Name, exportedPrefix) {
		return func(*Set, int, int) {}
	}
	maybe := holding(x.labelSets.list, func(set []telemetry.Label) bool { return mayHave(set, m) })
	if c := x.tags[m.Name]; c != nil {
		tagged := c.matching(m)
		return func(s *Set, _, _ int) {
			s.keep(func(i int) bool { return tagged[c.codes.get(i)] || maybe[x.labels.get(i)] })
		}
	}
	if m.Match("") {
		return func(*Set, int, int) {}
	}
	return keepCodes(&x.labels, maybe)
}

// listedBytes is how many bytes of labels an entry may have that lists them all.
const listedBytes = 128 << 10

// mayHave reports whether a device with these labels may have one of a name with a value that matches.
func mayHave(set []telemetry.Label, m Matcher) bool {
	return !listed(set) || slices.ContainsFunc(set, func(l telemetry.Label) bool {
		return l.Name == m.Name && m.Match(l.Value)
	})
}

// listed reports whether these are all labels of the readings of a device that has them: less than may be left out.
func listed(set []telemetry.Label) bool {
	if isPartial(set) {
		return false
	}
	values, size := 0, 0
	for i, l := range set {
		if values++; i == 0 || set[i-1].Name != l.Name {
			values = 1
		}
		if size += len(l.Name) + len(l.Value); values >= MaxLabelValues || size > listedBytes {
			return false
		}
	}
	return true
}

// Shape is the metrics of a device, and the labels of its readings: not which of them came together, nor when.
type Shape struct {
	Metrics []Metric
	Labels  []telemetry.Label
	Exact   bool // there are no other labels
	Partial bool // there may be other metrics
}

// Shapes returns what shapes the devices of a set have, each once.
func (s *Set) Shapes() (out []Shape) {
	seen := make(map[[2]uint32]bool)
	var last [2]uint32
	s.eachNumber(func(i int) bool {
		codes := [2]uint32{s.x.metrics.get(i), s.x.labels.get(i)}
		if codes == last && len(out) > 0 || seen[codes] {
			return true
		}
		last, seen[codes] = codes, true
		labels := s.x.labelSets.list[codes[1]]
		out = append(out, Shape{s.x.metricSets.list[codes[0]], labels, listed(labels), isPartial(labels)})
		return true
	})
	return out
}

// KeepMetrics takes out the devices without metrics for which metrics reports true, if their metrics are all listed.
func (s *Set) KeepMetrics(metrics func([]Metric) bool) {
	s.x.narrowMetrics(metrics)(s, 0, s.x.Blocks())
	s.count()
}

// Devices returns the ids of a set, in no order that means anything.
func (s *Set) Devices() []string {
	out := make([]string, 0, s.n)
	s.eachNumber(func(i int) bool {
		out = append(out, s.x.devices.list[i])
		return true
	})
	return out
}

// After returns the first devices of a set by id that come after an id, at most a number of them: a page of a list.
func (s *Set) After(device string, limit int) []Entry {
	var ids []int
	before := func(i, j int) int { return strings.Compare(s.x.devices.list[i], s.x.devices.list[j]) }
	s.eachNumber(func(i int) bool {
		if id := s.x.devices.list[i]; id > device {
			ids = append(ids, i)
		}
		if len(ids) >= 4*limit+blockDevices { // the least of them are enough
			slices.SortFunc(ids, before)
			ids = ids[:limit]
		}
		return true
	})
	slices.SortFunc(ids, before)
	out := make([]Entry, 0, min(limit, len(ids)))
	for _, i := range ids[:min(limit, len(ids))] {
		out = append(out, s.x.entry(i))
	}
	return out
}

// Each calls visit with each device of a set.
func (s *Set) Each(visit func(Entry) bool) {
	s.eachNumber(func(i int) bool { return visit(s.x.entry(i)) })
}

// Without takes out the devices that another index has.
func (s *Set) Without(x *Index) {
	for _, id := range x.devices.list {
		if i, _ := s.x.devices.find(id); i >= 0 && i/64 < len(s.words) && s.words[i/64]&(1<<(i%64)) != 0 {
			s.words[i/64] &^= 1 << (i % 64)
			s.n--
		}
	}
}

// During takes out the devices that are known to have nothing between two instants.
func (s *Set) During(from, to int64) {
	s.keep(func(i int) bool {
		first, last := s.x.first.get(i), s.x.last.get(i)
		return first > last || first < to && last >= from
	})
	s.count()
}

func (s *Set) count() {
	s.n = 0
	for _, w := range s.words {
		s.n += bits.OnesCount64(w)
	}
}
