package loadtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// partitionBars shows for each physical partition its share of the request units, in each layout.
func partitionBars(b *bytes.Buffer, o Outcome) {
	for some := range slices.Chunk(o.Results, barsAbreast) {
		barsOf(b, some)
		b.WriteByte('\n')
	}
}

// barsAbreast is how many layouts stand side by side.
const barsAbreast = 4

func barsOf(b *bytes.Buffer, results []Result) {
	partitions := len(results[0].Spread)
	title := fmt.Sprintf("where the RU go, modelled (even: %s)", percent(1/float64(partitions)))
	left := len(title)
	fmt.Fprintf(b, "  %s ", title)
	for _, x := range results {
		fmt.Fprintf(b, "  %-*s", x.barColumn(), x.Layout.about())
	}
	trim(b)
	for i := range partitions {
		fmt.Fprintf(b, "  %-*s ", left, fmt.Sprintf("physical partition %d", i))
		for _, x := range results {
			fmt.Fprintf(b, "  %-*s", x.barColumn(), fmt.Sprintf("%s %5s", bar(x.Spread[i]), percent(x.Spread[i])))
		}
		trim(b)
	}
}

// barColumn returns the width of a layout's bars.
func (r Result) barColumn() int { return max(barColumnWidth, len(r.Layout.about())) }

// The width of a partition's bar, and of the bar with its figure.
const (
	barWidth       = 10
	barColumnWidth = barWidth + len(" 100 %")
)

// bar returns a share as a bar, to an eighth of a character; what is left of the full bar is dotted.
func bar(share float64) string {
	eighths := min(int(share*barWidth*8+0.5), barWidth*8)
	out := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		out += string([]rune(" ▏▎▍▌▋▊▉")[part])
	}
	return out + strings.Repeat("·", barWidth-len([]rune(out)))
}

// trim ends a line without blanks.
func trim(b *bytes.Buffer) {
	b.Truncate(len(bytes.TrimRight(b.Bytes(), " ")))
	b.WriteByte('\n')
}
