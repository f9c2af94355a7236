package cosmos

import (
	"binnacle/internal/text/recent"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maxSeries bounds the physical partitions, and the tenants, that metrics tell of: beyond it the one that was met least
// recently is left out, until it is met again.
const maxSeries = 256

// unknownRange replaces the id of a physical partition until an answer has it.
const unknownRange = "unknown"

// rangeSeries are the metrics of physical partitions.
type rangeSeries struct {
	requests, rus, throttled, held *prometheus.CounterVec
	waiting                        *prometheus.GaugeVec
	recent                         recent.Names[rangeName]
}

// rangeName names a physical partition; its fields are the labels of the metrics.
type rangeName struct{ container, id string }

func newRangeSeries(r prometheus.Registerer) *rangeSeries {
	f := promauto.With(r)
	labels := []string{"container", "range"}
	counter := func(name, help string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &rangeSeries{
		recent: recent.Names[rangeName]{Most: maxSeries},
		requests: counter("binnacle_cosmos_range_requests_total",
			"Requests that a physical partition has answered, by its id."),
		rus: counter("binnacle_cosmos_range_request_units_total",
			"Request units that were charged by a physical partition."),
		throttled: counter("binnacle_cosmos_range_throttled_total",
			"Requests that a physical partition answered 429."),
		held: counter("binnacle_cosmos_range_held_total",
			"Requests that were held back because the physical partition wanted to be left alone."),
		waiting: f.NewGaugeVec(prometheus.GaugeOpts{Name: "binnacle_cosmos_range_waiting",
			Help: "Requests that wait in this process for a physical partition; writes of ingest wait in its bins instead."},
			labels),
	}
}

func (s *rangeSeries) countAnswer(n rangeName, rus float64, throttled bool) {
	s.count(n, func(n rangeName) {
		s.requests.WithLabelValues(n.container, n.id).Inc()
		s.rus.WithLabelValues(n.container, n.id).Add(rus)
		if throttled {
			s.throttled.WithLabelValues(n.container, n.id).Inc()
		}
	})
}

func (s *rangeSeries) countHeld(n rangeName) {
	s.count(n, func(n rangeName) { s.held.WithLabelValues(n.container, n.id).Inc() })
}

// addWaiting counts a request that waits, or, with a negative number, waits no more.
func (s *rangeSeries) addWaiting(n rangeName, more float64) {
	s.count(n, func(n rangeName) { s.waiting.WithLabelValues(n.container, n.id).Add(more) })
}

func (s *rangeSeries) count(n rangeName, count func(n rangeName)) {
	if n.id == "" {
		n.id = unknownRange
	}
	s.recent.Use(n, count, func(n rangeName) {
		for _, c := range []*prometheus.CounterVec{s.requests, s.rus, s.throttled, s.held} {
			c.DeleteLabelValues(n.container, n.id)
		}
		s.waiting.DeleteLabelValues(n.container, n.id)
	})
}

// tenantSeries are the metrics of tenants: the charges for each.
type tenantSeries struct {
	rus    *prometheus.CounterVec
	recent recent.Names[string]
}

func newTenantSeries(r prometheus.Registerer) *tenantSeries {
	rus := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "binnacle_cosmos_tenant_request_units_total",
		Help: "Request units charged for requests that are about one tenant.",
	}, []string{"tenant", "operation"})
	return &tenantSeries{recent: recent.Names[string]{Most: maxSeries}, rus: rus}
}

func (s *tenantSeries) count(tenant, operation string, rus float64) {
	s.recent.Use(tenant,
		func(tenant string) { s.rus.WithLabelValues(tenant, operation).Add(rus) },
		func(tenant string) { s.rus.DeletePartialMatch(prometheus.Labels{"tenant": tenant}) })
}
