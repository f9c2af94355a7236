package store

import (
	"context"
	"slices"
	"sync"
)

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
