package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/retry"
)

// Lagging are the pauses between two looks at a replica that lags behind, or at a document that others change too.
var Lagging = retry.Policy{First: 5 * time.Millisecond, Max: time.Second}

// Contend calls try until it does not fail with ErrExists or ErrChanged: another process was faster, or a read lagged.
func Contend(ctx context.Context, try func() error) error {
	for pauses := Lagging.Begin(); ; {
		err := try()
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrChanged) {
			return err
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// Put creates a document that has no ETag, and replaces any other.
func Put(ctx context.Context, docs Documents, d Document) (etag string, err error) {
	if d.ETag == "" {
		return docs.Create(ctx, d)
	}
	return docs.Replace(ctx, d)
}

type persistenceKey struct{}

// Persistence is how long requests of a context are sent again while the store fails for the moment, and how it has
// failed last. It is safe for any number of callers.
type Persistence struct {
	For time.Duration

	failing atomic.Pointer[FailingError]
}

// WithPersistence returns a context: its requests are sent again for so long while the store fails for the moment.
// While the store throttles them other bounds hold.
func WithPersistence(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, persistenceKey{}, &Persistence{For: d})
}

// PersistenceOf returns what a context says of sending requests again, nil for nothing.
func PersistenceOf(ctx context.Context) *Persistence {
	p, _ := ctx.Value(persistenceKey{}).(*Persistence)
	return p
}

// Note notes how a request has failed at last, nil that it was served.
func (p *Persistence) Note(failing *FailingError) {
	if p != nil {
		p.failing.Store(failing)
	}
}

// Failing returns how the request that ended last has failed, nil where it was served.
func (p *Persistence) Failing() *FailingError {
	if p == nil {
		return nil
	}
	return p.failing.Load()
}

// Meter adds up what the requests of a context cost. It is safe for any number of callers.
type Meter struct {
	// Charged, unless it is nil, is called with the cost of each request by any goroutine.
	Charged func(rus float64)

	mu   sync.Mutex
	read Reading // guarded by mu
}

// Reading is what a Meter has counted.
type Reading struct {
	RUs      float64
	Requests int
	// Throttled counts the requests that were answered 429.
	Throttled int
}

type metersKey struct{}

// WithMeter returns a context in which m counts requests, as do the meters that the context has already.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	all, _ := ctx.Value(metersKey{}).([]*Meter)
	return context.WithValue(ctx, metersKey{}, append(slices.Clip(all), m))
}

// Charge adds the cost of a request to the meters of a context, and whether it was throttled (429). Each client of a
// store calls it once for each request.
func Charge(ctx context.Context, rus float64, throttled bool) {
	all, _ := ctx.Value(metersKey{}).([]*Meter)
	for _, m := range all {
		m.count(rus, throttled)
	}
}

// Read returns the counts so far.
func (m *Meter) Read() Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read
}

func (m *Meter) count(rus float64, throttled bool) {
	m.mu.Lock()
	m.read.RUs += rus
	m.read.Requests++
	if throttled {
		m.read.Throttled++
	}
	m.mu.Unlock()
	if m.Charged != nil {
		m.Charged(rus)
	}
}
