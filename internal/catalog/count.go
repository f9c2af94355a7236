package catalog

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// Count is how many devices have something.
type Count struct {
	Name    string `json:"value"`
	Devices int    `json:"devices"`
}

// MetricCount is a metric with its unit, kinds and devices.
type MetricCount struct {
	Name  string
	Types []string // kinds of values, sorted
	Units []string // sorted; empty where none is known
	// Devices counts the devices that have the metric.
	Devices int
}

// NameCount is a tag or label, how many devices have it, and how many values it has.
type NameCount struct {
	Name    string `json:"name"`
	Values  int    `json:"values"`
	Devices int    `json:"devices"`
}

// Metrics returns the metrics of a set's devices, by name.
func (s *Set) Metrics() []MetricCount {
	x := s.x
	// devices counts by set.
	devices := make([]int, len(x.metricSets.list))
	s.codes(&x.metrics, devices)
	all := make(map[string]*MetricCount)
	for i, set := range x.metricSets.list {
		if devices[i] == 0 {
			continue
		}
		for k, m := range set {
			c := all[m.Name]
			if c == nil {
				c = &MetricCount{Name: m.Name}
				all[m.Name] = c
			}
			if k == 0 || set[k-1].Name != m.Name {
				c.Devices += devices[i]
			}
			c.Types = insertSorted(c.Types, m.Kind.String())
			if m.Unit != "" {
				c.Units = insertSorted(c.Units, m.Unit)
			}
		}
	}
	out := make([]MetricCount, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[name])
	}
	return out
}

func insertSorted(list []string, s string) []string {
	if i, found := slices.BinarySearch(list, s); !found {
		return slices.Insert(list, i, s)
	}
	return list
}

func (s *Set) codes(of *blocks[uint32], counts []int) {
	const perBlock = blockDevices / 64
	for k := 0; k*perBlock < len(s.words); k++ {
		b := of.block(k)
		for j := range min(perBlock, len(s.words)-k*perBlock) {
			w := s.words[k*perBlock+j]
			if b == nil {
				counts[0] += bits.OnesCount64(w)
				continue
			}
			for ; w != 0; w &= w - 1 {
				counts[b[j*64+bits.TrailingZeros64(w)]]++
			}
		}
	}
}

// Tags returns the tags of the devices of a set and of others that have no device in common with it, by name. The
// others are small.
func (s *Set) Tags(others ...*Set) []NameCount {
	names := s.x.TagNames()
	for _, o := range others {
		for _, name := range o.x.names {
			names = insertSorted(names, name)
		}
	}
	var out []NameCount
	for _, name := range names {
		c, counts := s.tagCounts(name)
		one := NameCount{Name: name}
		for _, n := range counts {
			if one.Devices += n; n > 0 {
				one.Values++
			}
		}
		more := make(map[string]bool)
		for _, o := range others {
			its, devices := o.tagCounts(name)
			for i, n := range devices {
				if one.Devices += n; n == 0 || more[its.values.list[i]] {
					continue
				}
				if c != nil {
					if at, _ := c.values.find(its.values.list[i]); at >= 0 && counts[at] > 0 {
						continue
					}
				}
				more[its.values.list[i]] = true
				one.Values++
			}
		}
		if one.Devices > 0 {
			out = append(out, one)
		}
	}
	return out
}

// tagCounts returns how many devices of a set have each value of a tag, by its number, none for an empty one; nil for a
// tag that the index lacks.
func (s *Set) tagCounts(name string) (*tag, []int) {
	c := s.x.tags[name]
	if c == nil {
		return nil, nil
	}
	counts := make([]int, len(c.values.list)+1)
	s.codes(&c.codes, counts)
	if empty, _ := c.values.find(""); empty >= 0 {
		counts[empty+1] = 0
	}
	return c, counts[1:]
}

// TagValues returns the values that a tag has among a set's devices: the most frequent first, at most limit, and how
// many there are.
func (s *Set) TagValues(name string, limit int) (top []Count, values int) {
	c, counts := s.tagCounts(name)
	var all []Count
	for i, n := range counts {
		if n > 0 {
			all = append(all, Count{c.values.list[i], n})
		}
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(b.Devices-a.Devices, strings.Compare(a.Name, b.Name))
	})
	return all[:min(limit, len(all))], len(all)
}

// Labels returns the labels of the readings of the devices of a set and of others that have no device in common with
// it, by name. Of a device MaxLabelValues values count at most.
func (s *Set) Labels(others ...*Set) []NameCount {
	counts := make(map[string]*NameCount)
	values := make(map[string]map[string]bool)
	for _, s := range append([]*Set{s}, others...) {
		devices := make([]int, len(s.x.labelSets.list))
		s.codes(&s.x.labels, devices)
		for i, set := range s.x.labelSets.list {
			if devices[i] == 0 {
				continue
			}
			for k, l := range set {
				if l.Value == "" { // Partial too
					continue
				}
				c := counts[l.Name]
				if c == nil {
					c = &NameCount{Name: l.Name}
					counts[l.Name], values[l.Name] = c, make(map[string]bool)
				}
				if k == 0 || set[k-1].Name != l.Name || set[k-1].Value == "" {
					c.Devices += devices[i]
				}
				values[l.Name][l.Value] = true
			}
		}
	}
	var out []NameCount
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		counts[name].Values = len(values[name])
		out = append(out, *counts[name])
	}
	return out
}

// DeviceCount is how much there is of a device.
type DeviceCount struct {
	Device  string `json:"device"`
	Metrics int    `json:"metrics"`
	Labels  int    `json:"labels"` // pairs of a label of its readings and a value
}

// Compare orders those with the most metrics first, and the most labels among them.
func (c DeviceCount) Compare(o DeviceCount) int {
	return cmp.Or(o.Metrics-c.Metrics, o.Labels-c.Labels, strings.Compare(c.Device, o.Device))
}

// Largest returns the largest devices of a set, at most a number of them.
func (s *Set) Largest(limit int) (out []DeviceCount) {
	metrics := make([]int, len(s.x.metricSets.list))
	for i, set := range s.x.metricSets.list {
		for k, m := range set {
			if k == 0 || set[k-1].Name != m.Name {
				metrics[i]++
			}
		}
	}
	cut := func() {
		slices.SortFunc(out, DeviceCount.Compare)
		out = out[:min(limit, len(out))]
	}
	s.eachNumber(func(i int) bool {
		out = append(out, DeviceCount{s.x.devices.list[i], metrics[s.x.metrics.get(i)],
			len(s.x.labelSets.list[s.x.labels.get(i)])})
		if (len(out)-blockDevices)/2 > limit { // an insertion for each would take the square of a long list
			cut()
		}
		return true
	})
	cut()
	return out
}
