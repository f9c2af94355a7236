package loadtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// floodRun is one case of the flood: the loop of a partition, in fleet time. In a turn it works as an ingester
// does, with the same Worker: jobs, then records that came in, then some of the deferred records.
type floodRun struct {
	cfg   Config
	of    string
	log   *floodLog
	clock *clock
	local *ingest.Local

	// arrived counts the records in the log, taken the records that were taken or deferred.
	arrived, taken int
	// second is when the floor is committed next.
	second time.Time

	floor int64
	// stored sums up the chunks of the neighbours, and of the loud tenant.
	stored [2]stored

	// visible holds the freshness of the neighbours' readings while the flood lasts: ns from the log to the
	// head.
	visible []int64
	r       FloodResult
}

func newFloodRun(ctx context.Context, cfg Config, of string, a *account) (*floodRun, error) {
	s := &floodRun{cfg: cfg, of: of, log: newFloodLog(cfg, of == floodQuiet), clock: a.clock, second: midnight}
	s.r.Case = of
	container := sharding.Container("", sharding.Month.Of(telemetry.DayOf(midnight.UnixMilli())))
	if err := a.client.Containers().Create(ctx, container, store.Throughput{RUs: unlimitedRUs}); err != nil {
		return nil, err
	}
	fair := time.Duration(-1)
	if of == floodFair {
		fair = 0 // the default
	}
	var err error
	s.local, _, err = a.ingest(ctx, worker.Config{
		Hold: floodHold, Limits: cfg.Flood.limits(of), HeldFor: cfg.Flood.HeldFor, FairAfter: fair,
	}, ingest.Stores{Chunks: counting{a.client.Chunks(), s.storedOf}, DeadLetters: s})
	return s, err
}

// storedOf returns where the chunks of a key count.
func (s *floodRun) storedOf(key sharding.Key) []*stored {
	if strings.HasPrefix(key.TenantShard, loudTenant+"~") {
		return []*stored{&s.stored[1]}
	}
	return []*stored{&s.stored[0]}
}

// run makes turns until everything that was reported is stored or refused.
func (s *floodRun) run(ctx context.Context) error {
	last := midnight.Add(s.cfg.Flood.window())
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := s.clock.now()
		if now.After(last.Add(time.Hour)) {
			return fmt.Errorf("flood, %s: readings still wait an hour after the last one came", s.of)
		}
		if err := s.local.Step(ctx); err != nil {
			return err
		}
		s.arrive(now)
		fed, err := s.takeArrived(ctx)
		if err != nil {
			return err
		}
		again, err := s.takeDeferred(ctx)
		if err != nil {
			return err
		}
		waits := s.observe()
		if fed+again == 0 {
			if now = s.clock.now(); !waits && s.taken == len(s.log.records) && !now.Before(last) {
				break
			}
			s.rest(now)
		}
		for ; !s.clock.now().Before(s.second); s.second = s.second.Add(time.Second) {
			if err := s.commit(); err != nil {
				return err
			}
		}
	}
	return s.finish(ctx)
}

// finish writes all remaining readings, and fails unless each reading is stored or refused once.
func (s *floodRun) finish(ctx context.Context) error {
	if err := s.local.Finish(ctx); err != nil {
		return err
	}
	if err := s.commit(); err != nil {
		return err
	}
	if s.floor != int64(len(s.log.records)) {
		return fmt.Errorf("flood, %s: of %d records %d are committed", s.of, len(s.log.records), s.floor)
	}
	if n := s.stored[0].readings + s.stored[1].readings + s.r.Refused + s.r.DeadLetters; n != len(s.log.records) {
		return fmt.Errorf("flood, %s: of %d records %d are stored or refused", s.of, len(s.log.records), n)
	}
	return nil
}

// takeArrived takes records that came in, as many as a turn does. Each takes its time; then a query shows it.
func (s *floodRun) takeArrived(ctx context.Context) (n int, err error) {
	for ; n < ingest.FeedAtOnce && s.taken < len(s.log.records) && s.log.due[s.taken] <= s.clock.now().UnixNano(); n++ {
		before := s.local.Counts
		if err := s.local.Take(ctx, s.log.records[s.taken]); err != nil {
			return n, err
		}
		s.spend(before)
		if due := s.log.due[s.taken]; !s.log.loud[s.taken] && s.loud(due) {
			s.visible = append(s.visible, s.clock.now().UnixNano()-due)
		}
		s.taken++
	}
	return n, nil
}

// takeDeferred takes deferred records, as many as a turn does.
func (s *floodRun) takeDeferred(ctx context.Context) (n int, err error) {
	for ; n < ingest.DeferredAtOnce; n++ {
		offset, ok := s.local.Deferred().Next(s.clock.now())
		if !ok {
			break
		}
		before := s.local.Counts
		if err := s.local.TakeDeferredRecord(ctx, s.log.records[offset]); err != nil {
			return n, err
		}
		s.spend(before)
	}
	return n, nil
}

// spend moves the clock by the time that the last record took.
func (s *floodRun) spend(before ingest.Counts) {
	share, c := deferredShare, s.local.Counts
	switch {
	case c.Taken > before.Taken, c.Resumed > before.Resumed:
		share = 1
	case c.Refused > before.Refused:
		share = refuseShare
	}
	s.clock.reach(s.clock.now().Add(time.Duration(share / s.cfg.Flood.Takes * float64(time.Second))))
}

// observe records for how long readings wait, and reports whether any is deferred.
func (s *floodRun) observe() bool {
	now := s.clock.now()
	s.arrive(now)
	waiting := s.local.Deferred().Deferrals("")
	for _, x := range waiting {
		s.r.DeferredSeconds = max(s.r.DeferredSeconds, now.Sub(x.Since).Seconds())
	}
	return len(waiting) > 0
}

// arrive records what has come into the log.
func (s *floodRun) arrive(now time.Time) {
	for s.arrived < len(s.log.due) && s.log.due[s.arrived] <= now.UnixNano() {
		s.arrived++
	}
	s.local.Bins().SetLogEnd(int64(s.arrived))
}

func (s *floodRun) loud(at int64) bool {
	since := time.Duration(at - midnight.UnixNano())
	return since >= floodCalm && since < floodCalm+s.cfg.Flood.For
}

// rest moves the clock to the next event.
func (s *floodRun) rest(now time.Time) {
	next := s.local.Next(now)
	if at, ok := s.local.Deferred().DueAt(); ok && at.Before(next) {
		next = at
	}
	if s.taken < len(s.log.due) {
		if due := time.Unix(0, s.log.due[s.taken]); due.Before(next) {
			next = due
		}
	}
	if s.second.Before(next) {
		next = s.second
	}
	s.clock.reach(next)
	if s.clock.now().Equal(now) {
		s.clock.reach(now.Add(time.Millisecond))
	}
}

// commit commits the floor, which must not go back.
func (s *floodRun) commit() error {
	floor := s.local.Floor()
	if floor < s.floor {
		return fmt.Errorf("flood, %s: the floor went back from %d to %d", s.of, s.floor, floor)
	}
	s.floor = floor
	s.local.Committed(floor, s.clock.now())
	return nil
}

// Publish implements ingest.DeadLetterWriter.
func (s *floodRun) Publish(_ context.Context, letters []write.DeadLetter) error {
	for i := range letters {
		if s.log.loud[letters[i].Record.Offset] {
			s.r.Refused++
		} else {
			s.r.DeadLetters++
		}
	}
	return nil
}

func (s *floodRun) result() FloodResult {
	slices.Sort(s.visible)
	at := func(share float64) float64 {
		if len(s.visible) == 0 {
			return 0
		}
		return float64(s.visible[int(math.Ceil(share*float64(len(s.visible))))-1]) / float64(time.Second)
	}
	r := s.r
	r.P50, r.P99 = at(0.5), at(0.99)
	r.Deferred, r.Stored = s.local.Counts.Deferred, s.stored[1].readings
	return r
}
