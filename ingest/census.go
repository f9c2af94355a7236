package ingest

import (
	"context"
	"sync"
	"time"

	"binnacle/ingest/worker"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
)

// censusAge is how old a copy of a tenant's catalog may be of whose labels a Worker asks.
const censusAge = 15 * time.Second

// census tells which values the labels of a tenant have.
func (e *Executor) census(ctx context.Context, j *worker.Census) error {
	now := e.now()
	known, err := e.devices.Copy(ctx, j.Tenant, now.Add(-censusAge))
	if err != nil {
		return err
	}
	j.Values = e.labels.of(j.Tenant, known, now)
	return nil
}

// labels has the values of the labels of tenants, each once for all partitions that a process reads.
type labels struct {
	mu      sync.Mutex // guards below
	tenants map[string]*labelled
}

// labelled is what the labels of a tenant are as of a copy of its catalog.
type labelled struct {
	copy   *control.Copy
	at     time.Time
	told   int64
	values *catalog.LabelValues
	used   time.Time
}

// labelsFor is for how long the labels of a tenant are kept that nobody asks for.
const labelsFor = 10 * time.Minute

// of is the values of a tenant's labels as of a copy of its catalog.
func (l *labels) of(tenant string, known *control.Copy, now time.Time) *catalog.LabelValues {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, x := range l.tenants {
		if now.Sub(x.used) > labelsFor {
			delete(l.tenants, name)
		}
	}
	at, x := known.At(), l.tenants[tenant]
	known.Use(func(index *catalog.Index) {
		if x == nil || x.copy != known || !x.at.Equal(at) || x.told != index.Told() {
			x = &labelled{copy: known, at: at, told: index.Told(), values: index.LabelValues()}
		}
	})
	if l.tenants == nil {
		l.tenants = map[string]*labelled{}
	}
	x.used, l.tenants[tenant] = now, x
	return x.values
}
