package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/text/report"
)

// pending calls f with each record to publish, in the order of the dead letters, and counts the others by reason.
func (r *deadLetterReplay) pending(ctx context.Context, sum *DeadLetterSummary,
	f func(m repaired) error) error {
	seen := map[deadletter.ID]bool{}
	taken := map[deadletter.ID]deadletter.Elements{} // elements of earlier dead letters, by record
	for _, p := range slices.Sorted(maps.Keys(r.end)) {
		clear(r.repairer.elements)
		for at := r.first[p]; at < r.end[p]; {
			letters, times, next, err := r.page(ctx, p, at)
			if err != nil {
				return err
			}
			at = next
			for i := range letters {
				l := &letters[i]
				rest := r.repairer.follow(l)
				id := l.ID()
				if !r.wanted(l, times[i]) || seen[id] {
					continue
				}
				seen[id] = true
				if isNew := l.Reduce(taken); !isNew {
					sum.at(l.Reason).Before++ // an earlier dead letter has all elements
					continue
				}
				if r.log.done[id] {
					sum.at(l.Reason).Before++
					continue
				}
				if rest {
					sum.skip(l.Reason, leftRest)
					continue
				}
				m, left, err := r.repairer.repair(ctx, l)
				if err != nil {
					return err
				}
				if left != "" {
					sum.skip(r.log.deadLetters[id].reason, left)
					continue
				}
				if m.rest != "" {
					sum.skip(l.Reason, m.rest)
				}
				if err := f(r.addressed(m)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// page reads some dead letters of the topic from an offset on. They share no memory with the fetched batch, so that
// their records may be fetched at the same time.
func (r *deadLetterReplay) page(ctx context.Context, partition int, at int64) (all []deadletter.DeadLetter,
	times []int64, next int64, err error) {
	batch, err := r.dead.Fetch(ctx, partition, at)
	if err != nil {
		return nil, nil, 0, err
	}
	defer batch.Release()
	for _, rec := range batch.Records {
		if rec.Offset >= r.end[partition] {
			break
		}
		own := make([]kafka.Header, len(rec.Headers))
		for i, h := range rec.Headers {
			own[i] = kafka.Header{Key: h.Key, Value: bytes.Clone(h.Value)}
		}
		l, ok := deadletter.Parse(bytes.Clone(rec.Key), bytes.Clone(rec.Value), own)
		if ok && l.Topic == r.cfg.Topic {
			all, times = append(all, l), append(times, rec.Time)
		}
	}
	return all, times, batch.Next, nil
}

// addressed sets the partition of a record, and adds the headers of its copy and of its backfill.
func (r *deadLetterReplay) addressed(m repaired) repaired {
	if m.partition < 0 || !slices.Contains(r.targets, m.partition) {
		m.partition = kafka.PartitionOf(m.message.Key, r.targets)
	}
	own := slices.Clone(m.message.Headers)
	for tenant := range m.spans {
		if id := r.grants[tenant]; id != "" && len(m.spans) == 1 {
			own = slices.DeleteFunc(own, func(h kafka.Header) bool { return h.Key == control.BackfillHeader })
			own = append(own, kafka.Header{Key: control.BackfillHeader, Value: []byte(id)})
		}
	}
	m.message.Headers = append(own, kafka.Header{Key: deadletter.HeaderReplayOf, Value: []byte(m.id.String())})
	return m
}

// original fetches the record that a dead letter is of, if the log has it still.
func (r *deadLetterReplay) original(ctx context.Context, l *deadletter.DeadLetter) (kafka.Record, bool, error) {
	if !slices.Contains(r.targets, int(l.Partition)) {
		return kafka.Record{}, false, nil
	}
	first, end, err := r.target.Bounds(ctx, int(l.Partition))
	if err != nil || l.Offset < first || l.Offset >= end {
		return kafka.Record{}, false, err
	}
	batch, err := r.target.Fetch(ctx, int(l.Partition), l.Offset)
	if err != nil {
		return kafka.Record{}, false, err
	}
	defer batch.Release()
	if len(batch.Records) == 0 || !sameRecord(l, &batch.Records[0]) {
		return kafka.Record{}, false, nil
	}
	rec := batch.Records[0]
	rec.Key, rec.Value, rec.Headers = bytes.Clone(rec.Key), bytes.Clone(rec.Value), slices.Clone(rec.Headers)
	for i := range rec.Headers {
		rec.Headers[i].Value = bytes.Clone(rec.Headers[i].Value)
	}
	return rec, true, nil
}

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
