package ru

// Assumption is a part of the model that no recording shows.
type Assumption struct {
	Name    string // what is charged
	Default string // what the model takes
	Low     string // the least that it may be
	High    string // the most that it may be
	Source  string // why the default
	Settles string // the operation of `binnacle doctor --measure` that would settle it
}

// Assumptions returns all that the model takes without a recording.
func Assumptions() []Assumption {
	return []Assumption{
		{"sizes between two rows of the table", "the next row", "a line between the rows", "the next row",
			"three published charges between rows are those of rows", "creates and reads of 31, 33, 36, 63 and 65 KB"},
		{"bytes of an item", "minified JSON as sent", "the same", "and some 230 bytes of system properties",
			"none above 1 KB is recorded", "creates of 31 and 33 KB"},
		{"a hit that was not made right after the one before", "0.125 RU and the row's 0.014", "the row's 0.014", "0.14 RU",
			"published queries of a key or an order: 0.14 a hit", "queries of scattered hits"},
		{"a loaded item above 1 KB, in a query or the change feed", "0.04 RU for each KB", "0.03", "0.09, as point reads",
			"one published query: 3.19 RU for 9.7 KB", "a query of one chunk of 32 KB"},
		{"a second value, range or level of a key in a condition", "0.1 RU", "0.1 RU", "0.2 RU",
			"recorded between 0.1 and 0.2", "queries of a key, of a prefix"},
		{"a query of a prefix of a hierarchical key", "the physical partitions that it touches", "the same",
			"all physical partitions", "none is recorded", "a query of a prefix"},
		{"a page of the change feed", "1 RU for none and for one item, 0.014 for another", "1 RU", "a query's",
			"one is recorded, of one item", "the change feed, idle and with something new"},
		{"a unique key, with a time to live", "nothing beyond its paths", "the same", "1.71 RU a create",
			"two are recorded, without a rule: 1.48 and 1.71 RU", "-"},
		{"a level of a hierarchical key", "2 units where it is indexed", "nothing", "2 units",
			"recorded for a key of one level", "a create of 1 KB"},
		{"objects and arrays in the index", "1 unit for each, 2 at the top", "the same", "the same",
			"fitted to three documents", "-"},
		{"an included path that an item does not have", "2 units", "nothing", "2 units",
			"documented as indexed, none is recorded", "-"},
		{"a delete or replace above 1 KB", "as the creates of both", "the same", "the same",
			"recorded up to 1 KB", "-"},
	}
}
