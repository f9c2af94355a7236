package blogexample

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"binnacle/internal/text/report"
)

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

// Print writes a report as text.
func Print(w io.Writer, r Report) error {
	var b bytes.Buffer
	report.Paragraph(&b, "", fmt.Sprintf("%s users with %s posts, %s comments and %s likes, seed %d; every container "+
		"has %d physical partitions. "+
		"Request units (RU) are modelled, by the %s model. The article's figures, of 100,000 users, stand beside them.",
		report.Thousands(r.Users), report.Thousands(r.Posts), report.Thousands(r.Comments), report.Thousands(r.Likes), r.Seed,
		r.Partitions, r.Model))
	report.Paragraph(&b, "", fmt.Sprintf("Rows: Q3 %d, Q4 %d, Q5 %d, Q6 %d. Sizes: posts and comments %.1f KB, likes "+
		"%.1f KB, copies of posts below 1 KB.",
		r.Rows.Q3, r.Rows.Q4, r.Rows.Q5, r.Rows.Q6, float64(r.Sizes.Post)/1024, float64(r.Sizes.Like)/1024))
	charges(&b, r)
	replaces(&b, r)
	_, err := w.Write(b.Bytes())
	return err
}

func charges(b *bytes.Buffer, r Report) {
	b.WriteString("\nRU, every property indexed\n\n")
	rows := [][]string{{"", "V1", "", "", "V2", "", "", "V3", "", ""}, {""}}
	for range 3 {
		rows[1] = append(rows[1], "published", "modelled", "off")
	}
	for _, p := range r.Patterns {
		row := []string{p.Name + " " + p.What}
		for v := V1; v <= V3; v++ {
			row = append(row, rus(p.Published[v-V1]), rus(p.Measured[v-V1]), percent(p.Off(v)))
		}
		rows = append(rows, row)
	}
	report.Grid(b, rows)
}

func replaces(b *bytes.Buffer, r Report) {
	b.WriteString("\nC3 and C4 replace the post: RU by both rules for a replace\n\n")
	rows := [][]string{{"", "published", "delete and insert", "off", "one write", "off"}}
	for _, l := range r.Rules {
		rows = append(rows, []string{l.Pattern + " " + l.Version, rus(l.Published), rus(l.Two),
			percent(l.Two/l.Published - 1), rus(l.One), percent(l.One/l.Published - 1)})
	}
	report.Grid(b, rows)
}

func rus(f float64) string { return fmt.Sprintf("%.2f", f) }

func percent(share float64) string {
	p := int(math.Round(100 * share))
	if p == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%+d %%", p)
}

// published are the article's access patterns, in its order, with the charges that it gives for V1, V2 and V3 (Azure
// Cosmos DB docs, model-partition-example, 2025; the same since 2019).
var published = []Pattern{
	{Name: "C1", What: "create a user", Published: [3]float64{5.71, 5.71, 5.71}},
	{Name: "Q1", What: "read a user", Published: [3]float64{1, 1, 1}},
	{Name: "C2", What: "create a post", Published: [3]float64{8.76, 8.76, 8.76}},
	{Name: "Q2", What: "read a post", Published: [3]float64{19.54, 1, 1}},
	{Name: "Q3", What: "a user's posts", Published: [3]float64{619.41, 201.54, 6.46}},
	{Name: "C3", What: "create a comment", Published: [3]float64{8.57, 15.27, 15.27}},
	{Name: "Q4", What: "a post's comments", Published: [3]float64{27.72, 7.72, 7.72}},
	{Name: "C4", What: "like a post", Published: [3]float64{7.05, 14.67, 14.67}},
	{Name: "Q5", What: "a post's likes", Published: [3]float64{58.92, 8.92, 8.92}},
	{Name: "Q6", What: "the newest posts", Published: [3]float64{2063.54, 532.33, 16.97}},
}
