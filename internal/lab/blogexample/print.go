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
		"Request units (RU) are modelled, by the %s model; latencies are medians, measured on this machine without a "+
		"network. "+
		"The article's figures, of 100,000 users, stand beside them.",
		report.Thousands(r.Users), report.Thousands(r.Posts), report.Thousands(r.Comments), report.Thousands(r.Likes), r.Seed,
		r.Partitions, r.Model))
	report.Paragraph(&b, "", fmt.Sprintf("Rows: Q3 %d, Q4 %d, Q5 %d, Q6 %d. Sizes: posts and comments %.1f KB, likes "+
		"%.1f KB, copies of posts below 1 KB.",
		r.Rows.Q3, r.Rows.Q4, r.Rows.Q5, r.Rows.Q6, float64(r.Sizes.Post)/1024, float64(r.Sizes.Like)/1024))
	for _, i := range []Indexing{IndexAll, IndexSelected} {
		charges(&b, r, i)
	}
	latencies(&b, r)
	replaces(&b, r)
	fanOuts(&b, r)
	laters(&b, r)
	_, err := w.Write(b.Bytes())
	return err
}

func charges(b *bytes.Buffer, r Report, i Indexing) {
	fmt.Fprintf(b, "\nRU, %s indexed", i)
	if i == IndexSelected {
		b.WriteString(" (the article has no figures for it; off is against its own)")
	}
	b.WriteString("\n\n")
	rows := [][]string{{"", "V1", "", "", "V2", "", "", "V3", "", ""}, {""}}
	for range 3 {
		rows[1] = append(rows[1], "published", "modelled", "off")
	}
	for _, p := range r.Patterns {
		row := []string{p.Name + " " + p.What}
		for v := V1; v <= V3; v++ {
			row = append(row, rus(p.Published[v-V1].RUs), rus(p.Measured[i][v-V1].RUs), percent(p.Off(i, v)))
		}
		rows = append(rows, row)
	}
	report.Grid(b, rows)
}

func latencies(b *bytes.Buffer, r Report) {
	b.WriteString("\nLatency in ms, every property indexed; in brackets the requests that one takes here\n\n")
	rows := [][]string{{"", "V1", "", "V2", "", "V3", ""}, {"", "published", "measured", "published", "measured",
		"published", "measured"}}
	for _, p := range r.Patterns {
		row := []string{p.Name + " " + p.What}
		for v := range p.Published {
			cell := p.Measured[IndexAll][v]
			row = append(row, fmt.Sprintf("%.0f", p.Published[v].Milliseconds),
				fmt.Sprintf("%.2f (%d)", cell.Milliseconds, cell.Requests))
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

func fanOuts(b *bytes.Buffer, r Report) {
	b.WriteString("\nFan-outs in V2 by size and physical partitions: RU\n\n")
	rows := [][]string{{"physical partitions", "posts", "Q3", "Q6"}}
	for _, f := range r.FanOut {
		rows = append(rows, []string{fmt.Sprint(f.Partitions), report.Thousands(f.Posts), rus(f.Q3), rus(f.Q6)})
	}
	report.Grid(b, rows)
	report.Paragraph(b, "", "In V1 every row takes its look-ups on top, whatever the size.")
}

func laters(b *bytes.Buffer, r Report) {
	b.WriteString("\nAfter the answer, by the change feed: RU\n\n")
	rows := [][]string{{"", "reading it", "work", "items written"}}
	for _, l := range r.Later {
		rows = append(rows, []string{l.Version + ", after " + l.After + ": " + l.Does, rus(l.Read), rus(l.Work),
			report.Thousands(l.Items)})
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
