package query

import (
	"time"

	"binnacle/internal/text/recent"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics is the package's metrics.
type metrics struct {
	duration     *prometheus.HistogramVec
	errors       *prometheus.CounterVec
	requestUnits *prometheus.CounterVec
	refused      *prometheus.CounterVec
	tenants      recent.Names[string] // in requestUnits and refused
	documents    prometheus.Counter
	rows         prometheus.Counter
	headRows     prometheus.Counter
	incomplete   prometheus.Counter
	kept         *prometheus.CounterVec
	timeouts     *prometheus.CounterVec
	memory       prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(label, name, help string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return &metrics{
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "binnacle_query_duration_seconds", Help: "Time from a query's start to its last row, by kind of query.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"kind"}),
		errors: counters("kind", "binnacle_query_errors_total", "Queries that ended with an error, by kind of query."),
		requestUnits: counters("tenant", "binnacle_query_request_units_total",
			"Request units charged for queries, for the tenants with the latest queries."),
		tenants: recent.Names[string]{Most: maxTenants},
		refused: counters("tenant", "binnacle_query_refused_total",
			"Queries refused or ended by a limit of their tenant, for the tenants with the latest queries."),
		documents: counter("binnacle_query_documents_total", "Chunks read for queries."),
		rows:      counter("binnacle_query_rows_total", "Rows of answers."),
		headRows: counter("binnacle_query_head_rows_total",
			"Rows read from ingesters' memory, before merging."),
		kept: counters("result", "binnacle_query_kept_answers_total",
			"Parts of PromQL queries that may be kept, by whether some values were kept (hit) or not (miss)."),
		incomplete: counter("binnacle_query_incomplete_total", "Answers that were not complete."),
		timeouts: counters("waiting_for", "binnacle_query_timeouts_total",
			"Queries that exceeded --query-timeout, by what they waited for: store, other."),
		memory: f.NewHistogram(prometheus.HistogramOpts{
			Name: "binnacle_query_peak_bytes", Help: "The most bytes of chunks and columns that a query held.",
			Buckets: prometheus.ExponentialBuckets(16<<10, 4, 9),
		}),
	}
}

// maxTenants bounds the tenants in labels. The one that asked least recently is left out until it asks again.
const maxTenants = 256

func (m *metrics) charged(tenant string, rus float64) {
	m.forTenant(tenant, func(tenant string) { m.requestUnits.WithLabelValues(tenant).Add(rus) })
}

func (m *metrics) forTenant(tenant string, count func(tenant string)) {
	m.tenants.Use(tenant, count, func(tenant string) {
		m.requestUnits.DeleteLabelValues(tenant)
		m.refused.DeleteLabelValues(tenant)
	})
}

func (m *metrics) observe(kind string, took time.Duration, err error) {
	m.duration.WithLabelValues(kind).Observe(took.Seconds())
	if err != nil {
		m.errors.WithLabelValues(kind).Inc()
	}
}

func (m *metrics) answered(r Result, peak int64) {
	m.documents.Add(float64(r.Stats.Documents))
	m.headRows.Add(float64(r.Stats.HeadRows))
	m.memory.Observe(float64(peak))
	if !r.Complete {
		m.incomplete.Inc()
	}
}
