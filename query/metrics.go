package query

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics is what the package tells Prometheus.
type metrics struct {
	duration     *prometheus.HistogramVec
	errors       *prometheus.CounterVec
	requestUnits prometheus.Counter
	documents    prometheus.Counter
	rows         prometheus.Counter
	headRows     prometheus.Counter
	incomplete   prometheus.Counter
	memory       prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "binnacle_query_duration_seconds", Help: "Time from a query's start to its last row, by kind of query.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"kind"}),
		errors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_query_errors_total", Help: "Queries that ended with an error, by kind of query.",
		}, []string{"kind"}),
		requestUnits: f.NewCounter(prometheus.CounterOpts{
			Name: "binnacle_query_request_units_total", Help: "Request units charged for queries."}),
		documents: f.NewCounter(prometheus.CounterOpts{
			Name: "binnacle_query_documents_total", Help: "Chunks read for queries."}),
		rows: f.NewCounter(prometheus.CounterOpts{
			Name: "binnacle_query_rows_total", Help: "Rows answered."}),
		headRows: f.NewCounter(prometheus.CounterOpts{
			Name: "binnacle_query_head_rows_total", Help: "Rows taken from ingesters' memory, before merging."}),
		incomplete: f.NewCounter(prometheus.CounterOpts{
			Name: "binnacle_query_incomplete_total", Help: "Answers that were not complete."}),
		memory: f.NewHistogram(prometheus.HistogramOpts{
			Name: "binnacle_query_peak_bytes", Help: "The most bytes of chunks and columns that a query held.",
			Buckets: prometheus.ExponentialBuckets(16<<10, 4, 9),
		}),
	}
}

// observe counts a query of a kind that took so long.
func (m *metrics) observe(kind string, took time.Duration, err error) {
	m.duration.WithLabelValues(kind).Observe(took.Seconds())
	if err != nil {
		m.errors.WithLabelValues(kind).Inc()
	}
}

// answered counts what an answer cost that was read.
func (m *metrics) answered(r Result, peak int64) {
	m.requestUnits.Add(r.Stats.RequestUnits)
	m.documents.Add(float64(r.Stats.Documents))
	m.headRows.Add(float64(r.Stats.HeadRows))
	m.memory.Observe(float64(peak))
	if !r.Complete {
		m.incomplete.Inc()
	}
}
