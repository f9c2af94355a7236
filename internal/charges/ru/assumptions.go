package ru

// Assumption is a part of the model that no recording shows.
type Assumption struct {
	// Name names the charge, and Default what the model takes.
	Name    string
	Default string
	Low     string // the least that it may be
	High    string // the most that it may be
	Source  string // why the default
	Settles string // the operation of `binnacle doctor --measure` that would settle it

	// Unit is the unit of the bounds; "" where there is no number.
	Unit string
	// bounds are used by Interval.
	bounds assumed
}

// Weigh compares a measured value with the assumption.
func (a Assumption) Weigh(n float64) string {
	const off = 0.015 // headers have two places
	switch {
	case n >= a.bounds[1]-off && n <= a.bounds[1]+off:
		return "as taken"
	case n >= a.bounds[0]-off && n <= a.bounds[2]+off:
		return "within the range"
	}
	return "out of the range"
}

// Names of the assumptions that doctor settles.
const (
	BetweenRows  = "sizes between two rows of the table"
	ItemBytes    = "bytes of an item"
	ScatteredHit = "a hit that was not made right after the one before"
	LoadedKB     = "a loaded item above 1 KB, in a query or the change feed"
	FurtherSeek  = "a second value, range or level of a key in a condition"
	FeedPage     = "a page of the change feed"
	KeyLevel     = "a level of a hierarchical key"
	CountedRows  = "an item that a condition selects and that is counted"
)

// Assumptions returns all that the model takes without a recording.
func Assumptions() []Assumption {
	return []Assumption{
		{BetweenRows, "the next row", "a line between the rows", "the next row",
			"three published charges between rows are those of rows", "creates and reads of 31, 33, 36, 63 and 65 KB",
			"", assumed{}},
		{ItemBytes, "minified JSON as sent", "the same", "and some 230 bytes of system properties",
			"none above 1 KB is recorded", "creates of 31 and 32 KB", "", systemBytes},
		{ScatteredHit, "0.125 RU and the row's 0.014", "the row's 0.014", "0.14 RU",
			"published queries of a key or an order: 0.14 a hit", "a query of ten scattered chunks", "RU", scattered},
		{LoadedKB, "0.04 RU for each KB", "0.03", "0.09, as point reads",
			"one published query: 3.19 RU for 9.7 KB", "a query of one chunk of 32 KB", "RU a KB", extraKB},
		{FurtherSeek, "0.1 RU", "0.1 RU", "0.2 RU",
			"recorded between 0.1 and 0.2", "queries of a key and of all, nothing found", "RU", nextSeek},
		{CountedRows, "nothing: the index counts", "the same", "as in a query of them",
			"recorded of a whole range; an article of 2019 was charged as for loading", "a count of one chunk of 32 KB", "",
			assumed{}},
		{"a query of a prefix of a hierarchical key", "the physical partitions that it touches", "the same",
			"all physical partitions", "documented so, none is recorded", "-", "", assumed{}},
		{FeedPage, "1 RU for none and for one item, 0.014 for another", "1 RU", "a query's",
			"one is recorded, of one item", "the change feed, idle", "RU", feedPage},
		{"a unique key, with a time to live", "nothing beyond its paths", "the same", "1.71 RU a create",
			"two are recorded, without a rule: 1.48 and 1.71 RU", "-", "", assumed{}},
		{KeyLevel, "2 units where it is indexed", "nothing", "2 units",
			"recorded for a key of one level", "a create of 1 KB", "units", keyLevel},
		{"objects and arrays in the index", "1 unit for each, 2 at the top", "the same", "the same",
			"fitted to three documents", "-", "", assumed{}},
		{"an included path that an item does not have", "2 units", "nothing", "2 units",
			"documented as indexed, none is recorded", "-", "", assumed{}},
		{"a delete or replace above 1 KB", "as the creates of both", "the same", "the same",
			"recorded up to 1 KB", "-", "", assumed{}},
	}
}

// Interval is what the same operations are charged, in RU: Likely by a model, Other by its other model, Low and High by
// the least and the most that the assumptions allow.
type Interval struct {
	Low    float64 `json:"low"`
	Likely float64 `json:"likely"`
	Other  float64 `json:"other_model"`
	High   float64 `json:"high"`
}

// Interval returns what a charge is by the model, by the other one, and at least and at most. Every charge grows with
// every assumption, so the bounds come from the models with the least, or the most, of every assumption.
func (m Model) Interval(charge func(Model) float64) Interval {
	low, high := m, m
	low.sloped, low.end = true, least
	high.sloped, high.end = false, most
	return Interval{charge(low), charge(m), charge(m.Other()), charge(high)}
}

// Certain returns the interval of a charge that no assumption is part of.
func Certain(rus float64) Interval { return Interval{rus, rus, rus, rus} }

// Plus returns the interval of both together.
func (i Interval) Plus(o Interval) Interval {
	return Interval{i.Low + o.Low, i.Likely + o.Likely, i.Other + o.Other, i.High + o.High}
}

// Times returns the interval of n times as much.
func (i Interval) Times(n float64) Interval {
	return Interval{n * i.Low, n * i.Likely, n * i.Other, n * i.High}
}

// Each returns the interval with f applied to each part. f must be monotonic.
func (i Interval) Each(f func(float64) float64) Interval {
	return Interval{f(i.Low), f(i.Likely), f(i.Other), f(i.High)}
}

// The ends of an Interval, as a Model's end. The likely is 0.
const (
	least = -1
	most  = 1
)

// assumed is a part of a charge that no recording shows: the least, the likely and the most that it may be.
type assumed [3]float64

func (a assumed) of(m Model) float64 { return a[1+m.end] }

// systemBytes is the size of an item's system properties, which count for some or not at all.
var systemBytes = assumed{0, 0, 230}

// keyLevel is the index units of a level of a hierarchical partition key that the policy includes.
var keyLevel = assumed{0, Scalar, Scalar}

// Levels returns the index units of an item with levels of a hierarchical partition key among them. These may be in no
// index.
func (m Model) Levels(units, levels int) int {
	return units - levels*(Scalar-int(keyLevel.of(m)))
}
