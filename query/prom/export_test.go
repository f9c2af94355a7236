package prom

import (
	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/prometheus/storage"
)

// Over is the readings of a tenant as an engine sees them, each time as they are then.
func Over(q *query.Querier, tenant string) storage.Queryable {
	return storage.QueryableFunc(func(mint, maxt int64) (storage.Querier, error) {
		t := &tenantStorage{
			querier: q, tenant: tenant, memory: q.Memory(1 << 30), tags: make(map[string]telemetry.Labels),
		}
		return &ownSelector{selector{t, mint, maxt}}, nil
	})
}

// ownSelector is a selector that ends with what it has read.
type ownSelector struct{ selector }

func (s *ownSelector) Close() error {
	s.memory.Close()
	return nil
}
