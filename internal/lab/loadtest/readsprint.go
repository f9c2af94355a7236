package loadtest

import (
	"bytes"
	"fmt"
	"slices"

	"binnacle/internal/text/report"
)

func (r *ReadsReport) about() string {
	return fmt.Sprintf("what questions cost over a day of %d devices of a tenant, and %d of others, that report every "+
		"%s; a query by a prefix of a hierarchical key visits the physical partitions that it touches", r.OfTenant,
		r.Devices-r.OfTenant, one(seconds(r.IntervalSeconds)))
}

// rows returns the table of the questions: a line for each layout, below two lines that explain the columns.
func (r *ReadsReport) rows() [][]string {
	rows := [][]string{
		{"", "latest of a device", "", "a day of a device", "", "an hour of a tenant", "", ""},
		{"a document per", "RU, modelled", "ms", "RU", "ms", "keys", "RU", "ms"},
	}
	for _, x := range r.Layouts {
		row := []string{x.Layout.about()}
		for _, c := range []ReadCost{x.Latest, x.Day} {
			row = append(row, number(c.RUs), number(c.Milliseconds))
		}
		rows = append(rows, append(row, fmt.Sprint(x.Panel.Keys), number(x.Panel.RUs), number(x.Panel.Milliseconds)))
	}
	return rows
}

// own returns what questions cost in Binnacle, balanced.
func own(r *ReadsReport) ReadResult {
	return r.Layouts[slices.IndexFunc(r.Layouts, func(x ReadResult) bool { return x.Layout == Balanced })]
}

func (r *ReadsReport) conclusions() []string {
	least := func(of func(ReadResult) ReadCost) (l Layout, rus float64) {
		for _, x := range r.Layouts {
			if c := of(x); x.Layout.sampled() && (l == "" || c.RUs < rus) {
				l, rus = x.Layout, c.RUs
			}
		}
		return l, rus
	}
	own := own(r)
	_, day := least(func(x ReadResult) ReadCost { return x.Day })
	cheapest, panel := least(func(x ReadResult) ReadCost { return x.Panel })
	return []string{
		fmt.Sprintf("A day of a device takes %s RU (modelled) at least in a document per reading, and %s in Binnacle, "+
			"balanced: %d chunks.", number(day), number(own.Day.RUs), own.Day.Documents),
		fmt.Sprintf("An hour of a tenant takes %s RU in a document per %s, and %s in Binnacle, balanced, which asks %s: "+
			"a tenant that is spread over physical partitions has to be asked in each of them.",
			number(panel), cheapest.about(), number(own.Panel.RUs), plural(own.Panel.Keys, "key")),
		"What is in open bins is answered by ingesters, and takes no RU.",
	}
}

func reads(b *bytes.Buffer, r *ReadsReport) {
	report.Paragraph(b, "", "READS: "+r.about())
	b.WriteByte('\n')
	report.Grid(b, r.rows())
	b.WriteByte('\n')
	for _, s := range r.conclusions() {
		report.Paragraph(b, "  - ", s)
	}
}
