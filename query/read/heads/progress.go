package heads

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"binnacle/internal/store"
)

// How often a query that is not strict asks the log which partitions there are, how soon again after an error, and how
// long it waits for the answer.
const (
	partitionsEvery   = 30 * time.Second
	partitionsRetry   = 5 * time.Second
	partitionsTimeout = 2 * time.Second
)

// progress is which partitions there are, and how far this Reader has answered from each (rule R3). It is safe for any
// number of callers.
type progress struct {
	mu            sync.Mutex // guards below
	known         map[partition]bool
	answered      map[partition]streamPosition
	next          time.Time // the next question to the log
	hasPartitions bool      // the log has answered
}

func newProgress() *progress {
	return &progress{known: make(map[partition]bool), answered: make(map[partition]streamPosition)}
}

// unknown returns which partitions of some ends there are not, or are hidden.
func (p *progress) unknown(ends []store.LogEnd, hidden func(topic string) bool) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range ends {
		if at := (partition{e.Topic, e.Partition}); !p.known[at] || hidden(e.Topic) {
			names = append(names, at.String())
		}
	}
	return names
}

// setPartitions takes the partitions from what the log answered at now.
func (p *progress) setPartitions(ends []store.LogEnd, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.known)
	for _, e := range ends {
		p.known[partition{e.Topic, e.Partition}] = true
	}
	p.hasPartitions, p.next = true, now.Add(partitionsEvery)
}

// due reports whether the log must be asked again, to one caller at a time.
func (p *progress) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.next) {
		return false
	}
	p.next = now.Add(partitionsRetry)
	return true
}

// refreshPartitions asks the log which partitions there are, if that is due.
func (r *Reader) refreshPartitions(ctx context.Context) {
	if r.cfg.Log == nil || !r.progress.due(r.cfg.Now()) {
		return
	}
	asked, cancel := context.WithTimeout(ctx, partitionsTimeout)
	defer cancel()
	ends, err := r.cfg.Log.LogEnds(asked)
	if err != nil {
		if ctx.Err() == nil {
			r.warn("cannot read the ends of the logs", err)
		}
		return
	}
	r.progress.setPartitions(ends, r.cfg.Now())
}

// answeredUntilNow returns how far answers have come.
func (p *progress) answeredUntilNow() map[partition]streamPosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.answered)
}

// missing returns what an answer from s lacks to be complete: a partition without a head, or with a head below the log
// end at its assignment, below what an answer has shown before the heads were asked, or below the asked ends. From now
// on no answer that reaches less than s is complete.
func (r *Reader) missing(s *snapshot, asked []store.LogEnd) []string {
	p, hasLog := r.progress, r.cfg.Log != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range s.furthest {
		p.known[at] = true
	}
	var out []string
	if hasLog && !p.hasPartitions {
		out = append(out, "which partitions there are is not known yet")
	} else if len(p.known) == 0 && len(s.all) == 0 {
		out = append(out, "no ingester answers")
	}
	for _, at := range slices.SortedFunc(maps.Keys(p.known), partition.compare) {
		if why := p.lacks(s, at); why != "" && !r.isOthers(at.topic, s.tenant) {
			out = append(out, why)
		}
	}
	for _, why := range s.behind(asked) {
		if !slices.Contains(out, why) {
			out = append(out, why)
		}
	}
	// If every partition is far enough, an ingester that does not answer is not missed: others have them.
	if s.err != nil && (len(out) > 0 || !hasLog) {
		why := "not all ingesters answer"
		if silent, ok := errors.AsType[*store.SilentHeads](s.err); ok {
			why = silent.Error()
		}
		out = append(out, why)
	}
	for at, h := range s.furthest {
		if reached := positionOf(h); p.answered[at].compare(reached) < 0 {
			p.answered[at] = reached
		}
	}
	return out
}

// lacks returns what one partition lacks, "" for nothing. The caller holds mu.
func (p *progress) lacks(s *snapshot, at partition) string {
	h, ok := s.furthest[at]
	shown := s.answered[at]
	switch {
	case !ok:
		return fmt.Sprintf("no ingester answers for partition %s", at)
	case h.Position < h.CaughtUp:
		return fmt.Sprintf("partition %s is being replayed: offset %d of %d", at, h.Position, h.CaughtUp)
	case positionOf(h).compare(shown) < 0:
		return fmt.Sprintf("partition %s is behind an earlier answer: offset %d of stream %d after offset %d of stream %d",
			at, h.Position, h.Stream, shown.position, shown.stream)
	}
	return ""
}
