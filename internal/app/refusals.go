package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/ingest/write"
)

// refusalsEvery is the shortest time between two log lines about refused messages.
const refusalsEvery = 10 * time.Second

// Refusals logs that messages are refused, for a person who tries what `binnacle dev` accepts. It wraps the writer of
// dead letters.
type Refusals struct {
	ingest.DeadLetterWriter

	Log *slog.Logger
	See string // how to see the refused messages

	mu      sync.Mutex // guards below
	reasons map[decode.Reason]int
	last    decode.Bad
}

// Publish implements ingest.DeadLetterWriter.
func (r *Refusals) Publish(ctx context.Context, letters []write.DeadLetter) error {
	err := r.DeadLetterWriter.Publish(ctx, letters)
	if err == nil && len(letters) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reasons == nil {
			r.reasons = map[decode.Reason]int{}
		}
		for _, l := range letters {
			r.reasons[l.Bad.Reason]++
			r.last = l.Bad
		}
	}
	return err
}

// Run logs what was refused, a line at most every refusalsEvery, until the context ends.
func (r *Refusals) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if now.Sub(logged) >= refusalsEvery && r.log() {
				logged = now
			}
		}
	}
}

// log logs what was refused since the last line, and reports whether there was anything.
func (r *Refusals) log() bool {
	r.mu.Lock()
	reasons, last := r.reasons, r.last
	r.reasons = nil
	r.mu.Unlock()
	if len(reasons) == 0 {
		return false
	}
	var counts []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		counts = append(counts, fmt.Sprintf("%s %d", reason, reasons[reason]))
	}
	r.Log.Warn("messages refused", "reasons", strings.Join(counts, ", "), "last", last.Detail, "see", r.See)
	return true
}
