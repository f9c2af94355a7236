package worker

import (
	"time"

	"binnacle/binning"
)

// names has the metric names and block schemas that bins share.
type names struct {
	metrics  *binning.Names
	schemas  *binning.Schemas
	outdated []outdated // names that bins still use
}

// outdated is names that new bins do not use any more; bins that did are cut by then.
type outdated struct {
	names *binning.Names
	until time.Time
}

func newNames() names { return names{metrics: binning.NewNames(), schemas: binning.NewSchemas()} }

// Names are replaced when they take more than this share of what is held, and this much: some producer keeps inventing
// them.
const (
	namesShare = 16
	namesBytes = 1 << 20
)

// renew begins new names when the old ones take too much of what is held, and forgets those that no bin uses any more,
// which is so after keep.
func (n *names) renew(held int64, now time.Time, keep time.Duration) {
	for len(n.outdated) > 0 && !n.outdated[0].until.After(now) {
		n.outdated = n.outdated[1:]
	}
	if size := int64(n.metrics.Bytes()); size > namesBytes && size > held/namesShare {
		n.outdated = append(n.outdated, outdated{n.metrics, now.Add(keep)})
		n.metrics = binning.NewNames()
	}
}

// bytes returns the memory that names and schemas take.
func (n *names) bytes() int64 {
	size := int64(n.metrics.Bytes() + n.schemas.Bytes())
	for _, o := range n.outdated {
		size += int64(o.names.Bytes())
	}
	return size
}
