package bins

import (
	"binnacle/binning"
	"slices"
	"time"
)

// lingering is rows that are known to be stored since a moment ago: a replica that lags may not have them yet.
type lingering struct {
	rows   binning.Bin
	Until  nanos
	others bool // another process has stored them, as far as is known
}

// Lingers is how rows linger: from now until later, with the schemas of their blocks.
type Lingers struct {
	Now, Until time.Time
	Schemas    *binning.Schemas
}

// lingers is such rows, in the order in which they go.
type lingers []lingering

// LetGo drops rows that have lingered, and reports whether others stored some of them. The caller holds the lock.
func (l *lingers) LetGo(now time.Time) (others bool) {
	n := 0
	for n < len(*l) && (*l)[n].Until <= NanosOf(now) {
		others = others || (*l)[n].others
		n++
	}
	if *l = slices.Clone((*l)[n:]); len(*l) == 0 {
		*l = nil
	}
	return others
}

// bytes returns the memory of rows that are stored.
func (l lingers) bytes() (n int) {
	for i := range l {
		n += Size(&l[i].rows)
	}
	return n
}
