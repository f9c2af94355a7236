package cosmos

import (
	"context"
	"net/http"
	"sync"
)

// Meter adds up what the requests of a context cost. It is safe for any number of callers.
type Meter struct {
	mu   sync.Mutex
	read Reading // guarded by mu
}

// Reading is what a Meter has counted.
type Reading struct {
	RUs       float64
	Requests  int
	Throttled int // of the requests, those that were answered 429
}

type meterKey struct{}

// WithMeter makes a context whose requests m counts. Of several meters of one context the innermost counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Read returns what was counted so far.
func (m *Meter) Read() Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read
}

func meterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

func (m *Meter) add(charge float64, answer *Error) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read.RUs += charge
	m.read.Requests++
	if answer != nil && answer.Status == http.StatusTooManyRequests {
		m.read.Throttled++
	}
}
