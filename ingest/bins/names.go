package bins

import (
	"binnacle/binning"
	"time"
)

// names has the metric names and block schemas that bins share.
type names struct {
	Metrics  *binning.Names
	Schemas  *binning.Schemas
	Outdated []outdated // names that bins still use
}

// outdated is names that new bins do not use any more; bins that did are cut by then.
type outdated struct {
	Names *binning.Names
	until time.Time
}

// NewNames returns names without one.
func NewNames() names { return names{Metrics: binning.NewNames(), Schemas: binning.NewSchemas()} }

// namesShare and namesBytes bound names: names that take more than namesBytes, and more than one part in namesShare
// of the bytes held, are replaced, since some producer keeps inventing them.
const (
	namesShare = 16
	namesBytes = 1 << 20
)

// Renew begins new names when the old ones take too much of the bytes held, and forgets old ones, which no bin uses
// after keep.
func (n *names) Renew(held int64, now time.Time, keep time.Duration) {
	for len(n.Outdated) > 0 && !n.Outdated[0].until.After(now) {
		n.Outdated = n.Outdated[1:]
	}
	if size := int64(n.Metrics.Bytes()); size > namesBytes && size > held/namesShare {
		n.Outdated = append(n.Outdated, outdated{n.Metrics, now.Add(keep)})
		n.Metrics = binning.NewNames()
	}
}

// Bytes returns the memory that names and schemas take.
func (n *names) Bytes() int64 {
	size := int64(n.Metrics.Bytes() + n.Schemas.Bytes())
	for _, o := range n.Outdated {
		size += int64(o.Names.Bytes())
	}
	return size
}
