package loadtest

import (
	"fmt"
	"slices"

	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/sharding/epk"
)

// Split is a physical partition that was split in two. Its rows until then count as those of its first half.
type Split struct {
	At        float64 `json:"at"`        // seconds since the window opened
	Partition int     `json:"partition"` // the first half; the second half follows it
	Before    float64 `json:"before"`    // share of the readings offered that were stored before the split
	After     float64 `json:"after"`     // and after it
}

// splits reports whether a physical partition of the scenario's container can be split: there is one container, and a
// window without gaps.
func (s Scenario) splits() bool { return s != MonthRoll && s != Backfill && s != Explodes }

// splitting returns what splits a physical partition of the pass's container by its place, nil where none is.
func (p pass) splitting(a *account, container string) func(i int) error {
	if !p.cfg.Split || p.rus == 0 || p.enough {
		return nil
	}
	return func(i int) error {
		parts, err := a.partitions(container)
		if err != nil {
			return err
		}
		if err := a.server.Split(store.Database, container, parts[i].ID); err != nil {
			return fmt.Errorf("split physical partition %d: %w", i, err)
		}
		return nil
	}
}

// retired returns the physical partitions of a container that were split, with what they did before.
func (a *account) retired(container string) ([]emulator.PartitionStats, error) {
	return a.server.Retired(store.Database, container)
}

// halve splits the physical partition with the most RU once half of the columns are over.
func (r *recorder) halve() error {
	if r.split == nil || r.trace.Splits != nil || r.at < len(r.trace.Stored)/2 {
		return nil
	}
	hottest, most := 0, 0.0
	for i, p := range r.trace.Partitions {
		sum := 0.0
		for _, rus := range p.RUs {
			sum += rus
		}
		if sum > most {
			hottest, most = i, sum
		}
	}
	if err := r.split(hottest); err != nil {
		return err
	}
	var err error
	if r.last, err = r.stats(); err != nil {
		return err
	}
	columns := len(r.trace.Stored)
	r.trace.Splits = []Split{{At: float64(r.at) * r.step.Seconds(), Partition: hottest}}
	r.trace.Partitions = slices.Insert(r.trace.Partitions, hottest+1,
		TracedPartition{RUs: make([]float64, columns), Throttled: make([]float64, columns)})
	r.ranges = r.ranges[:0]
	for _, p := range r.last {
		r.ranges = append(r.ranges, epk.Range{Min: p.Min, Max: p.Max})
	}
	for i := range r.trace.Marks {
		if r.trace.Marks[i][1] > float64(hottest) {
			r.trace.Marks[i][1]++
		}
	}
	keys := make(map[keyAt]*TracedKey, len(r.keys))
	for at, k := range r.keys {
		if at.partition > hottest {
			at.partition++
		}
		keys[at] = k
	}
	r.keys = keys
	return nil
}

// compareSplits fills in what was stored before and after each split.
func (r *recorder) compareSplits() {
	for i := range r.trace.Splits {
		s := &r.trace.Splits[i]
		share := func(from, to int) float64 {
			stored, offered := 0.0, 0.0
			for c := from; c < to; c++ {
				stored, offered = stored+r.trace.Stored[c]*r.long[c], offered+r.trace.Offered[c]*r.long[c]
			}
			return round(stored / max(1e-9, offered))
		}
		at := int(s.At / r.step.Seconds())
		s.Before, s.After = share(0, at), share(at, len(r.trace.Stored))
	}
}

// split says what the splits of a layout have changed.
func (r Result) split() string {
	if r.Trace == nil || len(r.Trace.Splits) == 0 || r.lost() < hardlyAny {
		return ""
	}
	s := r.Trace.Splits[0]
	return fmt.Sprintf(" After %s that partition is split in two: before, %s of the readings that came were stored, "+
		"and after it %s.", seconds(s.At), percent(s.Before), percent(s.After))
}
