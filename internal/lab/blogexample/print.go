package blogexample

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"binnacle/internal/text/report"
)

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

// percent returns a signed share.
func percent(share float64) string {
	p := int(math.Round(100 * share))
	if p == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%+d %%", p)
}
