package replay

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"binnacle/ingest/decode"
	"binnacle/internal/text/report"
)

// DeadLetterSummary is what a replay of dead letters did, as far as it came.
type DeadLetterSummary struct {
	From, To string // topics
	DryRun   bool   // the replay only counted what it would publish

	Selected int // selected dead letters
	Repeats  int // further copies of them
	ByReason map[decode.Reason]*DeadLetterCounts
	Skipped  map[string]int // dead letters that were not published, by why
}

// DeadLetterCounts is what became of the dead letters of one reason.
type DeadLetterCounts struct{ Before, Published, Skipped int }

func (s *DeadLetterSummary) at(reason decode.Reason) *DeadLetterCounts {
	if s.ByReason == nil {
		s.ByReason, s.Skipped = map[decode.Reason]*DeadLetterCounts{}, map[string]int{}
	}
	if s.ByReason[reason] == nil {
		s.ByReason[reason] = &DeadLetterCounts{}
	}
	return s.ByReason[reason]
}

// add takes what was done to the dead letters of a topic.
func (s *DeadLetterSummary) add(other DeadLetterSummary) {
	s.Selected += other.Selected
	s.Repeats += other.Repeats
	for reason, f := range other.ByReason {
		all := s.at(reason)
		all.Before, all.Published, all.Skipped = all.Before+f.Before, all.Published+f.Published, all.Skipped+f.Skipped
	}
	for why, n := range other.Skipped {
		s.Skipped[why] += n
	}
}

func (s *DeadLetterSummary) skip(reason decode.Reason, why string) {
	s.at(reason).Skipped++
	s.Skipped[why]++
}

func (s *DeadLetterSummary) skipped() (n int) {
	for _, f := range s.ByReason {
		n += f.Skipped
	}
	return n
}

// Print writes the summary for people.
func (s *DeadLetterSummary) Print(w io.Writer) error {
	now := "published"
	if s.DryRun {
		now = "to publish"
	}
	n := func(i int) string { return report.Thousands(i) }
	if _, err := fmt.Fprintf(w, "%s to %s: dead letters %s, repeats %s\n", s.From, s.To, n(s.Selected),
		n(s.Repeats)); err != nil {
		return err
	}
	rows := [][]string{{"reason", "before", now, "left"}}
	var all DeadLetterCounts
	for _, reason := range slices.Sorted(maps.Keys(s.ByReason)) {
		f := s.ByReason[reason]
		rows = append(rows, []string{string(reason), n(f.Before), n(f.Published), n(f.Skipped)})
		all.Before, all.Published, all.Skipped = all.Before+f.Before, all.Published+f.Published, all.Skipped+f.Skipped
	}
	if err := report.Grid(w, append(rows, []string{"all", n(all.Before), n(all.Published), n(all.Skipped)})); err != nil {
		return err
	}
	for _, why := range slices.Sorted(maps.Keys(s.Skipped)) {
		if _, err := fmt.Fprintf(w, "left, %s: %s\n", n(s.Skipped[why]), why); err != nil {
			return err
		}
	}
	return nil
}
