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
