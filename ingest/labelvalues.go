package ingest

import (
	"context"
	"sync"
	"time"

	"binnacle/ingest/write"
	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
)

// labelCopyAge is the greatest age of the copy of a tenant's catalog that a Worker gets label values from.
const labelCopyAge = 15 * time.Second

func (e *Executor) labelValues(ctx context.Context, j *write.LabelLookup) error {
	now := e.now()
	known, err := e.devices.Get(ctx, j.Tenant, now.Add(-labelCopyAge))
	if err != nil {
		return err
	}
	j.Values = e.labels.of(j.Tenant, known, now)
	return nil
}

// labelCache has the label values of tenants, each once for all partitions that a process reads.
type labelCache struct {
	mu      sync.Mutex // guards below
	tenants map[string]*cachedLabels
}

// cachedLabels are the label values of a tenant as of a copy of its catalog.
type cachedLabels struct {
	copy    *catalogcache.Copy
	at      time.Time
	updated int64
	values  *catalog.LabelValues
	used    time.Time
}

// labelsKept is how long label values are kept after their last use.
const labelsKept = 10 * time.Minute

func (l *labelCache) of(tenant string, known *catalogcache.Copy, now time.Time) *catalog.LabelValues {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, x := range l.tenants {
		if now.Sub(x.used) > labelsKept {
			delete(l.tenants, name)
		}
	}
	at, x := known.ReadAt(), l.tenants[tenant]
	known.Use(func(index *catalog.Index) {
		if x == nil || x.copy != known || !x.at.Equal(at) || x.updated != index.Updated() {
			x = &cachedLabels{copy: known, at: at, updated: index.Updated(), values: index.LabelValues()}
		}
	})
	if l.tenants == nil {
		l.tenants = map[string]*cachedLabels{}
	}
	x.used, l.tenants[tenant] = now, x
	return x.values
}
