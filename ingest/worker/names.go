package worker

import (
	"time"

	"binnacle/binning"
)

// outdated is names that new bins do not use any more; those that did are cut by then.
type outdated struct {
	names *binning.Names
	until time.Time
}

// Names are let go of when they take more than this share of what is held, and this much: some producer keeps inventing
// them.
const (
	namesShare = 16
	namesBytes = 1 << 20
)

// renewNames begins new names when the old ones have grown out of proportion, and forgets those that no bin uses any more.
func (w *Worker) renewNames(now time.Time) {
	for len(w.outdated) > 0 && !w.outdated[0].until.After(now) {
		w.outdated = w.outdated[1:]
	}
	if n := int64(w.names.Bytes()); n > namesBytes && n > w.Held()/namesShare {
		w.outdated = append(w.outdated, outdated{w.names, now.Add(w.cfg.Hold + w.cfg.Linger)})
		w.names = binning.NewNames()
	}
}
