package replay

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"binnacle/ingest/decode"
	"binnacle/internal/report"
)

// LettersSummary is what a replay of dead letters did, as far as it came.
type LettersSummary struct {
	From, To string // topics
	DryRun   bool   // what would be published was not

	Letters  int // that were selected
	Repeats  int // further copies of them
	ByReason map[decode.Reason]*LettersFate
	Left     map[string]int // letters that were not published, by why
}

// LettersFate is what became of the letters of one reason.
type LettersFate struct{ Before, Published, Left int }

func (s *LettersSummary) at(reason decode.Reason) *LettersFate {
	if s.ByReason == nil {
		s.ByReason, s.Left = map[decode.Reason]*LettersFate{}, map[string]int{}
	}
	if s.ByReason[reason] == nil {
		s.ByReason[reason] = &LettersFate{}
	}
	return s.ByReason[reason]
}

// add takes what was done to the letters of a topic.
func (s *LettersSummary) add(other LettersSummary) {
	s.Letters += other.Letters
	s.Repeats += other.Repeats
	for reason, f := range other.ByReason {
		all := s.at(reason)
		all.Before, all.Published, all.Left = all.Before+f.Before, all.Published+f.Published, all.Left+f.Left
	}
	for why, n := range other.Left {
		s.Left[why] += n
	}
}

func (s *LettersSummary) leave(reason decode.Reason, why string) {
	s.at(reason).Left++
	s.Left[why]++
}

func (s *LettersSummary) left() (n int) {
	for _, f := range s.ByReason {
		n += f.Left
	}
	return n
}

// Print writes the summary for people.
func (s *LettersSummary) Print(w io.Writer) error {
	now := "published"
	if s.DryRun {
		now = "to publish"
	}
	n := func(i int) string { return report.Thousands(i) }
	if _, err := fmt.Fprintf(w, "%s to %s: letters %s, repeats of them %s\n", s.From, s.To, n(s.Letters),
		n(s.Repeats)); err != nil {
		return err
	}
	rows := [][]string{{"reason", "before", now, "left"}}
	var all LettersFate
	for _, reason := range slices.Sorted(maps.Keys(s.ByReason)) {
		f := s.ByReason[reason]
		rows = append(rows, []string{string(reason), n(f.Before), n(f.Published), n(f.Left)})
		all.Before, all.Published, all.Left = all.Before+f.Before, all.Published+f.Published, all.Left+f.Left
	}
	if err := report.Grid(w, append(rows, []string{"all", n(all.Before), n(all.Published), n(all.Left)})); err != nil {
		return err
	}
	for _, why := range slices.Sorted(maps.Keys(s.Left)) {
		if _, err := fmt.Fprintf(w, "left, %s: %s\n", n(s.Left[why]), why); err != nil {
			return err
		}
	}
	return nil
}
