package blogexample

// Report is what Run found. Request units are modelled.
type Report struct {
	Users      int    `json:"users"`
	Posts      int    `json:"posts"`
	Comments   int    `json:"comments"`
	Likes      int    `json:"likes"`
	Seed       uint64 `json:"seed"`
	Model      string `json:"ru_model"`
	Partitions int    `json:"physical_partitions"`
	Rows       Rows   `json:"rows"`
	// Sizes are the sizes of V2's items, without system properties.
	Sizes Sizes `json:"bytes"`

	Patterns []Pattern     `json:"patterns"`
	Rules    []ReplaceRule `json:"replace_rules"`
}

// Rows is how many rows the measured queries return.
type Rows struct {
	Q3 int `json:"q3"`
	Q4 int `json:"q4"`
	Q5 int `json:"q5"`
	Q6 int `json:"q6"`
}

// Sizes holds the sizes of the requested post, its first comment and its first like, in bytes of JSON. Other
// items differ by their names.
type Sizes struct {
	Post    int `json:"post"`
	Comment int `json:"comment"`
	Like    int `json:"like"`
}

// Pattern is one access pattern with its charges in V1, V2 and V3, in RU, every property indexed.
type Pattern struct {
	Name      string     `json:"name"`
	What      string     `json:"what"`
	Published [3]float64 `json:"published_ru"`
	Measured  [3]float64 `json:"measured_ru"`
}

// Off returns how far a pattern's charge in a version is from the published one, as a share of that.
func (p Pattern) Off(v Version) float64 { return p.Measured[v-V1]/p.Published[v-V1] - 1 }

// ReplaceRule is a pattern that replaces a post, by both rules for what a replace costs: delete and insert,
// which is documented today and what the emulator charges, or one write.
type ReplaceRule struct {
	Pattern   string  `json:"pattern"`
	Version   string  `json:"version"`
	Published float64 `json:"published_ru"`
	Two       float64 `json:"ru_delete_and_insert"`
	One       float64 `json:"ru_one_write"`
}
