package blogexample

// Report is what Run found. Request units are modelled, latencies measured on the machine it ran on.
type Report struct {
	Users      int    `json:"users"`
	Posts      int    `json:"posts"`
	Comments   int    `json:"comments"`
	Likes      int    `json:"likes"`
	Seed       uint64 `json:"seed"`
	Model      string `json:"ru_model"`
	Partitions int    `json:"physical_partitions"`
	Rows       Rows   `json:"rows"`
	Sizes      Sizes  `json:"bytes"` // of V2's items, without system properties

	Patterns []Pattern     `json:"patterns"`
	Rules    []ReplaceRule `json:"replace_rules"`
	FanOut   []FanOut      `json:"fan_out"`
	Later    []Later       `json:"change_feed"`
}

// Rows is how many rows the measured queries return.
type Rows struct {
	Q3 int `json:"q3"`
	Q4 int `json:"q4"`
	Q5 int `json:"q5"`
	Q6 int `json:"q6"`
}

// Sizes are those of the post that is asked for, its first comment and its first like, in bytes of JSON. Others
// differ by their names.
type Sizes struct {
	Post    int `json:"post"`
	Comment int `json:"comment"`
	Like    int `json:"like"`
}

// Pattern is one access pattern in all versions.
type Pattern struct {
	Name      string              `json:"name"`
	What      string              `json:"what"`
	Published [3]Measured         `json:"published"` // V1, V2, V3, with every property indexed
	Measured  map[Indexing][]Cell `json:"measured"`  // V1, V2, V3
}

// Measured is a charge with the time it took.
type Measured struct {
	RUs          float64 `json:"ru"`
	Milliseconds float64 `json:"ms"`
}

// Cell is a measured pattern: the mean charge, the median time, and the requests that one takes.
type Cell struct {
	Measured
	Requests int `json:"requests"`
}

// Off returns how far a pattern's charge in a version is from the published one, as a share of that.
func (p Pattern) Off(i Indexing, v Version) float64 {
	return p.Measured[i][v-V1].RUs/p.Published[v-V1].RUs - 1
}

// ReplaceRule is a pattern that replaces a post, by both rules for what a replace costs: delete and insert,
// which is documented today and what the emulator charges, or one write.
type ReplaceRule struct {
	Pattern   string  `json:"pattern"`
	Version   string  `json:"version"`
	Published float64 `json:"published_ru"`
	Two       float64 `json:"ru_delete_and_insert"`
	One       float64 `json:"ru_one_write"`
}

// FanOut is what V2's queries without a partition key cost for a size and a number of physical partitions.
type FanOut struct {
	Partitions int     `json:"physical_partitions"`
	Posts      int     `json:"posts"`
	Q3         float64 `json:"q3_ru"`
	Q6         float64 `json:"q6_ru"`
}

// Later is what a command costs after it has been answered: the work that follows from the change feed.
type Later struct {
	Version string  `json:"version"`
	After   string  `json:"after"`
	Items   int     `json:"items"`
	Read    float64 `json:"ru_reading_the_feeds"`
	Work    float64 `json:"ru_work"`
	Does    string  `json:"does"`
}
