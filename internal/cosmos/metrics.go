package cosmos

import (
	"time"

	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	factory   promauto.Factory
	rus       *prometheus.CounterVec
	throttled *prometheus.CounterVec
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
}

// newMetrics registers with r; with nil the metrics are counted and shown nowhere.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		factory: f,
		rus: f.NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_cosmos_request_units_total",
			Help: "Request units that Cosmos DB charged.",
		}, []string{"operation", "container"}),
		throttled: f.NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_cosmos_throttled_total",
			Help: "Requests that Cosmos DB answered 429.",
		}, []string{"operation"}),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_cosmos_requests_total",
			Help: "Requests sent to Cosmos DB, by HTTP status; ok for success, error without an answer.",
		}, []string{"operation", "result"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "binnacle_cosmos_request_seconds",
			Help:    "Time that one request to Cosmos DB took, waits after a 429 not included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"operation"}),
	}
}

// follow shows how far the service's clock is from the machine's.
func (m *metrics) follow(c *store.Clock) {
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "binnacle_cosmos_clock_offset_seconds",
		Help: "Seconds by which the clock of Cosmos DB is ahead of this machine's; 0 where this one may be right.",
	}, func() float64 { return c.Offset().Seconds() })
}

func (m *metrics) request(to call, result string, charge float64, took time.Duration) {
	m.requests.WithLabelValues(to.operation, result).Inc()
	m.rus.WithLabelValues(to.operation, to.container).Add(charge)
	m.seconds.WithLabelValues(to.operation).Observe(took.Seconds())
	if result == "429" {
		m.throttled.WithLabelValues(to.operation).Inc()
	}
}
