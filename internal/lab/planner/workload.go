package planner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/settings"

	"go.yaml.in/yaml/v3"
)

// Workload is what a plan is made for.
type Workload struct {
	Name string `yaml:"name" json:"name"`
	// Months is how many months the plan looks ahead.
	Months    int      `yaml:"months,omitempty" json:"months"`
	Tenants   Tenants  `yaml:"tenants" json:"tenants"`
	Fleets    []Fleet  `yaml:"fleets" json:"fleets"`
	Queries   []Query  `yaml:"queries,omitempty" json:"queries"`
	Retention Quantity `yaml:"retention,omitempty" json:"retention_seconds"`
	// Growth is the relative growth of the number of devices, from month to month.
	Growth  Quantity `yaml:"growth,omitempty" json:"growth_a_month"`
	Regions Quantity `yaml:"regions,omitempty" json:"regions"`
	Hold    Quantity `yaml:"hold,omitempty" json:"hold_seconds"`
	// Without lists the ways to buy that are not to be had: free, serverless, shared, manual, autoscale, reserved.
	Without []string `yaml:"without,omitempty" json:"without,omitempty"`

	// folder is the directory that names of sample files are relative to.
	folder string
}

// Tenants is how devices belong to tenants.
type Tenants struct {
	Count        Quantity `yaml:"count" json:"count"`
	Distribution string   `yaml:"distribution,omitempty" json:"distribution"` // even or zipf
	Largest      Quantity `yaml:"largest,omitempty" json:"share_of_the_largest"`
}

// Fleet is devices that report alike.
type Fleet struct {
	Name     string   `yaml:"name" json:"name"`
	Devices  Quantity `yaml:"devices" json:"devices"`
	Interval Quantity `yaml:"interval,omitempty" json:"interval_seconds"` // between two readings of a device
	// Late is the share of readings that come after their day was stored.
	Late Quantity `yaml:"late,omitempty" json:"late_share"`
	// Metrics is the number of metrics in a reading, by kind.
	Metrics map[string]Quantity `yaml:"metrics,omitempty" json:"metrics,omitempty"`
	// Bytes is what a value takes in chunks, without what each document takes; missing: as drawn values are encoded.
	Bytes Quantity `yaml:"bytes-per-value,omitempty" json:"bytes_per_value,omitzero"`
	// Sample replaces Metrics, Interval and Bytes.
	Sample *Sample `yaml:"sample,omitempty" json:"sample,omitempty"`
}

// Sample is a file of readings in line protocol.
type Sample struct {
	File      string `yaml:"file" json:"file"`
	DeviceTag string `yaml:"device-tag" json:"device_tag"`
	// Tags lists the tags that describe the device; others are labels.
	Tags []string `yaml:"tags" json:"tags,omitempty"`
}

// Pattern is a kind of query.
type Pattern string

// The patterns.
const (
	Latest Pattern = "latest" // the newest reading of a device
	Span   Pattern = "range"  // all readings of a device in a span
	Panel  Pattern = "panel"  // one metric of many devices of a tenant over a span, aggregated
)

// Query is a part of the query mix.
type Query struct {
	Name    string   `yaml:"name" json:"name"`
	Pattern Pattern  `yaml:"pattern" json:"pattern"`
	Rate    Quantity `yaml:"rate" json:"rate_a_second"`
	Span    Quantity `yaml:"span" json:"span_seconds"`
	Devices Quantity `yaml:"devices" json:"devices"`
}

const (
	maxMonths = 120
	aDay      = 86400.0
	aMonth    = 30.4 * aDay
	longest   = 20 * 365 * aDay
)

// UnmarshalYAML reads the number of tenants, or a map.
func (t *Tenants) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return t.Count.UnmarshalYAML(node)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; !slices.Contains([]string{"count", "distribution", "largest"}, key.Value) {
			return fmt.Errorf("line %d: field %s not found in tenants", key.Line, key.Value)
		}
	}
	type plain Tenants
	return node.Decode((*plain)(t))
}

// Read reads a workload from a YAML file. Each of sets is PATH=VALUE and replaces a value of the file.
func Read(file string, sets []string) (Workload, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Workload{}, fmt.Errorf("read the workload: %w", err)
	}
	w, err := Parse(text, sets)
	if err != nil {
		return w, fmt.Errorf("%s: %w", file, err)
	}
	w.folder = filepath.Dir(file)
	return w, nil
}

// Parse reads a workload, and fills in what it does not name.
func Parse(text []byte, sets []string) (w Workload, err error) {
	if len(sets) > 0 {
		if text, err = replaced(text, sets); err != nil {
			return w, err
		}
	}
	w = Workload{
		Months: 12, Growth: assumed(0, share), Regions: assumed(1, number), Retention: assumed(365*aDay, period),
		Hold: assumed(aDay/2, period), Tenants: Tenants{Count: assumed(1, number)},
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&w); err != nil && !errors.Is(err, io.EOF) {
		return w, err
	}
	if w.Tenants.Largest.Basis == "" {
		w.Tenants.Largest = assumed(w.Tenants.first(), share)
	}
	for i := range w.Fleets {
		if w.Fleets[i].Late.Basis == "" {
			w.Fleets[i].Late = assumed(0, share)
		}
	}
	for i := range w.Queries {
		q := &w.Queries[i]
		if q.Name == "" {
			q.Name = string(q.Pattern)
		}
		if q.Devices.Basis == "" {
			q.Devices = assumed(1, number)
		}
		if q.Span.Basis == "" && q.Pattern == Latest {
			q.Span = assumed(0, period)
		}
	}
	return w, w.validate()
}

// leavesOut says that the workload leaves a way out; "" where it does not.
func (w *Workload) leavesOut(x way) string {
	for _, name := range w.Without {
		if name == "reserved" && x.reserved() || strings.HasPrefix(string(x), name) {
			return "the workload leaves it out"
		}
	}
	return ""
}

// YAML returns the workload as Parse reads it. The comment of a figure has its basis, which holds until it is changed.
func (w *Workload) YAML() ([]byte, error) { return yaml.Marshal(w) }

// first returns the share of devices that the largest tenant has by the distribution.
func (t Tenants) first() float64 {
	n := int(min(max(1, t.Count.mid()), 1e6))
	if t.Distribution != "zipf" {
		return 1 / float64(n)
	}
	sum := 0.0
	for i := range n {
		sum += 1 / float64(i+1)
	}
	return 1 / sum
}

// validate reports every fault at once.
func (w *Workload) validate() error {
	var faults settings.Faults
	check := func(what string, found string) { faults.Check(found == "", "%s: %s", what, found) }
	faults.Check(w.Name != "", "name: it is missing")
	faults.Check(w.Months >= 1 && w.Months <= maxMonths, "months: 1 to %d are allowed", maxMonths)
	faults.Check(slices.Contains([]string{"", "even", "zipf"}, w.Tenants.Distribution),
		"tenants.distribution: even and zipf are known")
	check("tenants.count", w.Tenants.Count.fault(number, 1, 1e6))
	check("tenants.largest", w.Tenants.Largest.fault(share, 1e-9, 1))
	check("retention", w.Retention.fault(period, aDay, longest))
	check("growth", w.Growth.fault(share, 0, 1))
	check("regions", w.Regions.fault(number, 1, 50))
	check("hold", w.Hold.fault(period, 1, aDay))
	faults.Check(w.Hold.Low == w.Hold.High, "hold: it is a setting, so one value is wanted")
	for _, name := range w.Without {
		faults.Check(slices.Contains(wayNames, name), "without: %q is none of %s", name, strings.Join(wayNames, ", "))
	}
	faults.Check(len(w.Fleets) > 0, "fleets: at least one is wanted")
	for i := range w.Fleets {
		w.Fleets[i].check(fmt.Sprintf("fleets[%d]", i), check)
	}
	for i := range w.Queries {
		q := &w.Queries[i]
		at := fmt.Sprintf("queries[%d]", i)
		if !slices.Contains([]Pattern{Latest, Span, Panel}, q.Pattern) {
			faults.Check(false, "%s.pattern: %q is none of %s, %s and %s", at, q.Pattern, Latest, Span, Panel)
			continue
		}
		check(at+".rate", q.Rate.fault(number, 0, 1e6))
		check(at+".devices", q.Devices.fault(number, 1, 1e9))
		check(at+".span", q.Span.fault(period, 0, longest))
	}
	return faults.Err()
}

func (f *Fleet) check(at string, check func(string, string)) {
	if f.Name == "" {
		check(at+".name", "it is missing")
	}
	check(at+".devices", f.Devices.fault(number, 1, 1e9))
	check(at+".late", f.Late.fault(share, 0, 1))
	if f.Sample != nil {
		if f.Sample.File == "" || f.Sample.DeviceTag == "" {
			check(at+".sample", "file and device-tag are wanted")
		}
		if f.Interval.Basis != "" || len(f.Metrics) > 0 || f.Bytes.Basis != "" {
			check(at, "a sample has an interval, metrics and bytes of its own: leave yours out")
		}
		return
	}
	if f.Bytes.Basis != "" {
		check(at+".bytes-per-value", f.Bytes.fault(number, 0.001, 100_000))
		if f.Bytes.Low != f.Bytes.High {
			check(at+".bytes-per-value", "one value is wanted")
		}
	}
	check(at+".interval", f.Interval.fault(period, 0.01, 366*aDay))
	if len(f.Metrics) == 0 {
		check(at+".metrics", "either they or a sample are wanted")
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Metrics)) {
		q := f.Metrics[kind]
		if !slices.Contains(kinds, kind) {
			check(at+".metrics."+kind, strings.Join(kinds, ", ")+" are known")
		}
		most := 1000.0
		if kind == "truck" {
			most = 10
		}
		check(at+".metrics."+kind, q.fault(number, 1, most))
		f.Metrics[kind] = q
	}
}

// replaced returns the file with values replaced. A path is keys with dots between them; an element of a list is named
// by its name or its place.
func replaced(text []byte, sets []string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	for _, set := range sets {
		path, value, ok := strings.Cut(set, "=")
		var to yaml.Node
		if err := yaml.Unmarshal([]byte(value), &to); !ok || err != nil || len(to.Content) != 1 {
			return nil, fmt.Errorf("--set %s: PATH=VALUE is wanted", set)
		}
		at, keys := doc.Content[0], strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			if at = below(at, key); at == nil {
				return nil, fmt.Errorf("--set %s: the file has no %s", set, key)
			}
		}
		last := keys[len(keys)-1]
		if old := below(at, last); old != nil {
			*old = *to.Content[0]
		} else if at.Kind == yaml.MappingNode {
			at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: last}, to.Content[0])
		} else {
			return nil, fmt.Errorf("--set %s: the file has no %s", set, last)
		}
	}
	return yaml.Marshal(&doc)
}

// below returns the value of a key of a map, or the element of a list with that name or place; nil for none.
func below(at *yaml.Node, key string) *yaml.Node {
	switch at.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == key {
				return at.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		for i, element := range at.Content {
			name := below(element, "name")
			if name != nil && name.Value == key || strconv.Itoa(i) == key {
				return element
			}
		}
	}
	return nil
}

// way is a way to buy what an account serves.
type way string

// The ways, in the order in which equal ones are preferred.
const (
	freeTier       way = "free tier"
	serverless     way = "serverless"
	sharedWay      way = "shared"
	manual         way = "manual"
	autoscale      way = "autoscale"
	sharedReserved way = "shared, reserved"
	manualReserved way = "manual, reserved"
)

var ways = []way{freeTier, serverless, sharedWay, manual, autoscale, sharedReserved, manualReserved}

// shared reports whether all containers of the account share the throughput of its database.
func (w way) shared() bool { return w == freeTier || w == sharedWay || w == sharedReserved }

func (w way) reserved() bool { return w == sharedReserved || w == manualReserved }

// conditional reports whether not every account can be bought so: a subscription has one free tier, and a reservation
// binds for a year.
func (w way) conditional() bool { return w == freeTier || w.reserved() }

// wayNames are the names of ways in a workload.
var wayNames = []string{"free", "serverless", "shared", "manual", "autoscale", "reserved"}

// about describes the way to a person who makes the account.
func (w way) about() string {
	return map[way]string{
		freeTier:       "a free-tier account, 1,000 RU/s and 25 GB for nothing, one for each subscription (--profile small)",
		serverless:     "a serverless account, paid by the request unit",
		sharedWay:      "throughput that all containers share (provision --profile small)",
		manual:         "manual throughput that follows the load",
		autoscale:      "autoscale",
		sharedReserved: "throughput that all containers share, reserved for a year or three",
		manualReserved: "manual throughput that follows the load, what the first month takes reserved for a year or three",
	}[w]
}

// allTime is the number of months in a container that holds all of them.
const allTime = 0

// option is a way to run the account.
type option struct {
	way     way
	rollups bool
	// months is the number of months in one container.
	months int
}

// spans are the lengths of containers. Provision makes those of a month and of a year.
var spans = []int{12, 1, allTime}

// options returns every option. The first one of equal cost is chosen.
func options() (all []option) {
	for _, w := range ways {
		for _, months := range spans {
			all = append(all, option{w, false, months}, option{w, true, months})
		}
	}
	return all
}

func (o option) span() string {
	return map[int]string{
		1: "a container for a month", 12: "a container for a year", allTime: "one container for all time",
	}[o.months]
}

// String names the option.
func (o option) String() string {
	return o.way.about() + ", " + o.span() + map[bool]string{true: ", rollups", false: ", no rollups"}[o.rollups]
}

func (o option) with() string { return o.span() + map[bool]string{true: ", rollups"}[o.rollups] }
