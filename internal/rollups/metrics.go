package rollups

import (
	"errors"

	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	rounds           *prometheus.CounterVec
	builtHours       prometheus.Counter
	documents        prometheus.Counter
	bytes            prometheus.Counter
	lateDevices      prometheus.Counter
	correctedDevices prometheus.Counter
	rus              *prometheus.CounterVec
	lag              prometheus.Gauge
}

// newMetrics registers with r; with nil the metrics are counted and shown nowhere.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &metrics{
		rounds: f.NewCounterVec(prometheus.CounterOpts{Name: "binnacle_views_rounds_total",
			Help: "Rounds over a key and day, by result: ok, error, lost to another writer, no-container."}, []string{"result"}),
		builtHours: counter("binnacle_views_sealed_hours_total", "Hours of a key that got lanes."),
		documents:  counter("binnacle_views_documents_total", "Documents of lanes that were written."),
		bytes:      counter("binnacle_views_written_bytes_total", "Bytes of documents of lanes that were written."),
		lateDevices: counter("binnacle_views_late_devices_total",
			"Devices of a day that had chunks after their lanes were made."),
		correctedDevices: counter("binnacle_views_folded_devices_total", "Devices of a day whose lanes were computed anew."),
		rus: f.NewCounterVec(prometheus.CounterOpts{Name: "binnacle_views_request_units_total",
			Help: "Request units that making lanes has taken, by what for: reading chunks, writing lanes."}, []string{"for"}),
		lag: f.NewGauge(prometheus.GaugeOpts{Name: "binnacle_views_lag_seconds",
			Help: "For how long the oldest hours could have had lanes that had none when they were looked at last."}),
	}
}

func (m *metrics) round(_ Target, r Report, err error) {
	result := "ok"
	switch {
	case errors.Is(err, store.ErrNoContainer):
		result = "no-container" // of a month that nobody has readings of, or that has no lanes
	case err != nil:
		result = "error"
	case r.Lost:
		result = "lost"
	}
	m.rounds.WithLabelValues(result).Inc()
	m.builtHours.Add(float64(r.Built.Count()))
	m.documents.Add(float64(r.Documents))
	m.bytes.Add(float64(r.Bytes))
	m.lateDevices.Add(float64(r.LateDevices))
	m.correctedDevices.Add(float64(r.Corrected))
	m.rus.WithLabelValues("read").Add(r.ReadRUs)
	m.rus.WithLabelValues("write").Add(r.WriteRUs)
}
