package ingest

import (
	"binnacle/ingest/bins"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrDenied ends an Ingester: the store has denied access for so long that it is no passing trouble. The process needs
// other credentials, and ends so that its operator sees why.
var ErrDenied = errors.New("the store denies access")

// accessWatch ends the ingester when the store denies access for too long. It is safe for any number of callers.
type accessWatch struct {
	now   func() time.Time
	after time.Duration
	stop  func(error) // nil while nothing can be stopped

	mu    sync.Mutex // guards below
	since time.Time  // first denial since the store last allowed access
}

func (d *accessWatch) record(f bins.Fault, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case f == bins.None, f == bins.KeyFull:
		d.since = time.Time{}
	case f != bins.Denied:
	case d.since.IsZero():
		d.since = d.now()
	case d.stop != nil && d.now().Sub(d.since) >= d.after:
		d.stop(fmt.Errorf("%w for %s: %w", ErrDenied, d.now().Sub(d.since).Round(time.Second), err))
	}
}
