package loadtest

import (
	"bytes"
	"fmt"
	"strings"
)

// partitionBars shows for each layout how its request units are spread over the physical partitions.
func partitionBars(b *bytes.Buffer, r Report, o Outcome) {
	title := fmt.Sprintf("where the RU go, modelled (even: %s)", percent(1/float64(r.PhysicalPartitions)))
	left := len(title)
	for _, l := range layouts {
		left = max(left, len(l.about()))
	}
	fmt.Fprintf(b, "  %-*s ", left, title)
	for i := range r.PhysicalPartitions {
		fmt.Fprintf(b, "  %-*s", barColumnWidth, fmt.Sprintf("partition %d", i))
	}
	trim(b)
	for _, x := range o.Results {
		fmt.Fprintf(b, "  %-*s ", left, x.Layout.about())
		for _, share := range x.Spread {
			fmt.Fprintf(b, "  %s %5s", bar(share), percent(share))
		}
		trim(b)
	}
}

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
