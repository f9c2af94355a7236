package heatlog

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	documents   prometheus.Counter
	rus         prometheus.Counter
	lost        prometheus.Counter
	lostWeights prometheus.Counter
	keys        prometheus.Gauge
}

// newMetrics registers with r; with nil the metrics are counted and shown nowhere.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		documents: f.NewCounter(prometheus.CounterOpts{Name: "binnacle_heat_documents_total",
			Help: "Documents of heat that were written: what is known of the load."}),
		rus: f.NewCounter(prometheus.CounterOpts{Name: "binnacle_heat_request_units_total",
			Help: "Request units that writing heat took."}),
		lost: f.NewCounter(prometheus.CounterOpts{Name: "binnacle_heat_lost_request_units_total",
			Help: "Request units of the load that no document of heat names by key, because it could not be written."}),
		lostWeights: f.NewCounter(prometheus.CounterOpts{Name: "binnacle_heat_lost_weights_total",
			Help: "Rounds in which the weights of devices could not be written."}),
		keys: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_heat_keys",
			Help: "First-level keys with heat counted in this process."}),
	}
}
